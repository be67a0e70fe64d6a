"""What `perfmodel validate check` prints, of figures that are given by hand."""

from pathlib import Path
from typing import Any

import pytest

from perfmodel.validate.accuracy.check import Baseline, Checked, PartErrors, parts_of
from perfmodel.validate.accuracy.figure import Figure
from perfmodel.validate.cli.checked_words import HINT, complaints, content, show, summary

SPEEDUP = "gpu-1/plan/speedup"
TPOT = "gpu-1/plan/tpot_s"


def figure(part: str, row: str, predicted: float, fitted: bool = False) -> Figure:
    """A figure that was measured as 1."""
    return Figure(part, f"record-{row}", row, 1.0, predicted, "mine", fitted)


FIGURES = [figure(SPEEDUP, "a", 1.1), figure(SPEEDUP, "b", 0.8), figure(TPOT, "a", 1.05)]
"""Errors of speedups: mean 15 %, bias -5 %, worst -20 %."""


def checked(*figures: Figure, **changes: Any) -> Checked:
    result: dict[str, Any] = {"faults": (), "limit": 0.1, "before": None}
    return Checked(tuple(parts_of(list(figures or FIGURES))), **result | changes)


def of_speedup(mape: float) -> Baseline:
    """A baseline that knows only the speedups."""
    errors = PartErrors(rows=2, mape=mape, bias=0.0, worst=0.1)
    return Baseline(
        schema_version=1, kind="check", perfmodel_version="1", parts={SPEEDUP: errors}, predicted={}
    )


def printed(result: Checked, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of each line of the table."""
    show(result)
    return [line.split() for line in capsys.readouterr().out.splitlines() if line]


def test_a_part_has_its_mean_error_its_bias_and_its_worst(capsys) -> None:
    lines = printed(checked(), capsys)
    assert [SPEEDUP, "2", "15.0%", "-5.0%", "-20.0%", "mine"] in lines
    assert [TPOT, "1", "5.0%", "+5.0%", "+5.0%", "mine"] in lines


def test_the_error_before_stands_beside_today_s(capsys) -> None:
    lines = printed(checked(before=of_speedup(0.12)), capsys)
    assert "before" in lines[0]
    assert [SPEEDUP, "2", "15.0%", "12.0%", "-5.0%", "-20.0%", "mine"] in lines
    assert [TPOT, "1", "5.0%", "-", "+5.0%", "+5.0%", "mine"] in lines, "a part that is new"


def test_a_calibration_of_the_same_records_is_marked(capsys) -> None:
    lines = printed(checked(figure(SPEEDUP, "a", 1.1, fitted=True)), capsys)
    assert [SPEEDUP, "1", "10.0%", "+10.0%", "+10.0%", "mine*"] in lines
    assert lines[-1][:6] == ["*", "fitted", "on", "these", "very", "records:"]
    assert printed(checked(), capsys)[-1][0] != "*"


def test_the_verdict_counts_figures_and_records() -> None:
    folder = Path("mine")
    passes = summary(checked(), folder, None)
    assert passes == "check: PASS; 3 figures of 2 records in mine; mean errors up to 10.0%"
    fails = summary(checked(faults=("above the limit",)), folder, None)
    assert fails.startswith("check: FAIL; ")


def test_the_verdict_names_the_rule_of_a_baseline() -> None:
    against = checked(before=of_speedup(0.12), limit=None)
    said = summary(against, Path("mine"), Path("base.json"))
    assert said.endswith("; no limit, 1 point above base.json at most")


def test_faults_come_before_doubts_and_the_hint_comes_last() -> None:
    result = checked(faults=("above the limit: x",), doubts=("one run",))
    lines = ["above the limit: x", "not to be relied on: one run"]
    assert [*complaints(result, has_rule=True)] == lines
    assert [*complaints(result, has_rule=False)] == [*lines, HINT]


def test_a_check_that_passes_needs_no_hint() -> None:
    assert [*complaints(checked(), has_rule=False)] == []


def test_json_has_every_row_with_its_error_and_the_doubts() -> None:
    said = content(checked(doubts=("one run",)))
    assert [round(row["error"], 3) for row in said["rows"]] == [0.1, -0.2, 0.05]
    assert said["rows"][0]["part"] == SPEEDUP
    assert said["parts"][SPEEDUP]["mape"] == pytest.approx(0.15)
    assert said["doubts"] == ("one run",)
