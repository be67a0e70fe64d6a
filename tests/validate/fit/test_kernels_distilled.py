"""What `kernels.distil` makes of tables whose times follow its formulas, beside rows that it must leave
out.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from perfmodel.specs import GPUSpec, load_gpu
from perfmodel.validate.fit import kernels
from perfmodel.validate.fit.tables import Tables
from tests.validate.tiny import refused

H100 = load_gpu("h100-sxm-80gb")
Rows = list[dict[str, Any]]
ODD = 1.0
"""Seconds of a call that must not count."""


class Held(Tables):
    """(family, engine, version, name) -> rows."""

    held: dict[tuple[str, str, str, str], Rows]

    def __init__(self, held: dict[tuple[str, str, str, str], Rows]) -> None:
        super().__init__("tables", "h100_sxm", {}, "tables 1")
        self.__dict__["held"] = held

    def versions(self, family: str, engine: str, name: str) -> list[str]:
        wanted = (family, engine, name)
        matching = [version for f, e, version, n in self.held if (f, e, n) == wanted]
        return sorted(matching)

    def read(self, family: str, engine: str, version: str, name: str) -> dict[str, Any]:
        rows = self.held[family, engine, version, name]
        return {column: np.array([row[column] for row in rows]) for column in rows[0]}


Table = tuple[str, str, str, str]


def distilled(tables: dict[Table, Rows], gpu: GPUSpec = H100, version: str = "1") -> kernels.Kernels:
    return kernels.distil(Held(FEW | tables), gpu, "vllm", version)


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


def gemm_fits(rows: Rows) -> dict[str, kernels.TableFit]:
    return distilled({("gemm", "vllm", "1", "gemm_perf"): rows}).gemm


def test_gemms_of_two_formats_come_out_with_their_knots() -> None:
    slower = [row | {"seconds": 2 * row["seconds"]} for row in BF16]  # another kernel of the same calls
    fits = gemm_fits([*slower, *BF16, *FP8])
    assert list(fits) == ["bf16", "fp8"]
    start, fixed, *pairs = fits["bf16"].values
    assert start == 6e-6  # the median of the three smallest with at most 16 tokens and 1 MB of weights
    assert fixed == pytest.approx(4.5e-6, rel=1e-4)
    assert pairs[::2] == list(SHARES)
    assert pairs[1::2] == pytest.approx(list(SHARES.values()), rel=1e-4)
    assert fits["bf16"].rows == 492  # 500 less four small and four beyond the ends
    assert fits["bf16"].median_error < 1e-6
    assert fits["bf16"].source == "vllm 1"
    # fp8: the last knot is always there; half the bytes, so that the three edges weigh less than 16 MB
    knots = (1, 16, 17, 64, 4096)
    assert fits["fp8"].values[2::2] == knots
    efficiency = at_knots(EIGHT_BIT_SHARES)
    expected = [efficiency(knot) for knot in knots]
    assert fits["fp8"].values[3::2] == pytest.approx(expected, rel=1e-4)
    assert fits["fp8"].rows == 489  # all of SHAPES


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ({}, True),
        ({"count": 499}, False),
        ({"smallest": (30e-6, 30e-6, 30e-6)}, True),
        ({"smallest": (31e-6, 31e-6, 31e-6)}, False),  # not launched from a CUDA graph
        ({"shares": {1: 0.5, 16: 1.2, 4096: 0.9}}, False),
        ({"shares": {1: 0.5, 16: 1.05, 4096: 0.9}}, True),
    ],
)
def test_tables_that_are_short_slow_or_too_good_are_left_out(given, there) -> None:
    rows = gemms("bfloat16", 2.0, 2.0, H100.peak_flops("bf16"), **given)
    assert ("bf16" in gemm_fits(rows)) == there


def test_a_time_far_off_the_others_counts_less() -> None:
    """A soft L1 loss from 0.1 on: d / sqrt(1 + (d / 0.1)^2) add up to 0 where it is least."""
    seconds = np.array([1.0, 1.1, 0.95, 1.2, 5.0])
    fitted = kernels.table_fit(lambda x: np.full(5, x[0]), seconds, [0.5], "")
    off = np.log(fitted.values[0] / seconds)
    derivatives = off / np.hypot(1.0, off / 0.1)
    assert np.sum(derivatives) == pytest.approx(0.0, abs=1e-4)
    assert fitted.median_error == pytest.approx(np.median(np.abs(off)))


# Experts.


EXPERT_CALLS = tuple(
    product((1, 4, 16, 64, 256, 1024), ((64, 4), (128, 8)), ((1, 1), (2, 1), (1, 4), (4, 2), (1, 16)))
)
"""Tokens, (experts, experts per token), (TP, EP)."""


def touched(tokens: int, experts: int, topk: int) -> float:
    """Experts on average; popularity has the gamma distribution of shape 1.2 that the tables' routing is
    taken for.
    """
    b = 1 / ((1 - topk / experts) ** (-1 / 1.2) - 1)
    idle = (1 + tokens / b) ** -1.2
    return experts * (1 - idle)


def expert_rows(
    word: str, size: float, peak: float, start: float, bandwidth: float, flops: float, noise: float = 1.0
) -> Rows:
    """60 calls; noise: every other one takes that many times as long, the rest so many times less."""
    rows = []
    for i, (tokens, (experts, topk), (tp, ep)) in enumerate(EXPERT_CALLS):
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


def expert_fits(rows: Rows) -> dict[str, kernels.TableFit]:
    return distilled({("moe", "vllm", "3", "moe_perf"): rows}).experts


def test_experts_come_out_without_the_rows_that_no_engine_runs() -> None:
    first = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    beyond = ({"num_tokens": 1025}, {"moe_ep_size": 17}, {"distribution": "balanced"})
    odd = [first[0] | {"seconds": ODD} | change for change in beyond]
    odd.append(first[0] | {"seconds": 1e-9, "kernel_source": "nongated"})
    peak = H100.peak_flops("bf16")
    int4 = expert_rows("int4_wo", 0.5 + 2 / 32, peak, 1e-5, 0.4, 0.3)
    noisy = expert_rows("fp8", 1.0, H100.peak_flops("fp8"), 2e-5, 0.7, 0.4, noise=2.0)
    fp8_peak = H100.peak_flops("fp8")
    slow = expert_rows("fp8_block", 1 + 4 / 128**2, fp8_peak, 2e-5, 0.2, 0.4)
    short = expert_rows("w4a16_mxfp4", 0.5 + 1 / 32, peak, 2e-5, 0.7, 0.4)
    no_peak = expert_rows("nvfp4", 0.5625, 1e15, 2e-5, 0.7, 0.4)
    left_out = [*odd, *noisy, *slow, *short[:59], *no_peak]
    fits = expert_fits([*first, *int4, *left_out])
    assert list(fits) == ["bf16", "int4"]
    assert fits["bf16"].values == pytest.approx((2e-5, 0.7, 0.4), rel=1e-5)
    assert fits["int4"].values == pytest.approx((1e-5, 0.4, 0.3), rel=1e-5)
    assert fits["bf16"].rows == 60
    assert fits["bf16"].source == "vllm 3", "there is none of version 1"
    assert distilled({}).experts == {}


def test_the_main_kernel_of_experts_takes_the_best_time_of_any() -> None:
    """`other` is faster at the first call, where the main kernel is slow, and has one call of its own."""
    main = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    slow = main[0] | {"seconds": 3 * main[0]["seconds"]}
    fast = main[0] | {"kernel_source": "other"}
    alone = main[0] | {"kernel_source": "other", "topk": 1, "seconds": ODD}
    fitted = expert_fits([fast, slow, *main[1:], alone])["bf16"]
    assert fitted.values == pytest.approx((2e-5, 0.7, 0.4), rel=1e-5)
    assert fitted.rows == 60


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
NOT_COUNTED = (
    {"batch_size": 257},
    {"head_dim": 192},
    {"window_size": 128},
    {"kernel_source": "other"},
    {"num_heads": 17, "num_key_value_heads": 1, "step": 65536},  # 17 query heads a KV head
    {"num_key_value_heads": 1, "num_heads": 1, "step": 100, "batch_size": 1, "isl": 0},  # 51 kB
)


def attention_fits(rows: Rows, gpu: GPUSpec = H100) -> dict[str, kernels.TableFit]:
    return distilled({("attention", "vllm", "1", "generation_attention_perf"): rows}, gpu).attention


def cache_bytes(row: dict[str, Any], size: float) -> float:
    tokens = row["batch_size"] * (row["isl"] + row["step"])
    return tokens * row["num_key_value_heads"] * 2 * row["head_dim"] * size


def test_attention_comes_out_without_the_rows_that_do_not_count() -> None:
    wide = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    odd = [wide[0] | {"seconds": ODD} | change for change in NOT_COUNTED]
    # KV heads of 0 stand for as many as query heads: 16 x 4196 x 2 x 128 x 2 bytes
    cached = 16 * (4096 + 100) * 2 * 128 * 2
    moved = cached + 4 * 16 * 128
    seconds = 8e-6 + moved / H100.memory_bandwidth_bytes_per_s / 0.75
    same = wide[0] | {"num_key_value_heads": 0, "head_dim": 128, "seconds": seconds}
    fitted = attention_fits([*wide, *odd, same])["bfloat16"]
    assert fitted.values == pytest.approx((8e-6, 0.75), rel=1e-4)
    assert fitted.rows == 101
    assert fitted.source == "vllm 1"


def test_attention_of_sixteen_query_heads_a_kv_head_counts() -> None:
    grouped = attention_rows("fp8", 1.0, 9e-6, 0.5, num_heads=16, num_key_value_heads=1)[:100]
    caches = [cache_bytes(row, 1.0) for row in grouped]
    for row, cache in zip(grouped, caches, strict=True):
        moved = cache + row["batch_size"] * 4 * 16 * row["head_dim"]
        row["seconds"] = 9e-6 + moved / H100.memory_bandwidth_bytes_per_s / 0.5
    wide = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    fitted = attention_fits([*wide, *grouped])
    assert fitted["fp8"].values == pytest.approx((9e-6, 0.5), rel=1e-4)
    assert fitted["fp8"].rows == sum(cache > 1e6 for cache in caches)
    assert list(attention_fits([*wide, *grouped[:99]])) == ["bfloat16"]


def test_a_last_level_cache_hides_what_takes_more_than_50_us_to_read() -> None:
    """L4: 48 MB at 300 GB/s are 160 us; an H100's 50 MB are 15 us."""
    rows = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    caches = [cache_bytes(row, 2.0) for row in rows]
    beyond = sum(cache > 48e6 for cache in caches)
    assert 0 < beyond < 100
    assert attention_fits([*rows, SHORT], load_gpu("l4-24gb"))["bfloat16"].rows == beyond
    assert attention_fits(rows)["bfloat16"].rows == 100
    assert attention_fits(rows, H100.replace(last_level_cache=None))["bfloat16"].rows == 100


# Latent attention.


def latent_rows(word: str, size: float, start: float, share: float, flops: float) -> Rows:
    rows = []
    for batch, heads, step in product((1, 8, 64, 256), (16, 128), (2047, 8191, 32767)):
        tokens = batch * (step + 1)
        wide = 576 + 512
        moved = tokens * 576 * size + 2 * batch * heads * wide
        load = moved / H100.memory_bandwidth_bytes_per_s / share
        compute_flops = 2 * tokens * heads * wide
        compute = compute_flops / H100.peak_flops("bf16") / flops
        call = {"num_heads": heads, "batch_size": batch, "isl": 1, "step": step, "kv_cache_dtype": word}
        rows.append(call | {"seconds": start + max(load, compute)})
    return rows


def latent_fits(rows: Rows, engine: str = "vllm", version: str = "1") -> dict[str, kernels.TableFit]:
    return distilled({("mla", engine, version, "generation_mla_perf"): rows}).latent


@pytest.mark.parametrize(("engine", "version"), [("vllm", "2"), ("sglang", "3"), ("trtllm", "4")])
def test_latent_attention_comes_out_of_the_table_of_any_engine(engine: str, version: str) -> None:
    wide = latent_rows("bfloat16", 2.0, 1.5e-5, 0.6, 0.45)
    narrow = latent_rows("fp8", 1.0, 1.2e-5, 0.2, 0.4)
    beyond = ({"batch_size": 257}, {"step": 99})  # the second is 115 kB
    odd = [wide[0] | {"seconds": ODD} | change for change in beyond]
    slower = [row | {"seconds": 3 * row["seconds"]} for row in wide]
    fits = latent_fits([*slower, *wide, *odd, *narrow], engine, version)
    assert list(fits) == ["bfloat16"]  # fp8 reaches less than 0.3 of the bandwidth
    assert fits["bfloat16"].values == pytest.approx((1.5e-5, 0.6, 0.45), rel=1e-5)
    assert fits["bfloat16"].rows == 24
    assert fits["bfloat16"].source == f"{engine} {version}"


def test_times_of_latent_attention_that_scatter_are_left_out() -> None:
    rows = latent_rows("bfloat16", 2.0, 1.5e-5, 0.6, 0.45)
    for row in rows[::2]:
        row["seconds"] *= 4
    assert latent_fits(rows) == {}
    assert distilled({}).latent == {}


# All-reduce, and everything together.


def test_an_all_reduce_takes_the_fastest_kernel_of_any_engine_at_each_knot() -> None:
    """Sizes are in 16-bit values; a knot between two sizes is met on doubly logarithmic paper, and times
    never fall.
    """

    def row(
        devices: int, values: int, seconds: float, op: str = "all_reduce", source: str = "graph"
    ) -> dict[str, Any]:
        return {
            "op_name": op,
            "num_gpus": devices,
            "message_size": values,
            "seconds": seconds,
            "kernel_source": source,
        }

    custom = [
        row(2, 8192, 5e-6),
        row(2, 32768, 9e-6),
        row(2, 131072, 8e-6),
        row(2, 32768, 1e-9, source="eager"),
    ]
    nccl = [row(2, 8192, 7e-6), row(2, 32768, 6e-6), row(2, 2097152, 128e-6), row(4, 8192, 1e-5)]
    nccl.append(row(2, 32768, 1e-9, op="all_gather"))
    for one in nccl:
        del one["kernel_source"]
    tables: dict[Table, Rows] = {
        ("comm", "vllm", "2", "custom_allreduce_perf"): custom,
        ("comm", "vllm", "1", "custom_allreduce_perf"): [row(2, 8192, 4.5e-6)],
        ("comm", "nccl", "1", "nccl_perf"): nccl,
    }
    fastest = distilled(tables).allreduce
    sizes, seconds = zip(*fastest[2], strict=True)
    assert sizes == (16384, 65536, 262144, 1048576)
    # 1048576 lies between 262144 (8 us) and 4194304 bytes (128 us), halfway on paper: the geometric mean
    assert seconds == pytest.approx((4.5e-6, 6e-6, 8e-6, 32e-6), rel=1e-9), "of an older version the first"
    assert fastest[4] == [(16384.0, pytest.approx(1e-5))]
    falling = [row(2, 8192, 9e-6), row(2, 32768, 5e-6)]
    table = ("comm", "vllm", "2", "custom_allreduce_perf")
    (*_, after) = distilled({table: falling}).allreduce[2]
    assert after == (65536.0, pytest.approx(9e-6))


def sources(fits: dict[str, kernels.TableFit]) -> dict[str, str]:
    return {form: fit.source for form, fit in fits.items()}


def test_a_format_without_a_table_is_taken_from_another_engine_and_an_old_version_on_request() -> None:
    older = [row | {"seconds": row["seconds"] * 1.1} for row in BF16]
    attention = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    experts = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    other = expert_rows("int4_wo", 0.5625, H100.peak_flops("bf16"), 1e-5, 0.4, 0.3)
    odd_fp8 = [row | {"seconds": ODD} for row in FP8]
    slow_experts = [row | {"seconds": row["seconds"] * 2} for row in experts]
    tables = {
        ("gemm", "vllm", "1", "gemm_perf"): older,
        ("gemm", "vllm", "2", "gemm_perf"): BF16,
        ("gemm", "trtllm", "7", "gemm_perf"): [*older, *FP8],
        ("gemm", "trtllm", "6", "gemm_perf"): odd_fp8,
        ("moe", "vllm", "2", "moe_perf"): experts,
        ("moe", "sglang", "5", "moe_perf"): [*other, *slow_experts],
        ("attention", "vllm", "2", "generation_attention_perf"): attention,
    }
    both = Held(tables)
    constants = kernels.distil(both, H100, "vllm")
    assert constants.source == "tables 1, vllm 2"
    start, fixed, *_ = constants.gemm["bf16"].values
    assert start == pytest.approx(6e-6)
    assert fixed == pytest.approx(4.5e-6, rel=1e-4)
    assert sources(constants.gemm) == {"bf16": "vllm 2", "fp8": "trtllm 7"}
    assert sources(constants.experts) == {"bf16": "vllm 2", "int4": "sglang 5"}
    assert constants.latent == {}
    assert constants.allreduce == {}
    assert kernels.distil(both, H100, "vllm", "1").source == "tables 1, vllm 1"
    unknown = "--version: must be one of 1, 2 for vllm on h100-sxm-80gb, given 3"
    refused(unknown, kernels.distil, both, H100, "vllm", "3")
    refused("must be one of none for sglang", kernels.distil, both, H100, "sglang")
