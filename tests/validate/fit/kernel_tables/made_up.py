"""Kernel tables whose times follow the formulas of their kind, with known constants."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from perfmodel.specs import GPUSpec, load_gpu
from perfmodel.validate.fit import kernels
from perfmodel.validate.fit.tables import Tables

H100 = load_gpu("h100-sxm-80gb")
Rows = list[dict[str, Any]]
Table = tuple[str, str, str, str]
"""Family, engine, version, name."""
ODD = 1.0
"""Seconds of a call that must not count."""


class MadeUpTables(Tables):
    """Tables in memory."""

    by_name: dict[Table, Rows]

    def __init__(self, by_name: dict[Table, Rows]) -> None:
        super().__init__("tables", "h100_sxm", {}, "tables 1")
        self.__dict__["by_name"] = by_name

    def versions(self, family: str, engine: str, name: str) -> list[str]:
        wanted = (family, engine, name)
        matching = [version for f, e, version, n in self.by_name if (f, e, n) == wanted]
        return sorted(matching)

    def read(self, family: str, engine: str, version: str, name: str) -> dict[str, Any]:
        rows = self.by_name[family, engine, version, name]
        return {column: np.array([row[column] for row in rows]) for column in rows[0]}


# GEMMs.

TOKENS = (1, 16, 17, 32, 64, 100, 300, 512, 2000, 4096)
SHARES = {1: 0.5, 16: 0.6, 17: 0.4, 32: 0.55, 64: 0.7, 512: 0.8, 4096: 0.9}
SHAPES = tuple(
    product((4096, 5120, 8192, 12288, 14336, 16384, 24576), (8192, 10240, 11264, 13312, 16384, 20480, 28672))
)

TOO_LARGE_OR_SMALL = ((8192, 4096, 8192), (2, 1023, 32768), (2, 32768, 1023), (2, 2000, 3999))
"""Calls that must not count."""


def at_knots(shares: dict[int, float]) -> Callable[[float], float]:
    """Straight lines between the knots on doubly logarithmic paper."""
    knots = np.log(list(shares))
    values = np.log(list(shares.values()))
    return lambda m: float(np.exp(np.interp(np.log(m), knots, values)))


def gemms(
    word: str,
    size: float,
    inputs: float,
    peak: float,
    tokens: Sequence[int] = TOKENS,
    shares: dict[int, float] = SHARES,
    smallest: Sequence[float] = (5e-6, 6e-6, 9e-6),
    count: int = 500,
) -> Rows:
    """`count` calls: some at the ends of what counts and beyond them, the rest in SHAPES."""

    efficiency = at_knots(shares)

    def seconds(m: int, n: int, k: int) -> float:
        activations = 2 * m * n + inputs * m * k
        moved = n * k * size + activations
        moved_s = moved / H100.memory_bandwidth_bytes_per_s
        computed_s = 2 * m * n * k / peak
        return 4.5e-6 + max(moved_s, computed_s) / efficiency(m)

    def row(m: int, n: int, k: int, taken: float) -> dict[str, Any]:
        return {"m": m, "n": n, "k": k, "gemm_dtype": word, "seconds": taken}

    first, middle, last = smallest
    rows = [
        row(1, 500, 1000, first),
        row(16, 512, 512, middle),
        row(8, 256, 256, last),
        row(17, 256, 256, 1e-4),
        row(8, 1001, 500, 1e-4),
    ]
    rows += [row(*call, ODD) for call in TOO_LARGE_OR_SMALL]
    edges = ((2, 2000, 4000), (64, 1024, 8192), (4, 8192, 1024))
    usual = ((m, *shape) for shape, m in product(SHAPES, tokens))
    calls = (*edges, *usual)
    rows += [row(*call, seconds(*call)) for call in calls]
    return rows[:count]


EIGHT_BIT_TOKENS = (2, 3, 5, 16, 20, 64, 100, 500, 1000, 2048)
EIGHT_BIT_SHARES = {1: 0.4, 16: 0.5, 64: 0.6, 4096: 0.7}
BF16 = gemms("bfloat16", 2.0, 2.0, H100.peak_flops("bf16"))
FP8 = gemms("fp8", 1.0, 1.0, H100.peak_flops("fp8"), EIGHT_BIT_TOKENS, EIGHT_BIT_SHARES)


# Experts.


EXPERT_SHAPES = (((64, 4), (128, 8)), ((1, 1), (2, 1), (1, 4), (4, 2), (1, 16)))
"""(experts, experts per token), (TP, EP)."""
EXPERT_CALLS = tuple(product((1, 4, 16, 64, 256, 1024), *EXPERT_SHAPES))
"""Tokens and one of each of the shapes."""


def touched(tokens: int, experts: int, topk: int) -> float:
    """Experts on average; popularity has the gamma distribution of shape 1.2 that the tables' routing is
    taken for.
    """
    b = 1 / ((1 - topk / experts) ** (-1 / 1.2) - 1)
    idle = (1 + tokens / b) ** -1.2
    return experts * (1 - idle)


def expert_rows(
    word: str,
    size: float,
    peak: float,
    start: float,
    bandwidth: float,
    flops: float,
    noise: float = 1.0,
    more: Sequence[int] = (),
) -> Rows:
    """60 calls; noise: every other one takes that many times as long, the rest so many times less. more:
    further numbers of tokens, of 10 calls each.
    """
    rows = []
    calls = [*EXPERT_CALLS, *product(more, *EXPERT_SHAPES)]
    for i, (tokens, (experts, topk), (tp, ep)) in enumerate(calls):
        matrices = 3 * 4096 * 1536 / tp
        loaded_bytes = touched(tokens, experts, topk) / ep * matrices * size
        loaded_s = loaded_bytes / H100.memory_bandwidth_bytes_per_s / bandwidth
        computed_s = 2 * tokens * topk / ep * matrices / peak / flops
        noise_now = noise if i % 2 == 0 else 1 / noise
        rows.append(
            {
                "moe_dtype": word,
                "num_tokens": tokens,
                "hidden_size": 4096,
                "inter_size": 1536,
                "topk": topk,
                "num_experts": experts,
                "moe_tp_size": tp,
                "moe_ep_size": ep,
                "kernel_source": "fused",
                "distribution": "power_law_1.01",
                "seconds": (start + loaded_s + computed_s) * noise_now,
            }
        )
    return rows


# Attention.


ATTENTION_CALLS = tuple(
    product((1, 16, 64, 256, 200), (16, 32), (4096, 8192, 16384, 32768, 65536), (64, 128))
)
"""Batch, query heads, step, width of a head."""


def attention_rows(word: str, size: float, start: float, share: float, **more: Any) -> Rows:
    """100 calls of a cache above 1 MB, 4 query heads a KV head."""
    rows = []
    for batch, heads, step, width in ATTENTION_CALLS:
        cached_tokens = batch * (100 + step)
        cache = cached_tokens * heads // 4 * 2 * width * size
        moved_s = (cache + 4 * batch * heads * width) / H100.memory_bandwidth_bytes_per_s
        usual = {
            "batch_size": batch,
            "num_heads": heads,
            "num_key_value_heads": heads // 4,
            "head_dim": width,
            "isl": 100,
            "step": step,
            "window_size": 0,
            "kv_cache_dtype": word,
            "kernel_source": "usual",
            "seconds": start + moved_s / share,
        }
        rows.append(usual | more)
    return rows


SHORT = attention_rows("bfloat16", 2.0, 8e-6, 0.75)[0] | {"batch_size": 1, "isl": 0, "step": 100}
"""A call of a small cache, for the start."""
FEW: dict[Table, Rows] = {
    ("gemm", "vllm", "1", "gemm_perf"): [{"m": 1, "n": 1, "k": 1, "gemm_dtype": "bfloat16", "seconds": ODD}],
    ("attention", "vllm", "1", "generation_attention_perf"): [SHORT],
}
"""Tables that every package has, with too few rows for a fit."""


def distilled(tables: dict[Table, Rows], gpu: GPUSpec = H100, version: str = "1") -> kernels.Kernels:
    return kernels.distil(MadeUpTables(FEW | tables), gpu, "vllm", version)
