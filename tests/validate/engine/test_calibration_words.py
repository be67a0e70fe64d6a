"""What is said about the rows of a calibration: which do not fit, which contradict, and when none is made."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.question import Query
from perfmodel.validate.engine import calibrate as module, calibration_words
from perfmodel.validate.engine.speedup_pairs import speedup_pairs
from perfmodel.validate.engine.timing import Timing
from tests.refusals import refused

TIMINGS = [Timing.checked(where="f", seconds=0.01, batch=1, context=1000, gamma=gamma) for gamma in (0, 3)]


def calibrated(off: float) -> Any:
    """Two rows whose held-out predictions are off by this log error."""
    measured = np.array([0.01, 0.01])
    return SimpleNamespace(
        rows=SimpleNamespace(timings=tuple(TIMINGS), measured=measured),
        fitted=SimpleNamespace(held_out=measured * math.exp(off), free=(), pinned=()),
        aside=(),
        previous=None,
        base="ideal",
        tried={"ideal": off},
    )


@pytest.mark.parametrize(
    ("off", "out_of_line", "contradicting"),
    [(0.19, False, False), (0.21, False, True), (0.29, False, True), (0.31, True, True)],
)
def test_rows_that_do_not_fit_and_rows_that_contradict_are_named(
    off: float, out_of_line: bool, contradicting: bool
) -> None:
    words = "\n".join(calibration_words.lines(calibrated(off)))
    assert ("out of line: counts less" in words) is out_of_line
    assert ("the rows contradict each other: measure again" in words) is contradicting


@pytest.mark.parametrize("off", [0.49, 0.51])
def test_rows_that_no_base_explains_are_refused(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    made = calibrated(off)
    subject: Any = SimpleNamespace(model="m", draft="d", hardware="h100")
    bases: Any = [SimpleNamespace(name="ideal")]
    monkeypatch.setattr(module, "_served_bases", lambda bases, query, subject: bases)
    monkeypatch.setattr(module, "rows_of", lambda *_: made.rows)
    monkeypatch.setattr(module, "fit", lambda *_: made.fitted)
    monkeypatch.setattr(module, "_shipped", lambda *_: None)
    given = (TIMINGS, Query("llama-3.1-8b", "h100", 1, 1000), bases, subject, ("f",))
    if off > 0.5:
        says = "no --calibration explains these steps: with ideal held-out rows are 1.7 times off"
        refused(says, module.calibrate, *given)
    else:
        assert module.calibrate(*given).base == "ideal"


@pytest.mark.parametrize(("context", "pairs"), [(1090, [(1, 0)]), (1120, [])])
def test_a_speedup_needs_a_baseline_at_about_the_same_context(
    context: int, pairs: list[tuple[int, int]]
) -> None:
    assert speedup_pairs([TIMINGS[0], TIMINGS[1].replace(context=context)]) == pairs
