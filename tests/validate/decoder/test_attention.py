"""Each implementation against attention written out query by query."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder import backends
from perfmodel.validate.decoder.attention import Attention, Span, causal_bias, merge, partial_math, partial_sdpa

SHAPES = [(1, 1), (2, 3), (5, 5), (1, 4)]
"""(queries, new tokens): a decoding step, a draft step on scratch, a verification, a later draft step."""


def by_hand(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], new_k: Tensor, new_v: Tensor) -> Tensor:
    out = torch.empty_like(q, dtype=torch.float64)
    group, n, m = q.shape[1] // k.shape[1], q.shape[2], new_k.shape[2]
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            for j in range(n):
                seen = m - n + j + 1
                keys = torch.cat((k[b, h // group, :length], new_k[b, h // group, :seen])).double()
                values = torch.cat((v[b, h // group, :length], new_v[b, h // group, :seen])).double()
                weights = (keys @ q[b, h, j].double() / math.sqrt(q.shape[-1])).softmax(0)
                out[b, h, j] = weights @ values
    return out


def inputs(
    n: int, m: int, dtype: torch.dtype, heads: int = 4, kv: int = 2, d: int = 16, room: int = 160
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n * 10 + m)
    shapes = [(3, heads, n, d), (3, kv, room, d), (3, kv, room, d), (3, kv, m, d), (3, kv, m, d)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def check(chosen: Attention, n: int, m: int, dtype: torch.dtype, tolerance: float, lengths: list[int]) -> None:
    q, k, v, new_k, new_v = inputs(n, m, dtype)
    out = chosen(q, k, v, Span(torch.tensor(lengths), 128), new_k, new_v)
    assert out.shape == q.shape
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), by_hand(q, k, v, lengths, new_k, new_v), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
@pytest.mark.parametrize("name", ["math", "sdpa"])
def test_portable_implementations(name: str, dtype: torch.dtype, tolerance: float, n: int, m: int) -> None:
    check(
        backends.choose(name, torch.device("cpu"), dtype),
        n,
        m,
        dtype,
        max(tolerance, 1e-6 * (name == "sdpa")),
        [128, 1, 57],
    )


@pytest.mark.parametrize("name", ["math", "sdpa"])
def test_an_empty_cache_contributes_nothing(name: str) -> None:
    chosen = backends.choose(name, torch.device("cpu"), torch.float32)
    q, k, v, new_k, new_v = inputs(3, 3, torch.float32)
    wanted = by_hand(q, k, v, [0, 0, 5], new_k, new_v)
    out = chosen(q, k, v, Span(torch.tensor([0, 0, 5]), 8), new_k, new_v)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-5)
    none = chosen(q, k, v, Span(torch.tensor([0, 0, 0]), 0), new_k, new_v)
    torch.testing.assert_close(none.double()[:2], wanted[:2], rtol=1e-5, atol=1e-5)


def test_an_exact_span_needs_no_mask() -> None:
    lengths = torch.tensor([7, 7])
    assert Span(lengths, 7, exact=True).bias(torch.float32) is None
    bias = Span(torch.tensor([7, 2]), 7).bias(torch.float32)
    assert bias is not None
    assert (bias[:, 0, 0] == 0).tolist() == [[True] * 7, [True] * 2 + [False] * 5]


@pytest.mark.parametrize("partial", [partial_math, partial_sdpa])
def test_merging_parts_is_attending_to_the_whole(partial: object) -> None:
    q, k, v, *_ = inputs(4, 4, torch.float64, heads=2)
    whole, lse = partial(q, k, v, None)  # type: ignore[operator]
    parts = [partial(q, k[:, :, a:b], v[:, :, a:b], None) for a, b in ((0, 50), (50, 160))]  # type: ignore[operator]
    torch.testing.assert_close(merge(parts[0], parts[1]), whole, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(torch.logaddexp(parts[0][1], parts[1][1]), lse, rtol=1e-6, atol=1e-6)


def test_new_tokens_are_causal_among_themselves() -> None:
    bias = causal_bias(2, 3, 2, torch.float32, torch.device("cpu"))
    assert bias is not None
    assert (bias[0, 0] == 0).tolist() == [[True, True, False], [True, True, True]] * 2


def test_masks_stay_finite_in_powers_of_two() -> None:
    """A sequence without a cached token must give no -inf (and no NaN) in a kernel that multiplies by log2(e)."""
    bias = Span(torch.tensor([0]), 4).bias(torch.bfloat16)
    causal = causal_bias(2, 2, 1, torch.float32, torch.device("cpu"))
    assert bias is not None
    assert causal is not None
    assert all((mask.float() * math.log2(math.e)).isfinite().all() for mask in (bias, causal))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="sdpa has no fp64 kernel on CUDA"):
        backends.choose("sdpa", torch.device("cuda"), torch.float64)
    with pytest.raises(InputError, match="--attention: must be one of"):
        backends.choose("flash9", torch.device("cpu"), torch.float32)


INTERPRETED = """
import sys, warnings
sys.path[:0] = [{tests!r}, {root!r}]
import torch
from test_attention import SHAPES, check, inputs
from perfmodel.validate.decoder.attention import Span
from perfmodel.validate.decoder.backends import choose
for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 5e-3)):  # the interpreter miscomputes bf16
    chosen = choose("triton", torch.device("cpu"), dtype)
    for splits in (1, 3):
        chosen.splits = splits
        for n, m in SHAPES:
            check(chosen, n, m, dtype, tolerance, [128, 1, 57])
            check(chosen, n, m, dtype, tolerance, [0, 64, 127])
    q, k, v, new_k, new_v = inputs(2, 3, dtype, heads=6)
    packed = k.transpose(1, 2).contiguous().transpose(1, 2)
    span = Span(torch.tensor([5, 100, 128]), 128)
    assert torch.equal(chosen(q, k, v, span, new_k, new_v), chosen(q, packed, v, span, new_k, new_v)), "strides"
print("ok")
"""


def test_the_triton_kernel_interpreted() -> None:
    """On a CPU through Triton's interpreter, which must be asked for before triton is imported."""
    pytest.importorskip("triton")
    root = Path(__file__).parents[3]
    code = INTERPRETED.format(tests=str(Path(__file__).parent), root=str(root))
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr[-2000:]


COMPILED = """
import sys
sys.path.insert(0, {root!r})
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from perfmodel.validate.decoder.triton_attention import BLOCK, _combine, _split
for kernel, rows, stages in ((_split, 4, 3), (_split, 20, 3), (_split, 128, 3), (_combine, 20, 1)):
    sizes = dict(HEADS=8, QUERIES=rows // 4, ROWS=rows, PAD=max(16, triton.next_power_of_2(rows)), D=128)
    sizes |= dict(TILE=BLOCK, NEW_TILE=32)
    types = dict(lengths_at="*i64", out_at="*fp32", lse_at="*fp32", scale="fp32")
    constants = {{name: size for name, size in sizes.items() if name in kernel.arg_names}}
    signature = {{
        name: "constexpr" if name in constants else types.get(name, "*bf16" if name.endswith("_at") else "i32")
        for name in kernel.arg_names
    }}
    aligned = [
        index for index, name in enumerate(kernel.arg_names) if name.endswith(("_at", "_b", "_h", "_s"))
    ]
    source = ASTSource(kernel, signature, constants, {{(index,): [["tt.divisibility", 16]] for index in aligned}})
    options = dict(num_warps=4, num_stages=stages, enable_fp_fusion=True)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert made.metadata.shared <= 227 * 1024, made.metadata.shared
    assert "ld.local" not in made.asm["ptx"], "registers spill"
    assert kernel is _combine or "cp.async" in made.asm["ptx"], "the cache is not read ahead"
print("ok")
"""


@pytest.mark.slow
def test_the_triton_kernel_compiles_for_hopper() -> None:
    """Without a device: it fits in shared memory, keeps to registers, and reads ahead while it computes."""
    pytest.importorskip("triton")
    code = COMPILED.format(root=str(Path(__file__).parents[3]))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr[-2000:]


@pytest.mark.cuda
@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("name", ["math", "sdpa", "triton"])
def test_on_cuda(name: str, n: int, m: int) -> None:
    device = torch.device("cuda")
    chosen = backends.choose(name, device, torch.bfloat16)
    q, k, v, new_k, new_v = inputs(n, m, torch.bfloat16, heads=8, d=64, room=192)
    lengths = [128, 1, 57]
    on = [x.to(device) for x in (q, k, v)]
    out = chosen(*on, Span(torch.tensor(lengths, device=device), 128), new_k.to(device), new_v.to(device))
    torch.testing.assert_close(out.double().cpu(), by_hand(q, k, v, lengths, new_k, new_v), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["math", "sdpa"])
def test_a_stated_mask(name: str) -> None:
    """The triangle is the causal mask; a row of the batch sees what its own mask says, and nothing else counts."""
    chosen = backends.choose(name, torch.device("cpu"), torch.float64, masked=True)
    q, k, v, new_k, new_v = inputs(3, 5, torch.float64)
    span = Span(torch.tensor([0, 60, 128]), 128)
    causal = chosen(q, k, v, span, new_k, new_v)
    triangle = torch.ones(3, 5, dtype=torch.bool).tril(2)[None]
    torch.testing.assert_close(chosen(q, k, v, span, new_k, new_v, triangle), causal, rtol=1e-12, atol=1e-12)
    sees = triangle.repeat(3, 1, 1)
    sees[1, 2] = torch.tensor([True, False, False, True, False])
    out = chosen(q, k, v, span, new_k, new_v, sees)
    alone = chosen(q[1:2, :, 2:], k[1:2], v[1:2], Span(span.lengths[1:2], 128), new_k[1:2, :, ::3], new_v[1:2, :, ::3])
    torch.testing.assert_close(out[1, :, 2:], alone[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(out[[0, 2]], causal[[0, 2]], rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match="triton's kernel takes chains only"):
        backends.choose("triton", torch.device("cpu"), torch.float32, masked=True)
