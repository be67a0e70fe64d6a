"""All of it in one go: what is stated, what is written, and that what ships is what was fitted."""

from collections.abc import Iterator
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
import yaml

from perfmodel.specs import Scatter, square
from perfmodel.specs.calibrations.calibration import load_bundled
from perfmodel.specs.calibrations.constants import ABSENT
from perfmodel.specs.engines.engines import engines
from perfmodel.validate.solving import NOTHING, Estimate
from perfmodel.validate.studies import engines as study
from perfmodel.validate.studies.engines_file import PATH as SHIPPED
from perfmodel.validate.studies.held_out import HeldOutErrors, rows_of
from perfmodel.validate.studies.parameters import DECODING, DEFAULT_FLAGS, SPECULATING


def test_an_acceptance_that_is_constant_is_carried_without_error() -> None:
    """Rates of 0.8 and 0.5 gain 1.8 and 2.2 tokens. One token says alpha 0.8, so 2.44 at two; two say a + a^2
    = 1.2.
    """
    assert study._carried((0.7, 0.7, 0.7)) == pytest.approx([0.0] * 6, abs=1e-9)
    alpha = (-1 + 5.8**0.5) / 2
    up = log(2.44 / 2.2) / log(3 / 2)
    down = log((1 + alpha) / 1.8) / log(2 / 3)
    assert study._carried((0.8, 0.5)) == pytest.approx([up, down])
    assert study.acceptance() == engines().acceptance


def test_less_held_out_is_never_less_sure() -> None:
    """Steps err by 0.1, 0.2, 0.3, 0.2 and 0.1 as more is left out, ratios by 0.4, 0.1, 0.2 (devices: studies)
    and 0.5.

    Of another maker's device there are two groups; SGLang has no steps at another degree, TensorRT-LLM no
    iterations.
    """
    many = [f"{engine} {i}" for engine in ("vllm", "trtllm", "sglang") for i in range(300)]

    def errors(off: float, *names: str) -> HeldOutErrors:
        groups = [g for g in many if g.split()[0] in names]
        return HeldOutErrors(np.full(len(groups), off), [g.split()[0] for g in groups], groups)

    every = ("vllm", "trtllm", "sglang")
    steps: Any = {
        "seen": errors(0.1, "vllm", "trtllm"),
        "version": errors(0.2, *every),
        "model": errors(0.3, *every),
    }
    steps |= {"gpu": errors(0.2, *every), "transferred": errors(0.1, *every)}
    steps["maker"] = HeldOutErrors(np.array([0.6, 0.8]), ["sglang"] * 2, ["x", "y"])
    ratios: Any = {"seen": errors(0.4, "vllm", "sglang"), "version": errors(0.1, "vllm", "sglang")}
    ratios |= {"model": errors(0.2, "vllm", "sglang"), "transferred": errors(0.5, "vllm", "sglang")}
    order = ("seen", "version", "model", "gpu", "transferred")
    for engine, stated in study.HeldOutReplay(steps, ratios, ()).stated().items():
        widths = [stated[r]["target_s"].log_within for r in order]
        assert widths == pytest.approx([0.2 if engine == "sglang" else 0.1, 0.2, 0.3, 0.3, 0.3], rel=0.01)
        widths = [stated[r]["ratio"].log_within for r in (*order, "maker")]
        assert widths == pytest.approx([0.5] * 6 if engine == "trtllm" else [0.4] * 4 + [0.5] * 2, rel=0.01)
        assert stated["maker"]["target_s"].log_within is None
        assert stated["maker"]["target_s"].log_rms == pytest.approx(0.5**0.5, abs=1e-3)
    one, other = (Scatter(log_rms=rms, log_within=0.1, rows=3, source="by hand") for rms in (0.03, 0.02))
    assert study._at_least(one, other) == other  # as wide: what was asked for


@pytest.mark.long
def test_both_files_come_out_as_shipped() -> None:
    """From the constants that ship with their errors: every fold replayed, every error stated anew."""
    places = engines().places()
    record = study.recorded()

    def fitted(parameters: tuple, values: dict[str, float], correlation: np.ndarray) -> Estimate:
        relative = np.array([places[p.place].stderr / places[p.place].value for p in parameters])
        return Estimate((), values, NOTHING, correlation * np.outer(relative, relative), ())

    speculating = np.eye(len(SPECULATING))
    constant = [i for i, p in enumerate(SPECULATING) if p.place in engines().fit.parameters]
    speculating[np.ix_(constant, constant)] = square(engines().fit.correlation)
    steps = fitted(DECODING, record["steps"], np.eye(len(DECODING)))
    ratios = fitted(SPECULATING, record["iteration"], speculating)
    digits = {name: value * (1 + 4e-5) for name, value in record["steps"].items()}  # more than are kept
    folds = {name: record[name] for name in ("step_folds", "ratio_folds")}
    stated, text = study.texts_of(replace(steps, values=digits), ratios, folds, engines().date).values()
    assert text == study.PATH.read_text(encoding="utf-8")
    new, theirs = (list(_leaves(yaml.safe_load(t))) for t in (stated, SHIPPED.read_text(encoding="utf-8")))
    assert [place for place, _ in new] == [place for place, _ in theirs]
    for (place, one), (_, other) in zip(
        new, theirs, strict=True
    ):  # the shipped errors are of unrounded constants
        assert one == (pytest.approx(other, rel=0.01, abs=1e-12) if isinstance(other, float) else other), (
            place
        )


def _leaves(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _leaves(value, f"{place}.{key}")
    else:
        yield place, data


def test_the_shipped_calibrations_predict_the_rows_as_the_fit_does() -> None:
    """The way through engines.yaml, by version, and the way through the fit's own arrays: tuned runs, so
    without what default flags cost.
    """
    rows = rows_of("seen")
    tuned = {p.name: ABSENT for p in DEFAULT_FLAGS}
    by_fit = rows.predict(study.recorded()["steps"])
    for group in rows.groups[::7]:
        version = study.version_of(rows.rows[group.index[0]]) or None
        shipped = load_bundled(group.constants.kernels.name, version).replace(**tuned)
        by_file = np.log(group.predict(shipped))
        np.testing.assert_allclose(by_file, by_fit[group.index], rtol=3e-4)
