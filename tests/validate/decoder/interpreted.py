"""``python -m tests.validate.decoder.interpreted [CHECK...]``: kernels beside plain torch, all by default.

Run by test_kernels.py in a process of its own, since Triton's interpreter must be asked for before triton is
imported.
"""

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from perfmodel.specs import ModelSpec
from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.decoder import (
    CacheSpan,
    KVCache,
    Layer,
    Projected,
    RandomWeights,
    RankShard,
    Request,
    backends,
    build,
    make_decoder,
)
from perfmodel.validate.decoder.fp8 import FP8, by_row, to_fp8
from perfmodel.validate.decoder.kernels.fp8_rows import rows_to_fp8
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.triton_attention import SplitKV
from perfmodel.validate.decoder.triton_pointwise import Fused
from perfmodel.validate.decoder.triton_product import scaled_product
from perfmodel.validate.decoder.tuning import Tuning
from tests.validate.decoder.test_attention import check, inputs
from tests.validate.tiny_model import tiny_spec

CPU = torch.device("cpu")
TYPES = ((torch.float32, 1e-5), (torch.float16, 5e-3))  # the interpreter miscomputes bf16


class Guarded(TorchFunctionMode):
    """Outputs are no numbers until they are written, and nothing may be written behind them."""

    behind: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        unwritten = func in (torch.empty, torch.empty_like, torch.Tensor.new_empty)
        if not unwritten or out.is_meta:
            return out
        buffer = torch.full((out.nbytes + 128,), 255, dtype=torch.uint8)
        self.behind.append(buffer[out.nbytes :])
        return buffer[: out.nbytes].view(out.dtype).view(out.shape)


def specification(**changes: Any) -> ModelSpec:
    odd = {"hidden_size": 48, "head_dim": 16, "intermediate_size": 72}
    return tiny_spec(**odd | changes)


def near(actual: Any, theirs: Any, tolerance: float = 0) -> None:
    """Of one tensor or of several."""
    torch.testing.assert_close(actual, theirs, rtol=tolerance, atol=tolerance)


def masks(*shape: int, generator: torch.Generator) -> torch.Tensor:
    """Half of all, and each query sees its own token. [..., queries, keys]"""
    drawn = torch.rand(shape, generator=generator) < 0.5
    return drawn | torch.eye(*shape[-2:], dtype=torch.bool)


SIZES = ((1, 1, 1, 0), (2, 3, 3, 0), (3, 3, 2, 1), (1, 4, 3, 0), (22, 25, 2, 0))
"""Queries, keys, stretches, type. The 66 rows of a KV head of the last one are two blocks, and several KV
heads tell a block from a head.
"""


def attention() -> None:
    """Chains, ragged and empty caches, stated masks and sliding windows, in one stretch and in
    several, in one block of rows and in two.
    """
    chosen: Any = backends.choose("triton", CPU, torch.float32)
    portable = backends.choose("math", CPU, torch.float32)
    tolerance = 1e-5
    one_processor = Tuning(programs_per_processor=16)
    parts = [SplitKV(unsplit=True).parts(one_processor, 2, queries, 32_768, CPU) for queries in (1, 4)]
    assert parts == [8, 1], "without a split, the cache is cut for one query only"
    for n, m, splits, kind in SIZES:
        chosen.splits = splits
        check(chosen, n, m, *TYPES[kind], [127, 0, 57])
    q, k, v, new_k, new_v = inputs(2, 4, torch.float32)
    lengths = torch.tensor([20, 60, 128])  # the first window begins before the first token
    first = lengths[:, None] + torch.arange(2) - 30
    generator = torch.Generator().manual_seed(0)
    sees = masks(3, 2, 4, generator=generator)
    whole = CacheSpan(lengths, 128)
    window = CacheSpan(lengths, 128, first=first)
    for span, mask, splits in (
        (whole, sees, 2),
        (whole, sees[:1], 1),
        (window, None, 2),
        (window, sees, 20),  # more than `_combine` takes at a time
    ):
        chosen.splits = splits
        arguments = (q, k, v, span, new_k, new_v, mask)
        near(chosen(*arguments), portable(*arguments), tolerance)


def pointwise() -> None:
    """Each fused step against plain torch: odd sizes, norms of heads, part of a head rotated, both places
    written.
    """
    generator = torch.Generator().manual_seed(0)
    fused = Fused()
    plain = Pointwise()

    def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    for dtype, tolerance in TYPES:
        for hidden in (16, 48, 200):
            x = random(3, 2, hidden, dtype=dtype)
            residual = random(3, 2, hidden, dtype=dtype)
            weight = random(hidden, dtype=dtype)
            normed = fused.add_norm(x, residual, weight, 1e-5)
            near(normed, plain.add_norm(x, residual, weight, 1e-5), tolerance)
            near(fused.silu_mul(residual), plain.silu_mul(residual), tolerance)
        wide = random(2, 1, 3000, dtype=dtype)
        near(fused.silu_mul(wide), plain.silu_mul(wide), tolerance)
        for changes, half in (
            ({}, 8),
            ({"qk_norm": True}, 8),
            ({"head_dim": 24, "qk_norm": True}, 12),
            ({}, 5),
        ):
            spec = specification(**changes)
            layer = Layer(spec, RankShard(), 0)
            for norm in (layer.q_norm, layer.k_norm):
                if norm is not None:
                    norm.data = random(spec.head_dim, dtype=dtype)
            qkv = random(3, 2, 8 * spec.head_dim, dtype=dtype)
            angles = torch.rand(3, 1, 2, half, generator=generator) * 6
            turns = angles.cos().to(dtype), angles.sin().to(dtype)
            by_kernels = rotated(Projected(layer, qkv, turns, fused), spec.head_dim, dtype)
            by_torch = rotated(Projected(layer, qkv, turns, plain), spec.head_dim, dtype)
            near(by_kernels, by_torch, tolerance)


SLOTS = torch.tensor([[0, 1], [5, 6], [63, 2]])


def rotated(projected: Projected, head_dim: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Heads rotated into a cache and beside it, and everything that was written."""
    cache = KVCache((1, 3, 2, 64, head_dim), CPU, dtype)
    scratch = torch.zeros(2, 3, 2, 4, head_dim, dtype=dtype)
    keys, values = scratch[:, :, :, 1:3]
    q, k, v = projected.rotate((keys, values), cache.at(0, SLOTS))
    assert k.data_ptr() == keys.data_ptr()
    return (q, k, v, *projected.rotate(), cache.kv, scratch)


def selection() -> None:
    """Pages and tokens chosen and read by index, beside torch: ragged, empty and short caches, ties, stated
    masks.
    """
    generator = torch.Generator().manual_seed(0)
    for kind, n, m, lengths, page, count in (
        (1, 1, 1, [127, 0, 57], 16, 4),
        (0, 3, 5, [128, 5, 33], 4, 6),
        (0, 2, 2, [1, 2, 3], 16, 1),
    ):
        dtype, tolerance = TYPES[kind]
        fused = backends.selection(backends.choose("triton", CPU, dtype))
        plain = backends.selection(backends.choose("math", CPU, dtype))
        q, k, v, new_k, new_v = inputs(n, m, dtype)
        size = torch.tensor(lengths)
        pages = k[:, :, :128].unflatten(2, (-1, page))
        bounds = pages.amin(3), pages.amax(3)
        filled = (-(-size // page)).clamp(max=count)
        missing = (-size) % page  # of the last page
        chosen = CacheSpan((filled * page - missing).clamp(min=0), count * page)
        sees = masks(3, n, m, generator=generator)
        of_pages = {"bounds": bounds, "page": page, "lengths": size, "chosen": chosen}
        new = {"new_k": new_k, "new_v": new_v}
        by_pages = [one.over_pages(q, k, v, **of_pages, **new, sees=sees) for one in (fused, plain)]
        near(*by_pages, tolerance)
        chosen = CacheSpan(size.clamp(max=7 * count), 7 * count)
        cached = k[:, :, :128], v[:, :, :128]
        of_tokens = {"lengths": size, "chosen": chosen}
        by_tokens = [one.over_tokens(q, *cached, **of_tokens, **new, sees=None) for one in (fused, plain)]
        near(*by_tokens, tolerance)
    few_scores = torch.tensor([[3.0, 0.0, 3.0, -torch.inf, 2.0, 3.0, torch.inf, -2.0]])
    scores = few_scores.repeat(2, 1200)[:, :9001]
    chooser = backends.selection(backends.choose("triton", CPU, torch.float32))
    for count in (1, 400, 9001):
        selected = chooser.search(scores.clone()[None], count)[0]
        falling = scores.sort(dim=-1, descending=True, stable=True).indices
        first = falling[:, :count].sort(-1).values
        assert torch.equal(selected.long(), first), count
    least = torch.tensor([[-1, 0, 1]], dtype=torch.int32).view(torch.float32)  # the first is no number
    assert chooser.search(least[None], 3).tolist() == [[[0, 1, 2]]], "nothing beyond the end is chosen"


def copying() -> None:
    """A commit, and products by expert, as torch has them."""
    generator = torch.Generator().manual_seed(0)
    fused = Fused()
    plain = Pointwise()
    source = torch.randn(4, 3, 2, 40, 24, generator=generator)
    places = torch.tensor([[0, 39], [5, 6], [7, 3]])
    slots = torch.tensor([[2, 3], [0, 16], [16, 1]])
    into = [torch.zeros(4, 3, 2, 17, 24) for _ in "ab"]
    for each, cache in zip((fused, plain), into, strict=True):
        each.copy_tokens(source, places, cache, slots)
    assert torch.equal(*into)
    rows = torch.randn(7, 150, generator=generator)
    weights = torch.randn(5, 70, 150, generator=generator)
    experts = torch.tensor([0, 0, 1, 3, 3, 3, 4])
    wanted = torch.einsum("rk,rmk->rm", rows, weights[experts])
    near(fused.by_expert(rows, weights, experts), wanted, 1e-4)
    peaks = weights.abs().amax(-1).view(-1, 1)
    codes, scale = by_row(weights.flatten(0, 1), peaks)
    codes = codes.view(weights.shape)
    scale = scale.view(5, 70)
    widened = codes.float() * scale[..., None]
    wanted = torch.einsum("rk,rmk->rm", rows, widened[experts])
    near(fused.by_expert(rows, codes, experts, scale), wanted, 1e-3)


def eight() -> None:
    """Rounding to fp8, exactly and of every kind of value; fp8 caches written, copied, attended to and chosen
    from.
    """
    every = torch.arange(256).to(torch.uint8).view(FP8).float()
    every = every[every.isfinite()].sort().values
    halfway = (every[1:] + every[:-1]) / 2
    rounded = torch.cat((every, halfway, torch.randn(2000), torch.logspace(-5, 4, 999)))
    sizes = torch.tensor([[1.0], [1e3], [1e6]])
    rising = torch.randn(3, 1500) * sizes  # the next row's first is a peak
    for x in (rounded[None] * 1.0, rounded[None] * 1e-3, torch.zeros(2, 70), rising):
        codes, scale = rows_to_fp8(x)
        wanted, wanted_scale = by_row(x, x.abs().amax(1, keepdim=True))
        near(codes.float(), wanted.float())
        near(scale, wanted_scale)
    layer = Layer(specification(), RankShard(), 0)
    fused = Fused()
    plain = Pointwise()
    fused.fp8 = plain.fp8 = True
    for dtype, tolerance in TYPES:
        qkv = torch.randn(3, 2, 8 * 16).to(dtype) * 300
        by_kernels = rotated_to_fp8(layer, qkv, fused)
        near(by_kernels, rotated_to_fp8(layer, qkv, plain))
        assert by_kernels[-1].any()
        span = CacheSpan(torch.tensor([0, 60, 128]), 128)
        q, k, v, new_k, new_v = inputs(2, 3, dtype)
        stored = (to_fp8(k), to_fp8(v))
        widened = [part.to(dtype) for part in stored]
        for name in ("triton", "math"):
            chosen = backends.choose(name, CPU, dtype)
            wide = chosen(q, *widened, span, new_k, new_v)
            near(chosen(q, *stored, span, new_k, new_v), wide, tolerance)


def rotated_to_fp8(layer: Layer, qkv: torch.Tensor, kernels: Pointwise) -> tuple[torch.Tensor, ...]:
    """Heads, without a rotation, and a cache that was written and copied."""
    cache = KVCache((1, 3, 2, 64, 16), CPU, FP8)
    copied = KVCache((1, 3, 2, 64, 16), CPU, FP8)
    unturned = torch.ones(3, 1, 2, 8, dtype=qkv.dtype)
    turns = (unturned, torch.zeros_like(unturned))
    projected = Projected(layer, qkv, turns, kernels)
    heads = projected.rotate(None, cache.at(0, SLOTS))
    kernels.copy_tokens(cache.kv.flatten(0, 1), SLOTS, copied.kv.flatten(0, 1), SLOTS)
    return (*heads, *projected.rotate(), cache.kv.float(), copied.kv.float())


def product() -> None:
    """Rows times an fp8 matrix, beside float64: odd sizes, one part and several, odd rows with a bias."""
    library = [(129, 48, 64)] if torch.__version__ >= "2.12" else []  # older: one scale for all rows on a CPU
    for rows, n, k in ((2, 70, 50), (5, 131, 1000), (24, 64, 640), (65, 261, 300), *library):
        x = torch.randn(rows, k)
        weight = torch.randn(n, k)
        bias = torch.randn(n)
        codes, row_scale = by_row(x, x.abs().amax(1, True))
        matrix, scale = by_row(weight, weight.abs().amax(1, True))
        wanted = (codes.double() * row_scale) @ (matrix.double() * scale).mT
        if rows % 2:
            wanted += bias
        scaled = scaled_product(x, matrix, scale[:, 0], bias if rows % 2 else None)
        near(scaled.double(), wanted, 1e-5)


def decoding() -> None:
    """Whole generations, plain torch beside all kernels: a tree and a chain, a layer that slides, either
    cache.
    """
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "qk_norm": True}
    sliding = {"sliding_window": 6, "num_sliding_layers": 1}
    model = build(specification(**heads, **sliding), RandomWeights(0, CPU, torch.float32, 0.3))
    for kv_dtype, more in (
        ("auto", {"draft_kv": "quest:6,page=2", "gamma": 2, "tree": branching("2x1")}),
        ("fp8", {"draft_kv": "topk:4", "gamma": 1}),
    ):
        plain = Request(2, 7, 3, attention="sdpa", pointwise="torch", kv_dtype=kv_dtype, **more)
        kernels = Request(2, 7, 3, attention="triton", pointwise="triton", kv_dtype=kv_dtype, **more)
        prompts = [[7, 3, 9, 7, 3, 8, 9], [5]]
        wanted = make_decoder(model, plain).generate(prompts, 3).tokens
        assert make_decoder(model, kernels).generate(prompts, 3).tokens == wanted, more


CHECKS = (copying, pointwise, eight, product, attention, selection, decoding)

if __name__ == "__main__":
    names = sys.argv[1:] or [check_of_kernels.__name__ for check_of_kernels in CHECKS]
    with torch.no_grad(), Guarded():
        for check_of_kernels in CHECKS:
            if check_of_kernels.__name__ in names:
                check_of_kernels()
    assert all((behind == 255).all() for behind in Guarded.behind)
    print("ok")
