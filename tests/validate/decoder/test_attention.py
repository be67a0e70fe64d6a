"""Each implementation against attention written out query by query."""

import math

import pytest
import torch
from torch import Tensor

from perfmodel.validate.decoder import CacheSpan, backends
from perfmodel.validate.decoder.attention import FoldedAttention
from tests.refusals import refused

SHAPES = [(1, 1), (2, 3), (5, 5), (1, 4)]
"""(queries, new tokens): a decoding step, a draft step on scratch, a verification, a later draft step."""


def by_hand(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], new_k: Tensor, new_v: Tensor) -> Tensor:
    out = torch.empty_like(q, dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    n = q.shape[2]
    m = new_k.shape[2]
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            for j in range(n):
                seen = m - n + j + 1
                kv_head = h // group
                keys = torch.cat((k[b, kv_head, :length], new_k[b, kv_head, :seen]))
                values = torch.cat((v[b, kv_head, :length], new_v[b, kv_head, :seen]))
                query = q[b, h, j].double() / math.sqrt(q.shape[-1])
                weights = (keys.double() @ query).softmax(0)
                out[b, h, j] = weights @ values.double()
    return out.transpose(1, 2).flatten(2)


def inputs(
    n: int, m: int, dtype: torch.dtype, heads: int = 6, kv: int = 2, d: int = 16, room: int = 160
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n * 10 + m)
    queries = (3, heads, n, d)
    cached = (3, kv, room, d)
    new = (3, kv, m, d)
    shapes = [queries, cached, cached, new, new]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def check(
    chosen: FoldedAttention,
    n: int,
    m: int,
    dtype: torch.dtype,
    tolerance: float,
    lengths: list[int],
    bound: int = 128,
) -> None:
    q, k, v, new_k, new_v = inputs(n, m, dtype)
    span = CacheSpan(torch.tensor(lengths), bound)
    out = chosen(q, k, v, span, new_k, new_v)
    assert out.dtype == dtype
    wanted = by_hand(q, k, v, lengths, new_k, new_v)
    torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
@pytest.mark.parametrize("name", ["math", "sdpa"])
@pytest.mark.parametrize(
    "lengths",
    [
        [128, 0, 57],
        [0, 0, 0],
    ],
)
def test_portable_implementations(name, dtype, tolerance, n, m, lengths) -> None:
    chosen = backends.choose(name, torch.device("cpu"), dtype)
    least = 1e-6 if name == "sdpa" else 0.0
    check(chosen, n, m, dtype, max(tolerance, least), lengths, max(lengths))


@pytest.mark.parametrize("name", ["math", "sdpa"])
def test_a_sliding_window(name) -> None:
    """Each query sees the cached tokens from its own first on; what lies before `start` is not even looked
    at.
    """
    chosen = backends.choose(name, torch.device("cpu"), torch.float64)
    q, k, v, new_k, new_v = inputs(3, 5, torch.float64)
    lengths = torch.tensor([60, 90, 128])
    window = 40
    last = lengths[:, None] + 2 + torch.arange(3)
    first = last - window + 1
    k[:, :, :23] = torch.nan
    span = CacheSpan(lengths, 128, first=first, start=23)
    k[1:, :, 23:53] = 1e6
    out = chosen(q, k, v, span, new_k, new_v)
    for b, length in enumerate(lengths.tolist()):
        for j in range(3):
            begin = int(first[b, j])
            row = slice(b, b + 1)
            cached = (k[row, :, begin:], v[row, :, begin:])
            seen = slice(0, j + 3)
            fresh = (new_k[row, :, seen], new_v[row, :, seen])
            query = q[row, :, j : j + 1]
            wanted = by_hand(query, *cached, [length - begin], *fresh)
            torch.testing.assert_close(out[row, j : j + 1], wanted, rtol=1e-6, atol=1e-6)


def test_unknown_names_are_refused() -> None:
    refused("sdpa has no fp64 kernel on CUDA", backends.choose, "sdpa", torch.device("cuda"), torch.float64)
    refused("--attention: must be one of", backends.choose, "flash9", torch.device("cpu"), torch.float32)


def near(actual: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["math", "sdpa"])
def test_a_stated_mask(name) -> None:
    """The triangle is the causal mask; a row of the batch sees what its own mask says, and nothing else
    counts.
    """
    chosen = backends.choose(name, torch.device("cpu"), torch.float64)
    q, k, v, new_k, new_v = inputs(3, 5, torch.float64)
    span = CacheSpan(torch.tensor([0, 60, 128]), 128)
    causal = chosen(q, k, v, span, new_k, new_v)
    triangle = torch.ones(3, 5, dtype=torch.bool).tril(2)[None]
    near(chosen(q, k, v, span, new_k, new_v, triangle), causal)
    sees = triangle.repeat(3, 1, 1)
    sees[1, 2] = torch.tensor([True, False, False, True, False])
    out = chosen(q, k, v, span, new_k, new_v, sees)
    row = slice(1, 2)
    one = CacheSpan(span.lengths[row], 128)
    every_third = (new_k[row, :, ::3], new_v[row, :, ::3])
    alone = chosen(q[row, :, 2:], k[row], v[row], one, *every_third)
    near(out[1, 2:], alone[0])
    near(out[[0, 2]], causal[[0, 2]])
