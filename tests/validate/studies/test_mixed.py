"""The mixed-effects fit beside the normal distribution with its whole covariance."""

import numpy as np
import pytest

from perfmodel.validate.studies.mixed import MixedEffects


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
        shared, noise = np.tensordot(np.exp(2 * logs[:2]), same, 1), np.tile(np.exp(2 * logs[2:]), 180)
        return shared, noise, shared + np.diag(noise / found._weights)

    at = np.log([0.15, 0.3, 0.06, 0.04])
    whole, unexpected = covariances(at)[2], (at - np.log(0.1)) / 1.2
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
