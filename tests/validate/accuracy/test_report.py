"""The page of a machine: figures by hand, regenerated to the same bytes, and stale when a record is added."""

import pytest

from perfmodel.cli import run
from perfmodel.validate.accuracy import report
from perfmodel.validate.records import records


@pytest.mark.parametrize("machine", sorted({r.data.machine for r in records() if r.data.kind == "measure"}))
def test_the_page_of_committed_sets_is_up_to_date(machine, monkeypatch) -> None:
    """Git ignores results/local-*. The fewest passes that are cut in halves are nine, of an H200."""
    monkeypatch.setattr(report, "MIN_HALVES", 9)
    assert machine.startswith("local-") or run(["validate", "report", machine, "--check"]) == 0


def test_inflection_on_a_grid() -> None:
    """From which context on speedup does not fall with batch, a fall of 3 % forgiven; by hand."""
    for short, long, expected in (
        (0.9, 1.1, 2),
        (1.1, 1.1, 1),
        (1.1, 0.9, None),
        (0.98, 0.98, 1),
        (0.75, 0.96, None),
    ):
        assert report.inflection_of({1: [1.0, short], 2: [1.0, long]}, 0.03) == expected
    assert report.inflection_of({1: [1.0, 0.75]}, 0.25) == 1
