"""Errors taken apart by hand, and slopes against differences."""

import numpy as np
import pytest

from perfmodel.operations import Array
from perfmodel.validate.studies.error_parts import ErrorSpread, Parts, parts_of, shares_of_common

HARD = ErrorSpread(row=0.1, group=0.2, kind=0.3, soft=1e9, soft_row=1e9)
EVERY = np.ones(3, dtype=bool)


def squares(parts: Parts, off: list[float]) -> float:
    residuals = parts.residuals(parts.matrix @ np.array(off))
    return float(np.sum(residuals**2))


def test_an_error_has_a_part_of_its_kind_one_of_its_group_and_its_own() -> None:
    """One kind, groups a (two rows) and b. Deviations of means: hypot(.2, .1/sqrt 2), hypot(.2, .1)."""
    parts = parts_of(["a", "a", "b"], ["k"] * 3, EVERY, [HARD] * 3)
    a = 0.04 + 0.01 / 2
    b = 0.04 + 0.01
    together = 1 / a + 1 / b
    of_kind = 0.3**2 + 1 / together
    assert squares(parts, [0.6] * 3) == pytest.approx(0.6**2 / of_kind)
    mean = (0.0 / a + 0.6 / b) / together
    of_rows = 2 * (0.1 / 0.1) ** 2
    of_groups = mean**2 / a + (0.6 - mean) ** 2 / b
    expected = of_rows + of_groups + mean**2 / of_kind
    assert squares(parts, [0.1, -0.1, 0.6]) == pytest.approx(expected)


def test_rows_that_are_not_trained_on_do_not_count_and_many_weigh_as_ten() -> None:
    trained = np.array([True, True, False])
    alone = parts_of(["a", "a", "b"], ["k", "k", "m"], trained, [HARD] * 3)
    assert squares(alone, [0.0, 0.0, 5.0]) == 0.0
    every = np.ones(40, dtype=bool)
    many = parts_of(["a"] * 40, ["k"] * 40, every, [HARD] * 40)
    assert squares(many, [0.1, -0.1] * 20) == pytest.approx(10.0)


def test_far_off_parts_count_by_a_cauchy_loss_whose_slopes_are_those_of_differences() -> None:
    """w^2 log(1 + (d/w)^2): 4 log 2 at d = w = 2."""
    soft = ErrorSpread(row=0.1, group=0.0, kind=0.0, soft=2.0)
    every = np.ones(1, dtype=bool)
    parts = parts_of(["a"], ["k"], every, [soft])
    assert squares(parts, [0.2]) == pytest.approx(4 * np.log(2))
    softer = parts_of(["a", "a", "b"], ["k"] * 3, EVERY, [ErrorSpread()] * 3)
    sizes = softer.matrix @ np.array([0.05, -0.3, 0.1])
    above = softer.residuals(sizes + 1e-7)
    below = softer.residuals(sizes - 1e-7)
    difference = (above - below) / 2e-7
    np.testing.assert_allclose(softer.slopes(sizes), difference, rtol=1e-5)


def test_an_outlying_server_hardly_moves_the_common_error_of_its_source() -> None:
    """Five servers of one source are 10 % too slow by the model, and a sixth takes five times its time."""
    off = np.array([0.1, 0.1, 0.1, 0.1, 0.1, -1.6])
    servers = [*range(6)]
    every_row = np.ones(6, dtype=bool)
    spreads = [ErrorSpread(row=0.04, group=0.05, kind=0.08)] * 6

    def own_part(near: Array | None) -> float:
        matrix = parts_of(servers, ["a source"] * 6, every_row, spreads, near).matrix
        of_servers = matrix[-6:]
        return float((of_servers @ off)[0] * np.hypot(0.05, 0.04))

    assert own_part(None) == pytest.approx(0.1 - off.mean())
    assert own_part(off) == pytest.approx(0.0, abs=0.02)


def test_the_common_error_is_found_to_one_part_in_a_thousand() -> None:
    """Each group weighs 1 / (1 + (distance / 2 deviations)^2) around the mean that these weights give."""
    errors = np.array([0.0, 0.3, -0.3, 0.6, 4.0])
    deviations = np.full(5, 0.3)
    shares = shares_of_common(errors, deviations, 2.0)
    common = np.average(errors, weights=shares)
    again = 1 / (1 + ((errors - common) / (2 * deviations)) ** 2)
    assert np.average(errors, weights=again) == pytest.approx(common, rel=1e-3)


def test_a_step_that_is_alone_in_its_source_softens_from_two_standard_deviations_of_its_error_on() -> None:
    """Row, group and kind each have a spread of 2 %. w^2 log(1 + (d/w)^2): 4 log 2 at d = w = 2."""
    parts = parts_of(["a"], ["k"], np.ones(1, dtype=bool), [ErrorSpread()])
    assert squares(parts, [2 * 0.02 * 3**0.5]) == pytest.approx(4 * np.log(2))


def test_a_row_softens_from_three_standard_deviations_of_its_own_part_on() -> None:
    """Two rows of one group whose errors cancel: the part of each is 9 log 2 at d = w = 3."""
    parts = parts_of(["a", "a"], ["k", "k"], np.ones(2, dtype=bool), [ErrorSpread()] * 2)
    assert squares(parts, [0.06, -0.06]) == pytest.approx(2 * 9 * np.log(2))
