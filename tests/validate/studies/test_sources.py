"""Errors of sources left out: which error a row has, and in which class it counts."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.validate.studies import choices, llamacpp, sources, sources_file
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.public_runs import RunKind, public_runs
from perfmodel.validate.studies.sources import errors_without_source, llamacpp_errors, refitted_files
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


def of_engine(engine: str, row: Answered) -> Answered:
    """The answer for a run of another engine."""
    return replace(row, run=replace(row.run, engine=engine))


LEFT_OUT = [
    of_engine("llamacpp", answered("of llama.cpp", "step")),
    of_engine("vllm", answered("a", "step")),
    of_engine("sglang", answered("b", "speedup")),
    of_engine("vllm", answered("c", "ratio")),
]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits without the sources of the rows `a` and `b`, which take minutes."""
    off = {"a": -0.123456, "b": 0.5}
    monkeypatch.setattr(sources, "answered", lambda: LEFT_OUT)
    monkeypatch.setattr(sources, "left_out", lambda rows: np.array([off[row.run.id] for row in rows]))


def test_a_row_of_a_serving_engine_has_the_error_of_the_fit_without_its_source(fits) -> None:
    """With its sign, in four digits. The ratio of an iteration to a step has no such error."""
    expected = {"step": {"of llama.cpp": 0.6931, "a": -0.1235}, "speedup": {"b": 0.5}}
    assert errors_without_source() == expected


def test_the_study_writes_its_errors_those_of_other_engines_and_the_choices(fits, monkeypatch) -> None:
    """The errors have four digits. The choices are those of the present."""
    day = datetime.date(2026, 1, 2)
    lent = {"step": {"sglang": {"a": 0.123456}}}
    path = sources_file.ERRORS_PATH
    monkeypatch.setattr(sources, "errors_of_lenders", lambda rows: lent if rows == LEFT_OUT[1:3] else {})
    monkeypatch.setattr(sources_file, "texts", lambda *given: {path: repr(given)})
    texts = refitted_files(day)
    shortened = {"step": {"sglang": {"a": 0.1235}}}
    assert texts[path] == repr((errors_without_source(), shortened, day))
    assert json.loads(texts[choices.PATH]) == choices.present()
    assert len(texts) == 2


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
