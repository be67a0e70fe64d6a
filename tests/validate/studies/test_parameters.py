"""Fitted constants of engines: their places, and what is said of them."""

from collections import Counter

import pytest

from perfmodel.validate.studies.parameters import (
    DECODING,
    DEFAULT_FLAGS,
    PUBLIC,
    SPECULATING,
    PlacedConstant,
    drift,
)

ALL = (*DECODING, *SPECULATING, *PUBLIC, *DEFAULT_FLAGS)


@pytest.mark.parametrize(
    ("place", "scope", "name"),
    [
        ("all.gemm_factor", "all", "gemm_factor"),
        ("sglang@0.5.12/cdna3.quantise_s", "sglang@0.5.12/cdna3", "quantise_s"),
        ("trtllm.hopper.routing_independence", "trtllm.hopper", "routing_independence"),
    ],
)
def test_a_place_is_a_scope_and_a_name(place: str, scope: str, name: str) -> None:
    constant = PlacedConstant(place, 1.0, 0.1)
    assert (constant.scope, constant.name) == (scope, name)


def test_a_drift_is_a_factor_from_a_version_on() -> None:
    assert drift("vllm", "0.18", "wide_norm_s", 0.5) == PlacedConstant(
        "vllm@0.18.wide_norm_s", 1.0, 0.5, times=True
    )


def test_every_place_is_stated_once_and_what_is_not_fitted_has_a_source() -> None:
    assert [place for place, count in Counter(p.place for p in ALL).items() if count > 1] == []
    assert [p.place for p in (*PUBLIC, *DEFAULT_FLAGS) if not p.source] == []
    assert [p.place for p in ALL if p.expected <= 0 or p.spread <= 0 or p.elsewhere < 0] == []
