"""Errors of sources left out: which error a row has, and in which class it counts."""

import json
from dataclasses import replace

import pytest

from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.public_runs import RunKind, public_runs
from perfmodel.validate.studies.sources import llamacpp_errors
from perfmodel.validate.studies.sources_file import errors_by_class

RUN = next(run for run in public_runs() if run.kind is RunKind.SPECULATION and run.counts)
RECORDED = json.loads(llamacpp.ERRORS_PATH.read_text(encoding="utf-8"))


def answered(id: str, figure: str, predicted: float = 2.0, measured: float = 1.0) -> Answered:
    """An answer that is off by log 2."""
    return Answered(replace(RUN, id=id), figure, predicted, measured, None)


def test_a_row_of_llamacpp_has_the_error_of_its_own_study_or_else_that_of_its_answer() -> None:
    """A speedup is predicted too large where its iteration is predicted too short. Ratios are speedups."""
    step, step_off = next(iter(RECORDED["step"].items()))
    ratio, ratio_off = next(iter(RECORDED["ratio"].items()))
    assert ratio_off
    rows = [
        answered(step, "step"),
        answered("unfitted", "step"),
        answered(ratio, "speedup"),
        answered("unfitted", "speedup"),
        answered(ratio, "ratio"),
    ]
    shipped = rows[1].off
    assert llamacpp_errors(rows) == {
        "step": {step: step_off, "unfitted": shipped},
        "speedup": {ratio: -ratio_off, "unfitted": shipped},
    }


def test_errors_are_under_the_class_of_their_row_in_the_order_of_the_rows() -> None:
    rows = [answered("a", "step"), answered("b", "speedup"), answered("c", "step"), answered("d", "step")]
    class_of = {"a": "own", "c": "borrowed", "d": "own"}
    errors = {"a": 0.1, "c": -0.2, "d": 0.3}
    by_class = errors_by_class(rows, "step", errors, lambda a: class_of[a.run.id])
    assert [error.off for error in by_class["own"]] == [0.1, 0.3]
    assert [error.off for error in by_class["borrowed"]] == [-0.2]
    assert {name for name, of_class in by_class.items() if not of_class} == {"llamacpp"}
    speedups = errors_by_class(rows, "speedup", {"b": 0.5}, lambda _: "new")
    assert [error.off for error in speedups["new"]] == [-0.5], "as the error of its ratio"


def test_a_row_without_an_error_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="a"):
        errors_by_class([answered("a", "step")], "step", {}, lambda _: "own")
