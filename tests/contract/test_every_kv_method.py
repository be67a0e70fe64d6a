"""What every KV method must keep. A file that is added is found by its name, and held to the same."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel import kv

# Llama-3.1-8B, bf16: 2 x 8 heads x 128 x 2 bytes = 4096 bytes per token and layer
LLAMA = kv.KVLayout(num_kv_heads=8, head_dim=128, values_per_token=2048, query_heads=32, bytes_per_value=2)
# DeepSeek-V3 MLA, bf16: latent 512 + rope 64 = 576 values, 1152 bytes
LATENT = kv.KVLayout(num_kv_heads=1, head_dim=576, values_per_token=576, query_heads=128, bytes_per_value=2)
CONTEXTS = np.array([1.0, 31.5, 512.0, 513.0, 4096.0, 4097.0, 32_000.0, 1e6])
COSTS = ("select_step", "select_iteration", "setup")

every_method = pytest.mark.parametrize("name", kv.names())
every_layout = pytest.mark.parametrize("layout", [LLAMA, LATENT], ids=["gqa", "mla"])


def example(name: str) -> kv.KVMethod:
    return kv.parse_kv(kv.method(name).example)


def quantities(
    method: kv.KVMethod, context: float | NDArray[np.float64], layout: kv.KVLayout
) -> Iterator[tuple[str, Any]]:
    yield "attended", method.attended_tokens(context)
    yield "read", method.read_bytes(context, layout)
    yield "stored", method.stored_bytes(context, layout)
    yield "own", method.own_bytes(context, layout)
    for cost in COSTS:
        step = getattr(method, cost)(context, layout)
        for figure in ("flops", "bytes", "kernels"):
            yield f"{cost}.{figure}", getattr(step, figure)


@every_method
@every_layout
def test_a_grid_of_contexts_costs_what_each_context_alone_costs(name: str, layout: kv.KVLayout) -> None:
    grid = np.broadcast_to(CONTEXTS.reshape(2, 1, 4), (2, 3, 4))
    singles = [dict(quantities(example(name), float(c), layout)) for c in CONTEXTS]
    for key, value in quantities(example(name), grid, layout):
        assert np.shape(value) in ((), grid.shape), key
        expected = np.array([float(s[key]) for s in singles]).reshape(2, 1, 4)
        np.testing.assert_array_equal(
            np.broadcast_to(value, grid.shape), np.broadcast_to(expected, grid.shape), key
        )


@every_method
@every_layout
def test_costs_are_finite_and_never_fall_with_the_context(name: str, layout: kv.KVLayout) -> None:
    """And a step never reads less than what it attends to, unless a whole cache is kept in fewer bits."""
    method = example(name)
    for key, value in quantities(method, CONTEXTS, layout):
        series = np.broadcast_to(value, CONTEXTS.shape)
        assert np.all(np.isfinite(series) & (series >= 0)), key
        assert np.all(np.diff(series) >= 0), key
    if method.budget is not None or not hasattr(method, "bits"):
        assert np.all(
            method.read_bytes(CONTEXTS, layout) >= method.attended_tokens(CONTEXTS) * layout.token_bytes
        )


@every_method
def test_a_method_says_what_it_is_and_attends_to_the_smaller_of_budget_and_context(name: str) -> None:
    kv_method = kv.method(name)
    method = example(name)
    assert kv_method.name == name
    assert "arXiv" in kv_method.source
    assert kv_method.__doc__
    assert not kv_method.__doc__.startswith(f"{kv_method.__name__}(")
    assert method.label().startswith(name)
    attended = method.attended_tokens(CONTEXTS)
    assert np.all(attended <= CONTEXTS)
    if method.budget is not None:
        np.testing.assert_array_equal(attended, np.minimum(method.budget, CONTEXTS))
    assert not np.isnan(method.attended_tokens(np.asarray(np.inf)))


@pytest.mark.parametrize("text", [*(kv.method(name).example for name in kv.names()), "pillar:1024"])
@every_layout
def test_a_context_within_the_budget_costs_what_the_full_cache_costs(text: str, layout: kv.KVLayout) -> None:
    method = kv.parse_kv(text)
    full = kv.parse_kv("full")
    if method.budget is not None:
        context = np.array([1.0, 100.0, float(method.budget) - 0.5, float(method.budget)])
        pairs = zip(quantities(method, context, layout), quantities(full, context, layout), strict=True)
        for (key, one), (_, two) in pairs:
            np.testing.assert_array_equal(
                np.broadcast_to(one, context.shape), np.broadcast_to(two, context.shape), key
            )
