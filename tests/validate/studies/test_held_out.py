"""Held-out errors of engines: what is left out together, which constants meet which rows, and what is
stated.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from perfmodel.validate.engine.fit import small_sample
from perfmodel.validate.studies.held_out import is_own, name_of, replay, rows_of
from perfmodel.validate.studies.held_out_errors import HeldOutErrors, quantile
from perfmodel.validate.studies.held_out_intervals import covered
from perfmodel.validate.studies.published_engines import engine_decode


def test_each_row_meets_the_constants_of_its_own_fold() -> None:
    """Rows whose logarithms are one constant's."""
    measured = np.array([1.0, 10.0, 4.0])
    groups = [("vllm", "a"), ("vllm", "b"), ("vllm", "a")]
    rows: Any = SimpleNamespace(rows=groups, off=lambda of: np.log(of["all.x"] / measured))
    constants = {"vllm a": {"all.x": 2.0}, "vllm b": {"all.x": 10.0}}
    off = replay(rows, lambda row: row, constants)
    assert np.exp(off) == pytest.approx([2.0, 1.0, 0.5])
    assert name_of(("vllm", "a", "h100", 2)) == "vllm a h100 2"
    assert name_of("h100") == "h100"


def test_a_transfer_has_every_device_on_the_kernels_of_another() -> None:
    rows = [row for row in engine_decode() if is_own(row)]
    assert len(rows_of("transferred").rows) == len(rows)
    for group in rows_of("transferred").groups:
        assert group.constants.kernels.gpu != group.scenario.machine.gpu.name
    own_devices = {row.hardware for row in rows}
    gone = {row.hardware for row in engine_decode()} - own_devices
    assert gone == {"mi300x-192gb", "mi325x-256gb"}
    maker = rows_of("maker")
    assert {row.hardware for row in maker.rows} == gone
    assert {group.constants.kernels.gpu for group in maker.groups} == {"h200-sxm-141gb"}


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ((0.1, -0.1), 2.0),
        ((0.1, 0.1), 1.0),
        ((0.1, 0.3), 2 / 1.6),
    ],
)
def test_rows_of_a_group_count_as_far_as_they_err_apart(values, rows) -> None:
    """Opposite errors have nothing in common, equal ones all; 0.1 and 0.3: 1 - 2 (0.02) / (0.01 + 0.09) =
    0.6.
    """
    two = np.array(values)
    errors = HeldOutErrors(two, ["vllm"] * 2, ["a"] * 2)
    assert errors.weights("vllm") == pytest.approx([rows / 2, rows / 2])
    assert errors.weights("sglang") == pytest.approx([rows / 20, rows / 20])


GROUPS = HeldOutErrors(
    np.array([0.1, 0.1, 0.3, 0.5]), ["vllm", "vllm", "vllm", "sglang"], ["a", "a", "b", "c"]
)


def test_what_is_stated_of_an_engine_with_rows() -> None:
    """Groups a and b of vLLM (0.1 twice; 0.3), c of SGLang (0.5): weights 1/2, 1/2, 1 and 0.1."""
    stated = GROUPS.scatter("vllm", "by hand")
    mean_square = (0.01 + 0.09 + 0.1 * 0.25) / 2.1
    wider = small_sample(1.0, 2.1) * (1 + 1 / 2.1) ** 0.5
    assert stated.log_rms == pytest.approx(mean_square**0.5, abs=5e-4)
    assert stated.log_within == pytest.approx(0.3 * wider, rel=2e-3)
    assert stated.rows == 3
    assert stated.source == "by hand"


def test_what_is_stated_of_an_engine_without_rows() -> None:
    """All rows speak for it, a group each."""
    other = GROUPS.scatter("trtllm", "by hand", 1.0)
    mean_square = (0.01 + 0.09 + 0.25) / 3
    assert other.rows == 4
    assert other.log_rms == pytest.approx(mean_square**0.5, abs=5e-4)


def test_few_groups_widen_an_interval_and_many_do_not() -> None:
    one_degree_of_freedom = t.ppf(0.95, 1) / norm.ppf(0.95)
    offs = np.array([0.1, 0.1, 0.2])
    alone = HeldOutErrors(offs, ["vllm", "vllm", "sglang"], ["a", "a", "b"])
    wider = one_degree_of_freedom * (1 + 1 / 1.1) ** 0.5
    stated = alone.scatter("sglang", "by hand")
    assert stated.log_within == pytest.approx(0.2 * wider, rel=5e-3)
    offs = np.linspace(0.0, 0.2, 101)
    many = HeldOutErrors(offs, ["vllm"] * 101, list(range(101)))
    assert many.scatter("vllm", "by hand").log_within == pytest.approx(0.18, rel=0.02)


def test_a_model_of_one_degree_is_not_seen_at_another() -> None:
    groups = [
        ("vllm", "a", "h200", 1),
        ("vllm", "a", "h200", 2),
        ("vllm", "b", "h200", 1),
        ("sglang", "a", "h200", 1),
    ]
    engines = [engine for engine, *_ in groups]
    offs = np.array([0.1, 0.2, 0.3, 0.4])
    seen = HeldOutErrors(offs, engines, groups).beside_others()
    assert seen.groups == groups[:2]
    assert seen.off.tolist() == [0.1, 0.2]


def test_quantiles_hold_their_share() -> None:
    """Rounding of 0.1 + 0.2 = 0.30000000000000004 must not take the next value."""
    values = np.array([3.0, 1.0, 2.0])
    assert quantile(values, np.array([0.7, 0.1, 0.2]), 0.3) == 2.0
    assert quantile(values, np.ones(3), 1 / 3) == 1.0
    assert quantile(values, np.ones(3), 0.34) == 2.0
    assert quantile(np.arange(10.0), np.ones(10)) == 8.0


def test_an_interval_from_the_other_groups_holds_a_row_at_its_very_end() -> None:
    errors = HeldOutErrors(np.array([0.1, -0.1, 0.4]), ["vllm"] * 3, ["a", "b", "c"])
    inside, width = covered(errors, {})
    few = small_sample(1.0, 2) * 1.5**0.5
    expected = np.array([0.4, 0.4, 0.1]) * few
    np.testing.assert_allclose(width, expected, rtol=5e-3)
    assert inside.tolist() == [1, 1, 0.1 * few > 0.4]
