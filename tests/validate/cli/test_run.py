"""`validate run` and what reads it afterwards: report, check, compare and whatif find its calibration and
device.
"""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.cli import run
from perfmodel.specs import load_calibration, load_gpu
from perfmodel.validate.accuracy.compare import calibration_of
from perfmodel.validate.cli.run import _finding, closing
from perfmodel.validate.records import RESULTS, Record, code_version, latest, records
from tests.validate.programs import write_program
from tests.validate.tiny_plan import BLOCK, measured, with_rows, write_plan

SMALL = {"micro": {"rows": [1, 4], "max_bytes": 2**27}, "grid": [{**BLOCK, "batch": [1]}]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with a run of this CPU in it, moved after it was made."""
    began = tmp_path_factory.mktemp("began")
    plan = str(write_plan(began, **SMALL))
    assert run(["validate", "run", plan, "--machine", "t-1", "--results", str(began / "results")]) == 0
    moved = tmp_path_factory.mktemp("moved") / "results"
    shutil.move(began / "results", moved)
    return moved


def test_a_record_names_the_files_of_its_run_without_a_path(made) -> None:
    (record,) = (r for r in records(made) if r.data.kind == "measure")
    (device,), (calibration,) = made.glob("t-1/*-device.yaml"), made.glob("t-1/*-calibration.yaml")
    assert record.data.hardware == device.name
    assert record.data.calibration == calibration.name
    assert record.hardware == str(device)
    assert record.calibration == str(calibration)
    assert load_gpu(str(device)).calibration == str(calibration)
    assert calibration_of(record) == load_calibration(str(calibration))
    assert load_gpu(str(made / "t-1")) == load_gpu(str(device))  # of a folder, its newest
    assert load_calibration(str(made / "t-1")) == load_calibration(str(calibration))
    assert record.data.plan.hardware == "h100-sxm-80gb"  # the plan is what it was: a second run repeats it


def test_what_reads_a_run_finds_its_calibration(made, capsys) -> None:
    folder = ["--results", str(made)]
    for words in (["report", "t-1"], ["report", "t-1", "--check"], ["check", "--max-error", "999%"]):
        assert run(["validate", *words, *folder]) == 0, words
    assert "with calibration `t-1.micro`" in (made / "t-1" / "report.md").read_text(encoding="utf-8")
    assert "t-1/test-tiny/speedup" in capsys.readouterr().out
    assert run(["validate", "compare", "--set", "t-1", "--json", *folder]) == 0
    assert {row["calibration"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"t-1.micro"}
    question = "--model llama-3.2-1b --batch 1 --context 8k --draft-kv streamingllm:512 --alpha 0.8"
    assert run(["whatif", "--hardware", str(made / "t-1"), *question.split()]) == 0
    assert run(["validate", "calibrate", "--from-microbench", "t-1", "--hardware", "h100", *folder]) == 0


def test_a_report_that_is_not_of_the_records_is_stale(made, capsys) -> None:
    folder = ["--results", str(made)]
    page = made / "t-1" / "report.md"
    assert run(["validate", "report", "t-1", *folder]) == 0
    page.write_text(page.read_text(encoding="utf-8") + "by hand", encoding="utf-8")
    assert run(["validate", "report", "t-1", "--check", *folder]) == 1
    assert "report.md: stale: run perfmodel validate report t-1" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").endswith("by hand")


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch) -> None:
    """Also where the code lies in somebody else's repository, whose commit says nothing of it."""
    monkeypatch.delenv("PERFMODEL_COMMIT", raising=False)
    digest = code_version.commit()["source_sha256"]
    monkeypatch.setenv("PATH", str(tmp_path))
    for says in ("exit 128", f"echo /somewhere/else; echo {'a' * 40}"):
        write_program(tmp_path, "git", says)
        commit = code_version.commit()
        assert commit["commit"] == "unknown"
        assert commit["commit_from"].startswith("perfmodel ")
        assert commit["source_sha256"] == digest
    record = measured(tmp_path, grid=[{**BLOCK, "batch": [1]}])
    assert record.path.stem.split("-")[1:] == ["unknown", "test", "tiny"]
    assert record.data.commit == "unknown"


def test_the_digest_is_of_code_and_data_files(tmp_path) -> None:
    """Of a wheel, too, whose results lie in the package."""
    (tmp_path / "results").mkdir()
    seen = [code_version.source_digest({"": tmp_path})]
    for name in ("a.py", "b.yaml", "c.json", "results/d.yaml"):
        (tmp_path / name).write_text("x")
        seen.append(code_version.source_digest({"": tmp_path}))
    assert len(set(seen)) == 3
    assert seen[2] == seen[4]


def scattered(record: Record, factor: float) -> Record:
    """Every second speculative sample takes so many times as long."""
    rows = []
    for row in record.data.points:
        samples = dict(row.samples)
        if "sd_s" in samples:
            samples["sd_s"] = tuple(s * factor ** (i % 2) for i, s in enumerate(samples["sd_s"]))
        rows.append(row.replace(samples=samples))
    return with_rows(record, rows)


def test_the_last_lines_say_what_was_found() -> None:
    passes = latest(records(RESULTS, "cpu-1"), "measure")
    fitted = calibration_of(passes)
    path = Path("c.yaml")
    device = "xeon-amx-2core"
    lines = closing(passes, fitted, device, path)
    assert lines[1].startswith("ask: perfmodel whatif --hardware xeon-amx-2core --calibration c.yaml --model")
    pattern = (
        r"batch \d+, context \d+, gamma \d: predicted \d\.\d\dx, measured (\d\.\d\dx|nothing certain) .*"
    )
    assert all(re.fullmatch(pattern, line) for line in lines[2:-1])
    assert re.fullmatch(r"this machine's timings scatter by \d+%", lines[-1])


def test_a_doubtful_calibration_does_not_end_in_a_question() -> None:
    passes = latest(records(RESULTS, "cpu-1"), "measure")
    fitted = calibration_of(passes)
    slow = fitted.replace(iteration_fixed_s=fitted.iteration_fixed_s.replace(value=1.0))
    doubted = fitted.replace(notes="x. WARNING: no efficiency explains its gemm times.")
    for record, calibration, why in (
        (passes, slow, "its speedups are"),
        (passes, doubted, "no efficiency explains"),
        (scattered(passes, 3.0), fitted, "no speedup is measured within 15%"),
    ):
        lines = closing(record, calibration, "xeon-amx-2core", Path("c.yaml"))
        assert lines[1] == "NOT TO BE RELIED ON: c.yaml"
        assert any(line.startswith(f"  {why}") for line in lines), lines
        assert not [line for line in lines if line.startswith("ask")]


@pytest.mark.parametrize(
    ("width", "words"), [(0.14, "measured 1.50x ± 0.21"), (0.16, "measured nothing certain (± 16%)")]
)
def test_a_measured_speedup_is_printed_up_to_an_interval_of_15_percent(width: float, words: str) -> None:
    point = SimpleNamespace(batch=1, asked_context=1024, gamma=3)
    cell: Any = SimpleNamespace(point=point, predicted=1.4, measured=1.5)
    assert _finding(cell, width) == f"batch 1, context 1024, gamma 3: predicted 1.40x, {words}"
