"""Sweeps: the grid equals the loop, and an interrupted file goes on to exactly what it would have been."""

import csv
import io
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel import cli
from perfmodel.answers import sweep, sweep_files
from perfmodel.answers.sweep import COLUMNS, LABELS, Block, Grid, blocks
from perfmodel.answers.whatif import whatif
from perfmodel.errors import InputError

QUESTION = Grid(
    model="llama-3.1-8b,qwen3-30b-a3b",
    hardware="a100,h100",
    tp="4",
    batch="1,64",
    context="1k,32000,100k",
    gamma="0,2,auto",
    draft_kv="streamingllm:512,quest:1k,page=16",
    alpha="0.8",
)
SMALL = [
    "--model",
    "llama-3.1-8b",
    "--hardware",
    "a100",
    "--tp",
    "8",
    "--draft-kv",
    "streamingllm:512",
    "--alpha",
    "0.8",
]


def rows_of(grid: Grid) -> Iterator[dict[str, Any]]:
    for block in blocks(grid):
        for index in range(block.rows):
            yield block.labels | {name: block.columns[name][index] for name in COLUMNS}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "BLOCK_ROWS", 7)


def test_grid_equals_loop(small_blocks: None) -> None:
    grid = QUESTION
    rows = list(rows_of(grid))
    queries = list(grid.queries())
    assert len(rows) == len(queries) == grid.rows == 2 * 2 * 2 * 2 * 3 * 3
    for row, query in zip(rows, queries, strict=True):
        alone = whatif(query).as_dict()
        expected = {
            "batch": query.batch,
            "context_tokens": query.context,
            "gamma": alone["query"]["gamma"],
            "target_s": alone["target_step"]["predicted_s"],
            "draft_s": alone["draft_step"]["predicted_s"],
            "verify_s": alone["verify_step"]["predicted_s"],
            "overhead_s": alone["overhead_s"],
            "tokens_per_iteration": alone["acceptance"]["tokens_per_iteration"],
            "fits": alone["memory"]["fits"],
            "max_batch": alone["memory"]["max_batch"],
            "ar_max_batch": alone["memory"]["ar_max_batch"],
        }
        for name in COLUMNS:
            value = expected[name] if name in expected else alone[name]
            assert row[name] == pytest.approx(float(value), rel=1e-12), (name, query)
        for name in set(LABELS) - {"alpha"}:
            assert row[name] == alone["query"][name]


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    from perfmodel.answers.query import resolve

    grid = QUESTION
    assert grid.fingerprint() == QUESTION.fingerprint() != replace(QUESTION, alpha="0.7").fingerprint()
    assert " at 0x" not in repr(resolve(next(grid.queries())))


def test_an_acceptance_is_looked_up_for_each_context() -> None:
    question = replace(
        QUESTION, model="llama-3.1-8b", hardware="a100", draft_kv="streamingllm:512", alpha=None, gamma="2"
    )
    rows = list(rows_of(replace(question, context="4000,8000")))
    assert [(row["context_tokens"], row["alpha"]) for row in rows] == [(4000, 0.84)] * 2 + [(8000, 0.83)] * 2
    with pytest.raises(InputError, match="was measured at"):
        list(blocks(replace(question, context="4000,1m")))


def test_csv_holds_every_row_to_twelve_digits(tmp_path: Path, small_blocks: None) -> None:
    grid, path = QUESTION, tmp_path / "grid.csv"
    assert sweep.run(grid, sweep_files.sink_for(path)) == grid.rows
    assert [entry.name for entry in tmp_path.iterdir()] == ["grid.csv"]
    with path.open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    for row, expected in zip(read, rows_of(grid), strict=True):
        assert tuple(row) == (*LABELS, *COLUMNS)
        for name in COLUMNS:
            assert float(row[name]) == pytest.approx(expected[name], rel=1e-12)
        assert row["draft_kv"] == expected["draft_kv"]


def test_parquet_equals_csv(tmp_path: Path, small_blocks: None) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    grid = QUESTION
    sweep.run(grid, sweep_files.sink_for(tmp_path / "grid.parquet"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["grid.parquet"]
    assert parquet.read_table(tmp_path / "grid.parquet").to_pylist() == list(rows_of(grid))


def test_without_pyarrow_parquet_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match="pip install pyarrow"):
        sweep_files.sink_for(tmp_path / "grid.parquet")


class Interrupted(Exception):
    """Stands for whatever stops a sweep."""


def interrupt(path: Path, grid: Grid, after: int) -> None:
    """Run a sweep that stops in the middle of writing block `after` + 1."""
    sink: Any = sweep_files.sink_for(path)
    write, seen = sink.write, itertools.count(1)

    def failing(block: Block) -> None:
        if next(seen) > after:
            raise Interrupted
        write(block)

    sink.write = failing
    with pytest.raises(Interrupted):
        sweep.run(grid, sink)


@pytest.mark.parametrize("after", [0, 1, 20])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_resuming_gives_the_same_bytes(suffix: str, after: int, tmp_path: Path, small_blocks: None) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    grid, whole, path = QUESTION, tmp_path / f"whole{suffix}", tmp_path / f"grid{suffix}"
    sweep.run(grid, sweep_files.sink_for(whole))
    interrupt(path, grid, after)
    assert not path.exists()
    part = tmp_path / f"grid{suffix}.part"
    if suffix == ".csv":
        with part.open("a", encoding="utf-8") as file:
            file.write("llama-3.1-8b,a100-sx")  # a row that was cut off
    else:
        (part / f"{after:08d}.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(InputError, match="resume"):
        sweep.run(grid, sweep_files.sink_for(path))
    sweep.run(grid, sweep_files.sink_for(path), resume=True)
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([path.name, whole.name])


def test_resuming_another_question_is_refused(tmp_path: Path, small_blocks: None) -> None:
    path = tmp_path / "grid.csv"
    interrupt(path, QUESTION, 2)
    kept = (tmp_path / "grid.csv.part").read_bytes()
    for changed in ({"alpha": "0.81"}, {"batch": "1,65"}, {"memory_fraction": 0.8}, {"hardware": "a100"}):
        with pytest.raises(InputError, match="another question"):
            sweep.run(replace(QUESTION, **changed), sweep_files.sink_for(path), resume=True)  # type: ignore[arg-type]
    assert (tmp_path / "grid.csv.part").read_bytes() == kept
    (tmp_path / "grid.csv.part.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="damaged"):
        sweep.run(QUESTION, sweep_files.sink_for(path), resume=True)


def test_resuming_after_a_changed_file_is_refused(tmp_path: Path, small_blocks: None) -> None:
    from perfmodel.specs.files import data_directory

    gpu = tmp_path / "mine.yaml"
    text = (data_directory("gpus") / "a100-sxm-80gb.yaml").read_text(encoding="utf-8")
    gpu.write_text(text, encoding="utf-8")
    grid = replace(QUESTION, hardware=str(gpu))
    interrupt(tmp_path / "grid.csv", grid, 1)
    gpu.write_text(text.replace("value: 2039", "value: 2040"), encoding="utf-8")
    with pytest.raises(InputError, match="another question"):
        sweep.run(grid, sweep_files.sink_for(tmp_path / "grid.csv"), resume=True)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("how", ["resume", "overwrite"])
def test_one_writer_at_a_time(suffix: str, how: str, tmp_path: Path, small_blocks: None) -> None:
    """While one sweep is at its second block, the same command again is refused and changes nothing."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, refusals = tmp_path / f"grid{suffix}", []
    sink: Any = sweep_files.sink_for(path)
    write = sink.write

    def meanwhile(block: Block) -> None:
        write(block)
        with pytest.raises(InputError, match=r"grid.*is being written by process \d+ since") as error:
            sweep.run(QUESTION, sweep_files.sink_for(path), **{how: True})
        refusals.append(str(error.value))

    sink.write = meanwhile
    assert sweep.run(QUESTION, sink) == QUESTION.rows
    assert f"process {os.getpid()} " in refusals[0]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    sweep.run(QUESTION, sweep_files.sink_for(path), overwrite=True)


def test_rows_are_counted_at_the_end(tmp_path: Path, small_blocks: None) -> None:
    """A part file that something else wrote into does not become the file."""
    parquet = pytest.importorskip("pyarrow.parquet")
    for suffix in (".csv", ".parquet"):
        path, part = tmp_path / f"grid{suffix}", tmp_path / f"grid{suffix}.part"
        interrupt(path, QUESTION, 3)
        if suffix == ".csv":
            part.write_bytes(part.read_bytes().replace(b"\n", b" ", 1))
        else:
            parquet.write_table(parquet.read_table(part / "00000000.parquet")[:3], part / "00000001.parquet")
        with pytest.raises(InputError, match=rf"holds \d+ rows of {QUESTION.rows}: something else wrote into it"):
            sweep.run(QUESTION, sweep_files.sink_for(path), resume=True)
        (part / "00000001.parquet").write_bytes(b"torn") if part.is_dir() else None
        with pytest.raises(InputError, match=r"something else wrote|is damaged"):
            sweep.run(QUESTION, sweep_files.sink_for(path), resume=True)
        assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [{"blocks": -1}, {"blocks": 1.5}, {"blocks": "2"}, {"rows": None}, {"bytes": 2**70}, {"bytes": True}, [], "torn"],
)
def test_a_damaged_record_of_an_interrupted_sweep(tmp_path: Path, small_blocks: None, change: Any) -> None:
    path, record = tmp_path / "grid.csv", tmp_path / "grid.csv.part.json"
    interrupt(path, QUESTION, 2)
    kept = json.loads(record.read_text())
    record.write_text(json.dumps(kept | change if isinstance(change, dict) else change))
    before = (tmp_path / "grid.csv.part").read_bytes()
    with pytest.raises(InputError, match=r"--resume: .* is damaged; --overwrite starts again"):
        sweep.run(QUESTION, sweep_files.sink_for(path), resume=True)
    assert (tmp_path / "grid.csv.part").read_bytes() == before


def test_a_label_is_no_formula() -> None:
    assert sweep_files._cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert sweep_files._cell("@x,y") == '"\'@x,y"'
    assert [sweep_files._cell(v) for v in ("llama-3.1-8b", -1, 0.5, None, "5%")] == [
        "llama-3.1-8b",
        "-1",
        "0.5",
        "",
        "5%%",
    ]


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text("mine", encoding="utf-8")
    grid = replace(QUESTION, model="llama-3.1-8b", hardware="a100")
    with pytest.raises(InputError, match="overwrite"):
        sweep.run(grid, sweep_files.sink_for(path))
    assert path.read_text(encoding="utf-8") == "mine"
    sweep.run(grid, sweep_files.sink_for(path), overwrite=True)
    assert path.read_text(encoding="utf-8").startswith("model,")


def test_a_mistake_in_any_case_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    wrong = {"tp": "4,3", "gamma": "0,1,2000", "batch": f"1,{2**41}", "context": f"1k,{2**41}"}
    for name, values in wrong.items():
        grid = replace(QUESTION, **{name: values})
        with pytest.raises(InputError, match=f"{name}: .* given {values.rpartition(',')[2]}$|tp: "):
            sweep.run(grid, sweep_files.sink_for(tmp_path / "grid.csv"))
        assert not list(tmp_path.iterdir())


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "grid.csv"
    flags = ["--batch", "1..4", "--context", "1k..8kx2", "--gamma", "0..3", "--output", str(path)]
    assert cli.run(["sweep", *SMALL, *flags]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"64 rows in {path}\n")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 65
    assert cli.run(["sweep", *SMALL, *flags]) == 2
    assert cli.run(["sweep", *SMALL, *flags, "--resume", "--overwrite"]) == 2
    assert cli.run(["sweep", *SMALL, *flags, "--overwrite"]) == 0


def test_ctrl_c_keeps_finished_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small_blocks: None
) -> None:
    path = tmp_path / "grid.csv"
    write, seen = sweep_files.CsvSink.write, itertools.count(1)

    def interrupted(self: sweep_files.CsvSink, block: Block) -> None:
        if next(seen) == 4:
            raise KeyboardInterrupt
        write(self, block)

    flags = ["sweep", *SMALL, "--batch", "1..10", "--context", "1k..8kx2", "--gamma", "1", "--output", str(path)]
    monkeypatch.setattr(sweep_files.CsvSink, "write", interrupted)
    assert cli.run(flags) == 130
    said = capsys.readouterr().err
    assert said == f"interrupted; rows so far are in {path}.part, and --resume goes on from there\n"
    monkeypatch.undo()
    monkeypatch.setattr(sweep, "BLOCK_ROWS", 7)
    assert json.loads((tmp_path / "grid.csv.part.json").read_text(encoding="utf-8"))["blocks"] == 3
    assert cli.run([*flags, "--resume"]) == 0
    assert len(path.read_text(encoding="utf-8").splitlines()) == 41


def test_progress_only_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    assert (
        cli.run(["sweep", *SMALL, "--batch", "1", "--context", "1k", "--gamma", "1", "-o", str(tmp_path / "g.csv")])
        == 0
    )
    assert "\r1 of 1 rows" in screen.getvalue()


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    import subprocess
    import sys

    def peak(context: str) -> int:
        flags = [
            "--batch",
            "1..100",
            "--context",
            context,
            "--gamma",
            "1..10",
            "--output",
            str(tmp_path / "g.csv"),
            "--overwrite",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "perfmodel", "sweep", *SMALL, *flags], stderr=subprocess.PIPE
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
        assert status == 0
        return usage.ru_maxrss

    assert peak("1k..1000000+1k") < 1.3 * peak("1k..100000+1k")
