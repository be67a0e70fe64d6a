"""``python -m tests.validate.decoder.interpreted [PART...]``, all parts by default: kernels beside plain torch.

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
    KVCache,
    Layer,
    Projected,
    RandomWeights,
    RankShard,
    Request,
    Span,
    backends,
    build,
    make_decoder,
)
from perfmodel.validate.decoder.fp8 import FP8, by_row, to_fp8
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.triton_pointwise import Fused, rows_to_fp8
from perfmodel.validate.decoder.triton_product import scaled_product
from tests.validate.decoder.test_attention import check, inputs
from tests.validate.tiny import tiny_spec

CPU = torch.device("cpu")
TYPES = ((torch.float32, 1e-5), (torch.float16, 5e-3))  # the interpreter miscomputes bf16


class Guarded(TorchFunctionMode):
    """Outputs are no numbers until they are written, and nothing may be written behind them."""

    behind: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func not in (torch.empty, torch.empty_like, torch.Tensor.new_empty) or out.is_meta:
            return out
        held = torch.full((out.nbytes + 128,), 255, dtype=torch.uint8)
        self.behind.append(held[out.nbytes :])
        return held[: out.nbytes].view(out.dtype).view(out.shape)


def specification(**changes: Any) -> ModelSpec:
    return tiny_spec(**{"hidden_size": 48, "head_dim": 16, "intermediate_size": 72, **changes})


def near(actual: Any, theirs: Any, tolerance: float = 0) -> None:
    """Of one tensor or of several."""
    torch.testing.assert_close(actual, theirs, rtol=tolerance, atol=tolerance)


def attention() -> None:
    """Chains, ragged and empty caches, stated masks and sliding windows, in one stretch and in
    several, in one block of rows and in two.
    """
    chosen: Any = backends.choose("triton", CPU, torch.float32)
    portable = backends.choose("math", CPU, torch.float32)
    tolerance = 1e-5
    for n, m, splits, kind in ((1, 1, 1, 0), (2, 3, 3, 0), (3, 3, 2, 1), (1, 4, 3, 0), (22, 25, 2, 0)):
        chosen.splits = splits
        check(chosen, n, m, *TYPES[kind], [127, 0, 57])
    q, k, v, new_k, new_v = inputs(2, 4, torch.float32)
    lengths = torch.tensor([20, 60, 128])  # the first window begins before the first token
    first = lengths[:, None] + torch.arange(2) - 30
    generator = torch.Generator().manual_seed(0)
    sees = (torch.rand(3, 2, 4, generator=generator) < 0.5) | torch.eye(2, 4, dtype=torch.bool)
    for span, mask, splits in (
        (Span(lengths, 128), sees, 2),
        (Span(lengths, 128), sees[:1], 1),
        (Span(lengths, 128, first=first), None, 2),
        (Span(lengths, 128, first=first), sees, 20),  # more than `_combine` takes at a time
    ):
        chosen.splits = splits
        near(*(each(q, k, v, span, new_k, new_v, mask) for each in (chosen, portable)), tolerance)


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
            x, residual, weight = (
                random(*s, dtype=dtype) for s in ((3, 2, hidden), (3, 2, hidden), (hidden,))
            )
            near(*(each.add_norm(x, residual, weight, 1e-5) for each in (fused, plain)), tolerance)
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
            slots = torch.tensor([[0, 1], [5, 6], [63, 2]])
            made = []
            for each in (fused, plain):
                cache = KVCache((1, 3, 2, 64, spec.head_dim), CPU, dtype)
                scratch = torch.zeros(2, 3, 2, 4, spec.head_dim, dtype=dtype)
                out = scratch[0][:, :, 1:3], scratch[1][:, :, 1:3]
                projected = Projected(layer, qkv, turns, each)
                q, k, v = projected.rotate(out, cache.at(0, slots))
                assert k.data_ptr() == out[0].data_ptr()
                made.append((q, k, v, *projected.rotate(), cache.kv, scratch))
            near(*made, tolerance)


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
        fused, plain = (backends.selection(backends.choose(name, CPU, dtype)) for name in ("triton", "math"))
        q, k, v, new_k, new_v = inputs(n, m, dtype)
        size = torch.tensor(lengths)
        pages = k[:, :, :128].unflatten(2, (-1, page))
        bounds = pages.amin(3), pages.amax(3)
        filled = (-(-size // page)).clamp(max=count)
        chosen = Span((filled * page - (-size) % page).clamp(min=0), count * page)
        sees = (torch.rand(3, n, m, generator=generator) < 0.5) | torch.eye(n, m, dtype=torch.bool)
        arguments = q, k, v, bounds, page, size, chosen, new_k, new_v, sees
        near(fused.over_pages(*arguments), plain.over_pages(*arguments), tolerance)
        chosen = Span(size.clamp(max=7 * count), 7 * count)
        arguments = q, k[:, :, :128], v[:, :, :128], size, chosen, new_k, new_v, None
        near(fused.over_tokens(*arguments), plain.over_tokens(*arguments), tolerance)
    scores = torch.tensor([[3.0, 0.0, 3.0, -torch.inf, 2.0, 3.0, torch.inf, -2.0]]).repeat(2, 1200)[:, :9001]
    chooser = backends.selection(backends.choose("triton", CPU, torch.float32))
    for count in (1, 400, 9001):
        found = chooser.search(scores.clone()[None], count)[0]
        first = scores.sort(dim=-1, descending=True, stable=True).indices[:, :count].sort(-1).values
        assert torch.equal(found.long(), first), count
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
    near(fused.by_expert(rows, weights, experts), torch.einsum("rk,rmk->rm", rows, weights[experts]), 1e-4)
    codes, scale = by_row(weights.flatten(0, 1), weights.abs().amax(-1).view(-1, 1))
    codes = codes.view(weights.shape)
    scale = scale.view(5, 70)
    wanted = torch.einsum("rk,rmk->rm", rows, (codes.float() * scale[..., None])[experts])
    near(fused.by_expert(rows, codes, experts, scale), wanted, 1e-3)


def eight() -> None:
    """Rounding to fp8, exactly and of every kind of value; fp8 caches written, copied, attended to and chosen
    from.
    """
    every = torch.arange(256).to(torch.uint8).view(FP8).float()
    every = every[every.isfinite()].sort().values
    rounded = torch.cat((every, (every[1:] + every[:-1]) / 2, torch.randn(2000), torch.logspace(-5, 4, 999)))
    rising = torch.randn(3, 1500) * torch.tensor([[1.0], [1e3], [1e6]])  # the next row's first is a peak
    for x in (rounded[None] * 1.0, rounded[None] * 1e-3, torch.zeros(2, 70), rising):
        made = rows_to_fp8(x), by_row(x, x.abs().amax(1, keepdim=True))
        near(*([codes.float(), scale] for codes, scale in made))
    layer = Layer(specification(), RankShard(), 0)
    fused = Fused()
    plain = Pointwise()
    fused.fp8 = plain.fp8 = True
    for dtype, tolerance in TYPES:
        qkv = torch.randn(3, 2, 8 * 16).to(dtype) * 300
        flat = torch.ones(3, 1, 2, 8, dtype=dtype)
        rotated = []
        for each in (fused, plain):
            cache, copied = (KVCache((1, 3, 2, 64, 16), CPU, FP8) for _ in "ab")
            slots = torch.tensor([[0, 1], [5, 6], [63, 2]])
            turns = (flat, torch.zeros_like(flat))
            projected = Projected(layer, qkv, turns, each)
            heads = projected.rotate(None, cache.at(0, slots))
            each.copy_tokens(cache.kv.flatten(0, 1), slots, copied.kv.flatten(0, 1), slots)
            rotated.append((*heads, *projected.rotate(), cache.kv.float(), copied.kv.float()))
        near(*rotated)
        assert rotated[0][-1].any()
        span = Span(torch.tensor([0, 60, 128]), 128)
        q, k, v, new_k, new_v = inputs(2, 3, dtype)
        stored = to_fp8(k), to_fp8(v)
        for each in (backends.choose("triton", CPU, dtype), backends.choose("math", CPU, dtype)):
            wide = each(q, *(part.to(dtype) for part in stored), span, new_k, new_v)
            near(each(q, *stored, span, new_k, new_v), wide, tolerance)


def product() -> None:
    """Rows times an fp8 matrix, beside float64: odd sizes, one part and several, odd rows with a bias."""
    library = [(129, 48, 64)] if torch.__version__ >= "2.12" else []  # older: one scale for all rows on a CPU
    for rows, n, k in ((2, 70, 50), (5, 131, 1000), (24, 64, 640), (65, 261, 300), *library):
        x = torch.randn(rows, k)
        weight = torch.randn(n, k)
        bias = torch.randn(n)
        (codes, own), (matrix, scale) = (by_row(each, each.abs().amax(1, True)) for each in (x, weight))
        wanted = (codes.double() * own) @ (matrix.double() * scale).mT
        found = scaled_product(x, matrix, scale[:, 0], bias if rows % 2 else None)
        near(found.double(), wanted + bias * (rows % 2), 1e-5)


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
        found = []
        for attention, pointwise in (("sdpa", "torch"), ("triton", "triton")):
            request = Request(2, 7, 3, attention=attention, pointwise=pointwise, kv_dtype=kv_dtype, **more)
            found.append(make_decoder(model, request).generate([[7, 3, 9, 7, 3, 8, 9], [5]], 3).tokens)
        assert found[0] == found[1], more


PARTS = (copying, pointwise, eight, product, attention, selection, decoding)

if __name__ == "__main__":
    asked = sys.argv[1:] or [part.__name__ for part in PARTS]
    with torch.no_grad(), Guarded():
        for part in PARTS:
            if part.__name__ in asked:
                part()
    assert all((each == 255).all() for each in Guarded.behind)
    print("ok")
