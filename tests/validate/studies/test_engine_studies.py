"""All of it in one go: what is stated, what is written, and that what ships is what was fitted."""

from collections.abc import Iterator
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
import yaml

from perfmodel.specs import Scatter, square
from perfmodel.specs.calibrations.constants import ABSENT
from perfmodel.specs.calibrations.loading import load_bundled
from perfmodel.specs.engines.engines import engines
from perfmodel.validate.solving import NOTHING, Estimate
from perfmodel.validate.studies import engine_replay, engines as study
from perfmodel.validate.studies.acceptance_errors import acceptance_error, carried_errors
from perfmodel.validate.studies.default_flags import DEFAULT_FLAGS
from perfmodel.validate.studies.engines_file import PATH as SHIPPED
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.held_out import rows_of
from perfmodel.validate.studies.held_out_errors import HeldOutErrors


def test_an_acceptance_that_is_constant_is_carried_without_error() -> None:
    """Rates of 0.8 and 0.5 gain 1.8 and 2.2 tokens. One token says alpha 0.8, so 2.44 at two; two say a + a^2
    = 1.2.
    """
    constant = carried_errors((0.7, 0.7, 0.7))
    assert constant == pytest.approx([0.0] * 6, abs=1e-9)
    alpha = (-1 + 5.8**0.5) / 2
    up = log(2.44 / 2.2) / log(3 / 2)
    shorter = (1 + alpha) / 1.8
    down = log(shorter) / log(2 / 3)
    assert carried_errors((0.8, 0.5)) == pytest.approx([up, down])
    assert acceptance_error() == engines().acceptance


def test_less_held_out_is_never_less_sure() -> None:
    """Steps err by 0.1, 0.2, 0.3, 0.2 and 0.1 as more is left out, ratios by 0.4, 0.1, 0.2 (devices: studies)
    and 0.5.

    Of another maker's device there are two groups; SGLang has no steps at another degree, TensorRT-LLM no
    iterations.
    """
    engines_of_groups = [engine for engine in ("vllm", "trtllm", "sglang") for _ in range(300)]

    def errors(off: float, *names: str) -> HeldOutErrors:
        of = [engine for engine in engines_of_groups if engine in names]
        groups = [f"{engine} {number}" for number, engine in enumerate(of)]
        return HeldOutErrors(np.full(len(of), off), of, groups)

    every = ("vllm", "trtllm", "sglang")
    steps: Any = {
        "seen": errors(0.1, "vllm", "trtllm"),
        "version": errors(0.2, *every),
        "model": errors(0.3, *every),
        "gpu": errors(0.2, *every),
        "transferred": errors(0.1, *every),
        "maker": HeldOutErrors(np.array([0.6, 0.8]), ["sglang"] * 2, ["x", "y"]),
    }
    ratios: Any = {
        "seen": errors(0.4, "vllm", "sglang"),
        "version": errors(0.1, "vllm", "sglang"),
        "model": errors(0.2, "vllm", "sglang"),
        "transferred": errors(0.5, "vllm", "sglang"),
    }
    order = ("seen", "version", "model", "gpu", "transferred")
    for engine, stated in engine_replay.HeldOutReplay(steps, ratios, ()).stated().items():
        seen = 0.2 if engine == "sglang" else 0.1
        widths = [stated[relation]["target_s"].log_within for relation in order]
        assert widths == pytest.approx([seen, 0.2, 0.3, 0.3, 0.3], rel=0.01)
        less = 0.5 if engine == "trtllm" else 0.4
        widths = [stated[relation]["ratio"].log_within for relation in (*order, "maker")]
        assert widths == pytest.approx([less] * 4 + [0.5] * 2, rel=0.01)
        maker = stated["maker"]["target_s"]
        assert maker.log_within is None
        assert maker.log_rms == pytest.approx(0.5**0.5, abs=1e-3)
    wide = Scatter(log_rms=0.03, log_within=0.1, rows=3, source="by hand")
    narrow = Scatter(log_rms=0.02, log_within=0.1, rows=3, source="by hand")
    assert engine_replay.no_narrower(wide, narrow) == narrow  # as wide: what was asked for


def test_steps_are_predicted_without_their_source() -> None:
    """A thread of a dashboard is held out with it; a source without rows in the tables taught nothing."""
    everything = engine_replay.recorded()["steps"]
    assert engine_replay.steps_without("QwenLM/Qwen3") == everything
    assert engine_replay.steps_without("NVIDIA/TensorRT-LLM#5929") != everything
    assert (
        engine_replay.steps_without("SemiAnalysisAI/InferenceX#870")
        == engine_replay.steps_without("InferenceX")
        != everything
    )
    layer = "trtllm.latent_layer_s"
    assert engine_replay.steps_without("InferenceX")[layer] == pytest.approx(everything[layer], rel=0.2)


@pytest.mark.slow
def test_both_files_come_out_as_shipped() -> None:
    """From the constants that ship with their errors: every fold replayed, every error stated anew."""
    places = engines().places()
    record = engine_replay.recorded()

    def fitted(parameters: tuple, values: dict[str, float], correlation: np.ndarray) -> Estimate:
        fitted_values = [places[parameter.place] for parameter in parameters]
        relative = np.array([place.stderr / place.value for place in fitted_values])
        covariance = correlation * np.outer(relative, relative)
        return Estimate((), values, NOTHING, covariance, ())

    speculating = np.eye(len(SPECULATING))
    fit = engines().fit
    constant = [i for i, parameter in enumerate(SPECULATING) if parameter.place in fit.parameters]
    speculating[np.ix_(constant, constant)] = square(fit.correlation)
    steps = fitted(DECODING, record["steps"], np.eye(len(DECODING)))
    ratios = fitted(SPECULATING, record["iteration"], speculating)
    more_digits = {name: value * (1 + 4e-5) for name, value in record["steps"].items()}
    folds = {name: record[name] for name in ("step_folds", "ratio_folds")}
    steps = replace(steps, values=more_digits)
    stated, text = study.files_of(steps, ratios, folds, engines().date).values()
    assert text == engine_replay.PATH.read_text(encoding="utf-8")
    new = dict(_leaves(yaml.safe_load(stated)))
    shipped = dict(_leaves(yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))))
    assert list(new) == list(shipped)
    for place, value in shipped.items():
        if isinstance(value, float):  # the shipped errors are of unrounded constants
            value = pytest.approx(value, rel=0.01, abs=1e-12)
        assert new[place] == value, place


def _leaves(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(data, (dict, list)):
        yield place, data
        return
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield from _leaves(value, f"{place}.{key}")


def test_the_shipped_calibrations_predict_the_rows_as_the_fit_does() -> None:
    """The way through engines.yaml, by version, and the way through the fit's own arrays: tuned runs, so
    without what default flags cost.
    """
    rows = rows_of("seen")
    tuned = {p.name: ABSENT for p in DEFAULT_FLAGS}
    by_fit = rows.predict(engine_replay.recorded()["steps"])
    for group in rows.groups[::7]:
        version = study.version_of(rows.rows[group.index[0]]) or None
        shipped = load_bundled(group.constants.kernels.name, version).replace(**tuned)
        by_file = np.log(group.predict(shipped))
        np.testing.assert_allclose(by_file, by_fit[group.index], rtol=3e-4)
