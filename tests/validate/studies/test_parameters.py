"""Fitted constants of engines: their places, and what is said of them."""

from collections import Counter

import pytest

from perfmodel.specs.engines.engines import engines
from perfmodel.validate.studies.default_flags import DEFAULT_FLAGS
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.parameters import PlacedConstant, drift
from perfmodel.validate.studies.public_parameters import PUBLIC

PLACES = engines().places()
"""Place of a constant -> the constant, as in `hardware/fitted/engines.yaml`."""
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
    constant = PlacedConstant(place, expected=1.0, spread=0.1)
    assert (constant.scope, constant.name) == (scope, name)


def test_a_drift_is_a_factor_from_a_version_on() -> None:
    assert drift("vllm", "0.18", "wide_norm_s", spread=0.5) == PlacedConstant(
        "vllm@0.18.wide_norm_s", expected=1.0, spread=0.5, times=True
    )


@pytest.mark.parametrize("constant", [*PUBLIC, *DEFAULT_FLAGS], ids=lambda constant: constant.place)
def test_what_is_not_fitted_stands_in_the_file_as_stated(constant: PlacedConstant) -> None:
    """`perfmodel validate calibrate engines --write` copies it there."""
    stated = PLACES[constant.place]
    deviation = constant.expected * constant.spread
    assert stated.value == pytest.approx(constant.expected, rel=1e-3)
    assert stated.stderr == pytest.approx(deviation, rel=1e-3)
    assert (stated.times, stated.source) == (constant.times, constant.source)


def test_the_file_has_the_constants_of_these_lists_and_no_others() -> None:
    assert {*PLACES} == {constant.place for constant in ALL}


def test_what_is_fitted_is_a_factor_in_the_file_where_it_is_one_here() -> None:
    fitted = (*DECODING, *SPECULATING)
    assert [p.place for p in fitted if PLACES[p.place].times != p.times] == []


def test_every_place_is_stated_once_and_what_is_not_fitted_has_a_source() -> None:
    assert [place for place, count in Counter(p.place for p in ALL).items() if count > 1] == []
    assert [p.place for p in (*PUBLIC, *DEFAULT_FLAGS) if not p.source] == []
    assert [p.place for p in ALL if p.expected <= 0 or p.spread <= 0 or p.elsewhere < 0] == []
