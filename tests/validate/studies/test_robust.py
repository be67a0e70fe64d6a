"""Two fits: errors taken apart by hand and slopes against differences; mixed effects beside the normal
distribution with its whole covariance.
"""

import numpy as np
import pytest

from perfmodel.validate.studies.mixed import MixedEffects
from perfmodel.validate.studies.robust import Parts, Spread, parts_of

HARD = Spread(row=0.1, group=0.2, kind=0.3, soft=1e9, soft_row=1e9)
EVERY = np.ones(3, dtype=bool)


def squares(parts: Parts, off: list[float]) -> float:
    return float(np.sum(parts.residuals(parts.matrix @ np.array(off)) ** 2))


def test_an_error_has_a_part_of_its_kind_one_of_its_group_and_its_own() -> None:
    """One kind, groups a (two rows) and b. Deviations of means: hypot(.2, .1/sqrt 2), hypot(.2, .1)."""
    parts = parts_of(["a", "a", "b"], ["k", "k", "k"], EVERY, [HARD] * 3)
    a = 0.04 + 0.01 / 2
    b = 0.04 + 0.01
    of_kind = 0.3**2 + 1 / (1 / a + 1 / b)
    assert squares(parts, [0.6, 0.6, 0.6]) == pytest.approx(0.6**2 / of_kind)
    mean = (0.0 / a + 0.6 / b) / (1 / a + 1 / b)
    expected = 2 * (0.1 / 0.1) ** 2 + mean**2 / a + (0.6 - mean) ** 2 / b + mean**2 / of_kind
    assert squares(parts, [0.1, -0.1, 0.6]) == pytest.approx(expected)


def test_rows_that_are_not_trained_on_do_not_count_and_many_weigh_as_ten() -> None:
    alone = parts_of(["a", "a", "b"], ["k", "k", "m"], np.array([True, True, False]), [HARD] * 3)
    assert squares(alone, [0.0, 0.0, 5.0]) == 0.0
    many = parts_of(["a"] * 40, ["k"] * 40, np.ones(40, dtype=bool), [HARD] * 40)
    assert squares(many, [0.1, -0.1] * 20) == pytest.approx(10.0)


def test_far_off_parts_count_by_a_cauchy_loss_whose_slopes_are_those_of_differences() -> None:
    """w^2 log(1 + (d/w)^2): 4 log 2 at d = w = 2."""
    soft = Spread(row=0.1, group=0.0, kind=0.0, soft=2.0)
    parts = parts_of(["a"], ["k"], np.ones(1, dtype=bool), [soft])
    assert squares(parts, [0.2]) == pytest.approx(4 * np.log(2))
    softer = parts_of(["a", "a", "b"], ["k"] * 3, EVERY, [Spread()] * 3)
    sizes = softer.matrix @ np.array([0.05, -0.3, 0.1])
    difference = (softer.residuals(sizes + 1e-7) - softer.residuals(sizes - 1e-7)) / 2e-7
    np.testing.assert_allclose(softer.slopes(sizes), difference, rtol=1e-5)


# Mixed effects.


def drawn(seed: int, source: float = 0.2, row: float = 0.05) -> tuple[np.ndarray, list[str], list[str]]:
    random = np.random.default_rng(seed)
    sources = [f"s{i}" for i in range(60) for _ in range(6)]
    devices = [f"d{i % 4}" for i in range(360)]
    shifts = {f"d{i}": 0.3 * (i - 1.5) for i in range(4)}
    of_source = dict(zip(dict.fromkeys(sources), random.normal(0, source, 60), strict=True))
    off = [of_source[s] + shifts[d] + random.normal(0, row) for s, d in zip(sources, devices, strict=True)]
    return np.array(off), sources, devices


def test_the_likelihood_and_left_out_rows_are_those_of_the_whole_covariance() -> None:
    """Of a normal distribution whose rows share the variance of their levels."""
    off, sources, devices = drawn(2)
    found = MixedEffects(off, {"source": sources, "device": devices}, ["a", "b"] * 180)
    assert found._weights.max() == pytest.approx((4 + 1) / 4, rel=1e-3), "of the row that is least off"
    same = [np.equal.outer(names, names) for names in map(np.array, (sources, devices))]

    def covariances(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shared = np.tensordot(np.exp(2 * logs[:2]), same, 1)
        noise = np.tile(np.exp(2 * logs[2:]), 180)
        return shared, noise, shared + np.diag(noise / found._weights)

    at = np.log([0.15, 0.3, 0.06, 0.04])
    whole = covariances(at)[2]
    unexpected = (at - np.log(0.1)) / 1.2
    volume = np.linalg.slogdet(whole)[1]
    loss = 0.5 * (off @ np.linalg.solve(whole, off) + volume + unexpected @ unexpected)
    assert found._loss(at)[0] == pytest.approx(loss, rel=1e-9)
    shared, noise, whole = covariances(found._logs)
    mine = np.array(sources) == "s7"
    others = np.linalg.solve(whole[~mine][:, ~mine], shared[~mine][:, mine]).T
    left, deviation = found.left_out(sources)
    assert left[mine] == pytest.approx(off[mine] - others @ off[~mine])
    spread = np.diag(shared[mine][:, mine] - others @ shared[~mine][:, mine]) + noise[mine]
    assert deviation[mine] == pytest.approx(spread**0.5)
