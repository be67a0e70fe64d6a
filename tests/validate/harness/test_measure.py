"""Runs of a tiny plan: what the record holds, what survives `kill -9`, what may not be mixed. No time is
asserted.
"""

import json
import math
import multiprocessing
import os
import socket
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from perfmodel.cli import run
from perfmodel.validate.decoder import RankShard
from perfmodel.validate.harness import session
from perfmodel.validate.harness.clock import Clock
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.measure import PointMeasurer, run_plan
from perfmodel.validate.harness.session import Rows, RowsToMeasure, SpoiltDevice, run_rows
from perfmodel.validate.records import SCHEMA_VERSION, Plan, Record, read_record, records
from tests.refusals import refused
from tests.validate import ranks
from tests.validate.tiny_plan import BLOCK, measure_command, measured, planned, write_plan

PROTOCOL = {"acceptance": "scripted", "interleaved": True, "cache": "random values, no prefill"}
COMMIT = "0123456789abcdef"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return measured(tmp_path_factory.mktemp("record"))


def test_a_record_says_everything(record) -> None:
    data = record.data
    assert record.path.name.endswith("-01234567-test-tiny.json")
    assert data.schema_version == SCHEMA_VERSION
    assert data.commit == COMMIT
    assert data.dirty is False
    assert data.environment.libraries["torch"]
    assert data.environment.device.kind == "cpu"
    assert data.plan.shapes["tiny"].num_hidden_layers == 2
    assert data.protocol.timer == "thread_time"
    assert data.protocol.samples == 7
    assert data.protocol.iterations == 1
    protocol = json.loads(record.path.read_text(encoding="utf-8"))["protocol"]
    assert [protocol[key] for key in ("acceptance", "interleaved", "warmup")] == ["scripted", True, 1]
    assert len(record.rows) == 4
    assert not record.failures()


def test_a_row_has_as_many_samples_as_its_precision_needs(tmp_path) -> None:
    protocol = {"iterations": 1, "modes": ["end_to_end"], "seconds": 1}
    for within, enough in ((0.99, range(7, 8)), (1e-9, range(8, 10**6))):
        folder = tmp_path / str(within)
        folder.mkdir()
        record = measured(folder, grid=[{**BLOCK, "batch": [1]}], protocol={**protocol, "within": within})
        (row,) = record.rows
        assert len(row.samples["ar_s"]) == len(row.samples["sd_s"])
        assert len(row.samples["ar_s"]) in enough


def test_a_record_holds_no_host_and_no_path(record) -> None:
    text = record.path.read_text(encoding="utf-8")
    for secret in (socket.gethostname(), str(Path.home()), str(ROOT), str(record.path.parent)):
        assert f'"{secret}' not in text
        assert f"{secret}/" not in text
    assert set(json.loads(text)["environment"]["variables"]) <= {
        "WORLD_SIZE",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
    }


def test_what_a_kernel_compiler_refuses_is_a_row(tmp_path) -> None:
    """Triton's errors are no RuntimeErrors. The point's other mode fails with it, and other points go on."""

    class CompilerError(Exception):
        pass

    def refuse() -> int:
        raise CompilerError("out of shared memory")

    plan = planned(tmp_path)
    measurer = PointMeasurer(plan, torch.device("cpu"), RankShard())
    (first, mode), second, third, _ = plan.runs()
    works = measurer.clock
    measurer.clock = Clock(refuse)
    failed = measurer.row(first, mode)
    measurer.clock = works
    assert failed["status"] == "failed"
    assert failed["error"] == "CompilerError: out of shared memory"
    assert measurer.row(*second)["error"] == failed["error"]
    assert measurer.row(*third)["status"] == "ok"


ERROR = "RuntimeError: operation failed due to a previous error during capture"


def spoiling(plan: Plan, results: Path) -> RowsToMeasure:
    """The rows of a plan, of which each fails and makes the device unusable; a further process measures
    them as usual.
    """

    def rows(device: torch.device, shard: RankShard) -> Rows:
        keys = [f"{point.name}/{mode}" for point, mode in plan.runs()]
        point, mode = plan.runs()[0]
        row = {**point.as_mapping(exclude_none=True), "mode": mode, "status": "failed", "error": ERROR}
        return [(key, lambda: row) for key in keys]

    return RowsToMeasure(
        plan,
        "measure",
        "t-1",
        results,
        {"protocol": {**plan.protocol.as_mapping(), **PROTOCOL}},
        rows,
        again=partial(run_plan, plan, "t-1", results=results),
        usable=lambda device: False,
    )


def test_on_a_cpu_this_process_measures_with_the_threads_of_the_plan(tmp_path, monkeypatch) -> None:
    plan = planned(tmp_path, threads=2)
    wanted = spoiling(plan, tmp_path)
    seen = []

    def rows(device: torch.device, shard: RankShard) -> Rows:
        seen.append((os.getpid(), torch.get_num_threads()))
        return wanted.rows(device, shard)[:1]

    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 6.0, 7.0))
    before = torch.get_num_threads()
    path = run_rows(replace(wanted, rows=rows, usable=lambda device: True), resume=False, deadline=math.inf)
    torch.set_num_threads(before)
    assert seen == [(os.getpid(), 2)]
    assert path is not None
    assert [row.load_average for row in read_record(path).rows] == [0.5], "the load of the last minute"


def test_a_device_that_a_row_has_spoilt_is_left_to_a_fresh_process(tmp_path) -> None:
    """As a failed graph capture does; the row stays in the record, and the others have times."""
    path = run_rows(spoiling(planned(tmp_path), tmp_path), resume=False, deadline=math.inf)
    assert path is not None
    rows = read_record(path).rows
    assert [row.status for row in rows] == ["failed", "ok", "ok", "ok"]
    assert rows[0].error == ERROR


def kept_rows(results: Path) -> int:
    """Finished rows in the journal of the interrupted run."""
    (path,) = results.glob("t-1/*.journal")
    with Journal.resume(path) as journal:
        return len(journal.keys())


def test_a_child_leaves_a_spoilt_device_to_its_parent(tmp_path, monkeypatch) -> None:
    """With the failed row in the journal, so the next child has one row fewer to measure."""
    monkeypatch.setattr(session, "parent_process", multiprocessing.current_process)
    wanted = spoiling(planned(tmp_path), tmp_path)
    for number in range(4):
        with pytest.raises(SpoiltDevice):
            run_rows(wanted, resume=number > 0, deadline=math.inf)
        assert kept_rows(tmp_path) == number + 1
    path = run_rows(wanted, resume=True, deadline=math.inf)
    assert path is not None
    assert [row.status for row in read_record(path).rows] == ["failed"] * 4


def test_a_spoilt_device_ends_a_run_of_several_ranks(tmp_path, monkeypatch) -> None:
    """No process could take this rank's place; the journal keeps the finished row."""
    monkeypatch.setattr(session, "joined", lambda *ranks: nullcontext(RankShard()))
    wanted = spoiling(planned(tmp_path, tensor_parallel=2), tmp_path)
    words = "a failed row left the device unusable; finished rows are kept for --resume"
    refused(words, run_rows, wanted, False, math.inf)
    assert kept_rows(tmp_path) == 1


def test_out_of_memory_is_a_row(tmp_path) -> None:
    rows = measured(
        tmp_path,
        grid=[BLOCK, {**BLOCK, "batch": [4096], "context": [1 << 20]}],
        protocol={"iterations": 1, "modes": ["end_to_end"]},
    ).rows
    assert [row.status for row in rows] == ["ok", "ok", "out_of_memory"]
    assert "must fit" in (rows[2].error or "")


@pytest.mark.slow
def test_two_ranks_write_one_record(tmp_path) -> None:
    """Tensor parallelism over gloo: whole passes, the all-reduce curve that a calibration takes, and
    acceptance.
    """
    plan = write_plan(tmp_path, grid=[{**BLOCK, "batch": [1]}], tensor_parallel=2)
    where = [str(plan), "--machine", "t-2", "--results", str(tmp_path)]
    table = tmp_path / "acceptance.json"
    ranks.commands(
        ["validate", "measure", *where],
        ["validate", "microbench", *where, "--only", "allreduce"],
        [
            *("validate", "acceptance", "--tp", "2", "--documents", "1", "--context", "64"),
            *("--new-tokens", "8", "--draft-kv", "streamingllm:16", "--out", str(table)),
        ],
    )
    by_kind = {record.data.kind: record for record in records(tmp_path)}
    assert [row.status for row in by_kind["measure"].rows] == ["ok", "ok"]
    assert len(by_kind["microbench"].kernels) == 7
    assert not by_kind["microbench"].failures()
    assert by_kind["microbench"].data.environment.world_size == 2
    # a thread's own time would leave out the waits for the other rank
    assert {record.data.protocol.timer for record in by_kind.values()} == {"perf_counter"}
    assert "2 devices" in json.loads(table.read_text(encoding="utf-8"))["source"]


def test_minutes_end_a_run_between_two_rows(tmp_path, capsys) -> None:
    """The record is finished with what there is; the first row is always measured."""
    assert [row.status for row in measured(tmp_path, "--minutes", "1e-6").rows] == ["ok"]
    assert "stopped after 1 of 4 rows: --minutes 1e-06" in capsys.readouterr().err
    assert run([*measure_command(write_plan(tmp_path), tmp_path), "--minutes", "0"]) == 2
    assert "--minutes: must be a finite number above 0" in capsys.readouterr().err


def test_a_journal_becomes_a_record_later(tmp_path, record, capsys) -> None:
    """Rows byte for byte, a torn last line aside; without a row there is no record, and the journal stays."""
    whole = json.loads(record.path.read_text(encoding="utf-8"))
    header = {key: value for key, value in whole.items() if key not in ("points", "crc32")}
    journal = Journal.begin(tmp_path / "20250101T000000Z-01234567-test-tiny.journal", header)
    journal.close()
    assert run(["validate", "finish", str(journal.path)]) == 2
    assert "must hold a finished row" in capsys.readouterr().err
    journal = Journal.resume(journal.path)
    for row in whole["points"][:3]:
        journal.add(row)
    journal.close()
    with journal.path.open("ab") as stream:
        stream.write(b"0badc0de {")
    assert run(["validate", "finish", str(journal.path)]) == 0
    record_path = journal.path.with_suffix(".json")
    assert f"record: {record_path}, 3 rows" in " ".join(capsys.readouterr().out.split())
    written = json.loads(record_path.read_text(encoding="utf-8"))
    assert written == {**header, "points": whole["points"][:3], "crc32": written["crc32"]}
    assert not journal.path.exists()
    for wrong in (record_path, tmp_path / "none.journal"):
        assert run(["validate", "finish", str(wrong)]) == 2
        assert f"{wrong}: must be a .journal file" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("more", "changes", "words"),
    [
        (("--calibration", "nope"), {}, "no calibration named 'nope'"),
        ((), {"hardware": "zeon-nope"}, "no device named 'zeon-nope'"),
        (
            (),
            {"hardware": "xeon-amx-2core", "precision": {"weights": "fp32", "kv": "fp32"}},
            "no published fp32 peak",
        ),
        ((), {"grid": [{**BLOCK, "draft": "tiny-draft"}]}, "vocabulary entries"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_it_is_timed(
    tmp_path, capsys, more, changes, words
) -> None:
    assert run(measure_command(write_plan(tmp_path, **changes), tmp_path / "results", *more)) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
