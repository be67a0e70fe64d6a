"""Recurrent layers, by hand: 2 heads of keys of 8, 4 heads of values of 16, a convolution over 4 tokens."""

from typing import Any, NamedTuple

import pytest

from perfmodel.specs import LinearAttention

HIDDEN = 100
"""Width of the model."""
VALUES = 4 * 16
KEYS = 2 * 8
STATE = 4 * 8 * 16


class Sizes(NamedTuple):
    """Columns, parameters and values of one layer."""

    convolved: int
    projected: int
    small_params: int
    state_values: int
    flops_per_value: int


def layer(kind: str, **changes: Any) -> LinearAttention:
    shape = {"layers": 3, "num_key_heads": 2, "num_value_heads": 4, "key_head_dim": 8, "value_head_dim": 16}
    return LinearAttention.of_mapping({"kind": kind, **shape, **changes})


MIXED = VALUES + 2 * KEYS
"""Values, keys and queries."""
KINDS = {
    "gated_delta": Sizes(MIXED, MIXED + VALUES + 2 * 4, MIXED * 4 + 2 * 4 + 16, STATE, 6),
    "kimi_delta": Sizes(MIXED, MIXED + VALUES + 8 + 4, MIXED * 4 + 8 * VALUES + 4 + VALUES + 16, STATE, 6),
    "mamba2": Sizes(MIXED, MIXED + VALUES + 4, MIXED * 5 + 3 * 4 + VALUES, STATE, 4),
    "mamba1": Sizes(VALUES, 2 * VALUES, VALUES * (5 + 8 + 2), STATE, 4),
    "conv": Sizes(VALUES, 3 * VALUES, VALUES * 4, 0, 4),
    "lightning": Sizes(MIXED, MIXED + VALUES, VALUES, STATE, 4),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_of_a_layer(kind: str) -> None:
    found = layer(kind)
    sizes = KINDS[kind]
    assert found.convolved == sizes.convolved
    assert found.projected == sizes.projected
    assert found.state_values == sizes.state_values
    assert found.flops_per_value == sizes.flops_per_value
    assert found.params(HIDDEN) == HIDDEN * (sizes.projected + VALUES) + sizes.small_params


def test_a_gate_of_low_rank_is_two_projections() -> None:
    """Kimi's: to the width of a head and from there to all values."""
    whole = layer("kimi_delta")
    low_rank = layer("kimi_delta", full_rank_gate=False)
    assert low_rank.projected == whole.projected - VALUES + 16
    assert low_rank.params(HIDDEN) == whole.params(HIDDEN) - HIDDEN * (VALUES - 16) + 16 * VALUES


def test_mamba_2_may_have_no_norm() -> None:
    assert layer("mamba2", gated_norm=False).params(HIDDEN) == layer("mamba2").params(HIDDEN) - VALUES


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid enum value 'rwkv'"):
        layer("rwkv")
