"""The page of a machine: figures by hand, regenerated to the same bytes, and stale when a record is added."""

from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.validate.accuracy.report import inflection_of
from perfmodel.validate.records import records
from tests.validate.tiny import BLOCK, measured

MACHINES = sorted({record.data.machine for record in records() if record.data.kind == "measure"})
# git ignores results/local-*
COMMITTED = [machine for machine in MACHINES if not machine.startswith("local-")]


@pytest.mark.parametrize("machine", COMMITTED)
def test_the_page_of_committed_sets_is_up_to_date(machine) -> None:
    assert run(["validate", "report", machine, "--check"]) == 0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of two batches, two contexts and two gammas."""
    folder = tmp_path_factory.mktemp("results")
    measured(folder, grid=[{**BLOCK, "context": [64, 128], "gamma": [1, 2]}])
    return folder


def report(results: Path, *more: str) -> int:
    return run(["validate", "report", "t-1", "--results", str(results), *more])


def test_the_page_has_every_part_and_is_reproducible(results) -> None:
    assert report(results) == 0
    page, text = results / "t-1" / "report.md", (results / "t-1" / "report.md").read_text(encoding="utf-8")
    for part in ("Errors", "Every point", "S_inflection"):
        assert f"### {part}" in text
    assert report(results) == 0
    assert page.read_text(encoding="utf-8") == text
    assert str(results) not in text


def test_inflection_on_a_grid() -> None:
    """From which context on speedup does not fall with batch, a fall of 3 % forgiven; by hand."""
    for short, long, expected in (
        (0.9, 1.1, 2),
        (1.1, 1.1, 1),
        (1.1, 0.9, None),
        (0.98, 0.98, 1),
        (0.75, 0.96, None),
    ):
        assert inflection_of({1: [1.0, short], 2: [1.0, long]}, 0.03) == expected
    assert inflection_of({1: [1.0, 0.75]}, 0.25) == 1
