"""``hardware/engines.yaml``: what is written of it is what was read from it."""

import datetime
from typing import get_args

import numpy as np
import yaml

from perfmodel.specs.engines import engines
from perfmodel.specs.fits import Relation, Scatter, square
from perfmodel.validate.studies.engines_file import path, render
from perfmodel.validate.studies.parameters import DECODING, SPECULATING
from perfmodel.validate.studies.robust import Found

PLACES = engines().places()


def found(parameters: tuple, correlation: np.ndarray) -> Found:
    """The shipped constants as a fit would hand them over: values, and the covariance of their logarithms."""
    values = {p.place: PLACES[p.place].value for p in parameters}
    deviations = np.array([PLACES[p.place].stderr / PLACES[p.place].value for p in parameters])
    return Found(values, correlation * np.outer(deviations, deviations))


def test_the_shipped_file_comes_out_byte_for_byte() -> None:
    shipped = engines()
    rows = tuple(int(PLACES[p.place].source.split()[2]) for p in (DECODING[0], SPECULATING[0]))
    text = render(
        found(DECODING, np.eye(len(DECODING))),
        found(SPECULATING, square(shipped.fit.correlation)),
        {word: engine.errors for word, engine in shipped.engines.items()},
        shipped.acceptance,
        {word: engine.measured for word, engine in shipped.engines.items()},
        {word: engine.speculating for word, engine in shipped.engines.items()},
        rows,  # type: ignore[arg-type]
        shipped.date,
    )
    assert text == path().read_text(encoding="utf-8").replace("-0.0,", "0.0,")  # reading a matrix loses the sign


def test_numbers_are_short_and_numbers_to_yaml_and_correlations_stay_within_one() -> None:
    """A covariance that rounding takes past 1; a value of 1e-05; an engine of which nothing was measured."""
    values = {p.place: 1e-5 for p in (*DECODING, *SPECULATING)}
    steps = Found(values, np.eye(len(DECODING)) * 0.25)
    over = np.ones((len(SPECULATING), len(SPECULATING))) * 0.04 * (1 + 1e-9)
    np.fill_diagonal(over, 0.04)
    over[1, 0] = over[0, 1] = 0.04 * 0.98765
    scatter = {r: {"target_s": Scatter(log_rms=0.1, rows=3, source="by hand")} for r in get_args(Relation)}
    stated = dict.fromkeys(engines().engines, scatter)
    text = render(
        steps, Found(values, over), stated, scatter["seen"]["target_s"], {}, {}, (7, 9), datetime.date(2031, 2, 3)
    )  # type: ignore[arg-type]
    made = yaml.safe_load(text)
    assert made["constants"]["state_layer_s"] == {
        "value": 1e-5, "stderr": 5e-6, "source": "fitted to 7 steps of engine_decode.csv",
    }  # fmt: skip
    assert made["constants"]["draft_pass_s"]["stderr"] == 2e-6
    assert made["engines"]["sglang"]["constants"]["iteration_fixed_s"]["source"] == "fitted to 9 ratios of iterations"
    assert made["engines"]["trtllm"]["architectures"]["hopper"]["attention_bandwidth_fraction_fp8"]["times"] is True
    assert made["fit"]["correlation"][:3] == [[1], [0.988, 1], [1.0, 1.0, 1]]
    assert made["engines"]["vllm"]["measured"] == {}
    assert made["engines"]["vllm"]["errors"]["gpu"]["target_s"] == {"log_rms": 0.1, "rows": 3, "source": "by hand"}
