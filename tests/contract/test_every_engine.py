"""What every file of an engine must keep. A file that is added is found by its name, and held to the same."""

import math
from typing import Any

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import engines as engine_catalogue
from perfmodel.specs import serving_engines

BORROWERS = [name for name, engine in serving_engines().items() if engine.constants_of]
"""Engines without constants of their own. None is bundled; docs/contributing.md adds one."""


def question_for(name: str) -> dict[str, Any]:
    """A point that the engine answers: one of its devices, and a draft that it runs."""
    engine = serving_engines()[name]
    return {
        "model": "llama-3.1-8b",
        "hardware": "h100" if "NVIDIA" in engine.makers else "m4-max",
        "batch": 4,
        "context": 2048,
        "alpha": 0.7,
        "draft": next(iter(engine.drafts.keys() & {"eagle3", "ngram", "dspark"})),
        "gamma": 3,
    }


@pytest.mark.parametrize("name", serving_engines())
def test_an_engine_has_no_faults_runs_on_a_device_and_answers(name: str) -> None:
    assert engine_catalogue.CATALOGUE.faults(engine_catalogue.load(name, "name")) == []
    assert serving_engines()[name].makers
    assert whatif(**question_for(name), engine=name).speedup


@pytest.mark.parametrize("name", BORROWERS)
def test_borrowed_constants_are_named_and_decide_nothing(name: str) -> None:
    answer = whatif(**question_for(name), engine=name)
    assert answer.verdict not in ("pays", "does_not_pay")
    assert answer.calibration.kind == "transferred"
    assert any("errors with such constants" in warning for warning in answer.warnings)


@pytest.mark.parametrize("name", BORROWERS)
def test_borrowed_constants_have_much_wider_intervals_than_those_of_the_lender(name: str) -> None:
    question = question_for(name)
    answer = whatif(**question, engine=name)
    lender = whatif(**question, engine=serving_engines()[name].constants_of)
    interval = answer.speedup_interval
    lent = lender.speedup_interval
    assert interval
    assert lent
    assert interval[1] / interval[0] > 1.2 * lent[1] / lent[0]
    step = answer.ar_tpot_interval
    lent_step = lender.ar_tpot_interval
    assert step
    assert lent_step
    assert math.log(step[1] / step[0]) > 2.0 * math.log(lent_step[1] / lent_step[0])
