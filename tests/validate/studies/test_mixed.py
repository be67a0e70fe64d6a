"""The mixed-effects fit: deviations that were put in come out, and left-out sources are not seen."""

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


def test_deviations_and_levels_are_recovered() -> None:
    off, sources, devices = drawn(1)
    found = MixedEffects(off, {"source": sources, "device": devices}, ["all"] * len(off))
    assert found.deviations["source"] == pytest.approx(0.2, rel=0.25)
    assert found.residuals["all"] == pytest.approx(0.05, rel=0.4)  # Student's t of normal errors: narrower


def test_a_source_left_out_is_predicted_without_its_rows() -> None:
    off, sources, devices = drawn(2)
    levels = {"source": sources, "device": devices}
    left, deviation = MixedEffects(off, levels, ["all"] * len(off)).left_out(sources)
    assert np.mean(np.abs(left) <= 1.645 * deviation) == pytest.approx(0.9, abs=0.06)
    moved = off + np.where(np.array(sources) == "s7", 0.4, 0.0)  # its own rows do not move what is said of it
    mine = np.array(sources) == "s7"
    again = MixedEffects(moved, levels, ["all"] * len(off)).left_out(sources)[0]
    assert again[mine] - left[mine] == pytest.approx(0.4, abs=0.02)


def test_slopes_of_the_likelihood_are_those_of_finite_differences() -> None:
    off, sources, devices = drawn(3)
    found = MixedEffects(off, {"source": sources, "device": devices}, ["a", "b"] * 180)
    at = np.log([0.15, 0.3, 0.06, 0.04])
    steps = [found._loss(at + h)[0] - found._loss(at - h)[0] for h in 1e-5 * np.eye(4)]
    assert found._loss(at)[1] == pytest.approx(np.array(steps) / 2e-5, rel=1e-4)
