"""Predicted beside measured: every printed figure has a cell, partitions add up, bounds bite only where they
hold; and the page of a machine is up to date.
"""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.cli import run as perfmodel
from perfmodel.errors import InputError
from perfmodel.specs.published import published_points
from perfmodel.validate.accuracy import report
from perfmodel.validate.accuracy.cells import LABELS, Cell
from perfmodel.validate.accuracy.compare import compare
from perfmodel.validate.accuracy.inflections import inflection_of, inflections
from perfmodel.validate.accuracy.partitions import correct_verdicts, partitions
from perfmodel.validate.accuracy.sets import SETS, gated_sets, named_sets, own_records
from perfmodel.validate.cli import app
from perfmodel.validate.records import Record, points as own_points, read_record, records
from perfmodel.validate.records.checksum import stamped
from tests.validate.tiny_plan import measured

CELL = Cell(published_points("magicdec")[0], "target_s", 2.0, 1.0, "cal", True, 1.5, True)


def test_a_time_below_its_bound_counts_only_where_the_cache_cannot_hold_it() -> None:
    at = replace(CELL, measured=1.5)
    below = replace(CELL, measured=1.4, binding=False)
    assert not at.below_bound
    assert report.below_bounds([at, below]) == [
        "3a-01: T_T 1.4e+03 ms is below its bound, 1.5e+03 ms (its working set fits the last-level cache)"
    ]
    assert replace(CELL, measured=1.4).below_bound
    assert not below.below_bound
    assert not replace(CELL, measured=1.4, lower=None).below_bound


def test_an_overhead_that_ideal_does_not_have_is_no_error() -> None:
    """Tables of a set and of a machine's page leave the figure out."""
    cells = compare(("magicdec",), calibration="ideal")
    assert {c.predicted for c in cells if c.quantity == "overhead_s"} == {0.0}
    assert not [name for name in partitions(cells) if name.endswith("overhead_s")]
    figures = [row[0] for row in report.error_table(cells)[1]]
    assert "speedup" in " ".join(figures)
    assert not [name for name in figures if "overhead" in name]


def test_command_line(tmp_path) -> None:
    run = CliRunner()
    done = run.invoke(app, ["compare", "--set", "magicdec"])
    assert done.exit_code == 0
    assert "correct verdict (speedup above or below 1): 55 of 59" in done.output
    assert "magicdec/a100-sxm-80gb/speedup" in done.output
    compared = json.loads(run.invoke(app, ["compare", "--set", "gptfast_decode", "--json"]).output)
    assert compared["schema_version"] == 2
    assert [row["calibration"] for row in compared["rows"]] == ["a100-sxm-80gb.gpt-fast"] * 32
    first = compared["rows"][0]
    assert first["error"] == first["predicted"] / first["measured"] - 1
    assert compared["partitions"]["gptfast_decode/a100-sxm-80gb/target_s"]["rows"] == 32
    printed = run.invoke(app, ["compare", "--set", "gptfast_decode"]).output
    shown = printed.partition("largest errors")[2]
    assert sum("target_s" in line for line in shown.splitlines()) == 8
    assert isinstance(run.invoke(app, ["compare", "--set", "nowhere"]).exception, InputError)


def test_own_records_are_compared_like_published_ones() -> None:
    """Predicted is what whatif answers; the baseline is timed twice, and the bound holds for both."""
    records = own_records()
    ((name, record),) = ((name, record) for name, record in records.items() if name.startswith("cpu-1/"))
    points = own_points(record)
    cells = compare((name,))
    assert {c.quantity for c in cells} == {*LABELS} - {"speedup_alpha"}
    assert sum(c.quantity == "ar_tpot_s" for c in cells) == len(points) == 40
    p = points[0]
    query = Query(
        p.target,
        p.hardware,
        p.batch,
        p.context,
        p.gamma,
        draft_kv=p.draft_kv or "",
        tokens_per_iteration=p.tokens_per_iteration,
    )
    answer = whatif(query)
    mine = {c.quantity: c for c in cells if c.point == p}
    assert mine["target_s"].predicted == mine["ar_tpot_s"].predicted
    assert mine["target_s"].predicted == pytest.approx(answer.target_step.predicted_s, rel=1e-12)
    lower_s = answer.target_step.lower_s
    assert mine["target_s"].lower == pytest.approx(lower_s, rel=1e-12)
    assert mine["ar_tpot_s"].lower == mine["target_s"].lower
    assert mine["speedup"].predicted == pytest.approx(answer.speedup, rel=1e-9)
    assert mine["sd_tpot_s"].measured == p.sd_tpot_s


def test_a_speedup_from_published_acceptance_differs_by_its_tokens_alone() -> None:
    cells = compare(("magicdec",))
    speedups = {c.point: c.predicted for c in cells if c.quantity == "speedup"}
    modelled = [c for c in cells if c.quantity == "speedup_alpha" and c.point in speedups]
    assert modelled
    for c in modelled:
        tokens = c.point.tokens_per_iteration * c.predicted / speedups[c.point]
        assert 1 < tokens < c.point.gamma + 1


def cell(measured: float, predicted: float, quantity: str = "speedup", **point: object) -> Cell:
    return Cell(replace(CELL.point, **point), quantity, measured, predicted, "cal")


def test_inflections_of_a_grid() -> None:
    """The speedup falls with batch at 1000 tokens and not at 4000 (asked:
    4096).
    """
    far = {"context": 4000, "asked_context": 4096}
    falls = [cell(1.5, 1.5, batch=1, context=1000), cell(1.4, 1.6, batch=2, context=1000)]
    stays = [cell(1.5, 1.5, batch=2, **far), cell(1.5, 1.5, batch=1, **far)]
    ((measured, predicted),) = inflections([*falls, *stays], 0.03).values()
    assert measured == 4096
    assert predicted == (falls[0].point.asked_context or 1000)
    assert inflections(falls[:1], 0.03) == {}


def test_sides_and_bands() -> None:
    speedups = [cell(1.0, 1.1), cell(0.9, 1.0), cell(1.0, 0.99), cell(0.5, 0.4)]
    cells = [*speedups, cell(2.0, 2.0, "sd_tpot_s")]
    assert correct_verdicts(cells) == (2, 4)
    at = [cell(1.0, 1.0, context=context) for context in (7999, 8000, 31999, 32000)]
    by_context = partitions(at, ("context",))
    bands = {name.split("/")[2]: len(rows) for name, rows in by_context.items()}
    assert bands == {"context < 8000": 1, "context < 32000": 2, "context >= 32000": 1}
    assert partitions([cell(1.0, 0.0)], ("",)) == {}
    plain = cell(1.0, 1.0, draft=None, draft_kv=None)
    parts = {name.split("/")[2] for name in partitions([plain])}
    assert not any(name.startswith("draft") for name in parts)


def of_machine(machine: str, record: Record) -> Record:
    """The record as another machine would have written it, beside the machine's folder."""
    data = json.loads(record.path.read_text(encoding="utf-8")) | {"machine": machine}
    del data["crc32"]
    path = record.path.parents[1] / machine / record.path.name
    path.parent.mkdir()
    path.write_text(stamped(json.dumps(data)), encoding="utf-8")
    return read_record(path)


def test_records_of_ones_own_machine_enter_no_gate_of_the_shipped_ones(tmp_path) -> None:
    shipped = measured(tmp_path)
    local = of_machine("local-1", shipped)
    assert gated_sets(tmp_path, bundled=tmp_path) == (*SETS, shipped.name)
    assert gated_sets(tmp_path) == (*SETS, local.name, shipped.name)
    assert named_sets(["t-1", shipped.name, "magicdec"], tmp_path) == (shipped.name, "magicdec")


# The page of a machine: regenerated to the same bytes, and stale when a record is added.


@pytest.mark.parametrize("machine", sorted({r.data.machine for r in records() if r.data.kind == "measure"}))
def test_the_page_of_committed_sets_is_up_to_date(machine) -> None:
    """Git ignores results/local-*."""
    assert machine.startswith("local-") or perfmodel(["validate", "report", machine, "--check"]) == 0


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [(0.9, 1.1, 2), (1.1, 1.1, 1), (1.1, 0.9, None), (0.98, 0.98, 1), (0.75, 0.96, None)],
)
def test_inflection_on_a_grid(short: float, long: float, expected: int | None) -> None:
    """From which context on speedup does not fall with batch, a fall of 3 % forgiven; by hand."""
    speedups = {1: [1.0, short], 2: [1.0, long]}
    assert inflection_of(speedups, 0.03) == expected


def test_a_fall_that_is_just_forgiven() -> None:
    assert inflection_of({1: [1.0, 0.75]}, 0.25) == 1
