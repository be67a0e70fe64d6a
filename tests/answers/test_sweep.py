"""Sweeps: the grid equals the loop, and a file is whole or not there."""

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import perfmodel as pm
from perfmodel.answers.grid import blocks, grid, sweep, sweep_files
from perfmodel.answers.point.whatif import whatif
from tests.refusals import refused

QUESTION = grid.Grid(
    "llama-3.1-8b,qwen3-30b-a3b",
    "a100,h100",
    tp="4",
    batch="1,64",
    context="1k,32000,100k",
    alpha="0.8",
    gamma="0,2,auto",
    draft_kv="streamingllm:512,quest:1k,page=16",
)


def rows_of(question: grid.Grid, most_rows: int = blocks.BLOCK_ROWS) -> Iterator[dict[str, Any]]:
    for block in blocks.blocks(question, most_rows):
        for index in range(block.rows):
            yield block.labels | {name: block.columns[name][index] for name in blocks.COLUMNS}


@pytest.mark.parametrize(("most_rows", "sizes"), [(7, {6}), (2, {3}), (100, {18})])
def test_blocks_have_whole_pairs_of_batch_and_context(most_rows: int, sizes: set[int]) -> None:
    """Each pair has three draft lengths; a block has at most the six pairs of one case."""
    assert {block.rows for block in blocks.blocks(QUESTION, most_rows)} == sizes


def test_grid_equals_loop() -> None:
    names = (*grid.HEADS, "batch", "context", "gamma")
    points = itertools.product(*map(QUESTION.axis, names))
    rows = list(rows_of(QUESTION, most_rows=7))
    queries = [QUESTION.query(**dict(zip(names, p, strict=True))) for p in points]
    assert QUESTION.rows == 2 * 2 * 2 * 2 * 3 * 3
    assert len(rows) == QUESTION.rows
    assert len(queries) == QUESTION.rows
    for row, query in zip(rows, queries, strict=True):
        alone = whatif(query).as_dict()
        expected = {"batch": query.batch, "context_tokens": query.context, "gamma": alone["query"]["gamma"]}
        for step in ("target", "draft", "verify"):
            expected[f"{step}_s"] = alone[f"{step}_step"]["predicted_s"]
        expected |= alone["acceptance"] | alone["memory"]
        for name in blocks.COLUMNS:
            value = expected[name] if name in expected else alone[name]
            assert row[name] == pytest.approx(float(value), rel=1e-12), (name, query)
        for name in set(blocks.LABELS) - {"alpha"}:
            assert row[name] == alone["query"][name]


def test_a_frame_has_the_interval_and_verdict_of_each_point() -> None:
    """As `whatif` says them: with gamma sought, at gamma 0, where it does not fit, where no error is
    stated.
    """
    for calibration in (None, "ideal"):
        point = {"calibration": calibration, "alpha": 0.8}
        swept = pm.sweep("llama-3.1-8b", "h100", [2, 16], "4k,64k", ["auto", 0, 3], **point)
        frame = swept.to_frame()
        for row in frame.to_dict("records"):
            at = {"batch": row["batch"], "context": row["context_tokens"], "gamma": row["gamma"]}
            a = whatif("llama-3.1-8b", "h100", **at, **point)
            assert row["verdict"] == a.verdict
            assert row["alpha"] == 0.8
            interval = pytest.approx(a.speedup_interval or (math.nan, math.nan), nan_ok=True)
            assert (row["speedup_low"], row["speedup_high"]) == interval


class Dataset:
    """A stand-in for xarray's: the variables and the coordinates that it was made of."""

    def __init__(self, variables: dict[str, Any], coordinates: dict[str, list[Any]]) -> None:
        self.variables = variables
        self.coordinates = coordinates

    def at(self, figure: str, **place: Any) -> Any:
        axes, values = self.variables[figure]
        return values[tuple(self.coordinates[axis].index(place[axis]) for axis in axes)]


@pytest.mark.parametrize(
    "changes", [{}, {"draft_kv": "streamingllm:512", "alpha": None, "context": "4k,8k", "gamma": "2,auto"}]
)
def test_a_dataset_has_each_row_at_its_place(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every context is a case of its own, because its acceptance is looked up."""
    monkeypatch.setitem(sys.modules, "xarray", SimpleNamespace(Dataset=Dataset))
    question = replace(QUESTION, model="llama-3.1-8b", **changes)
    data: Any = pm.sweep(question).to_xarray()
    assert data.coordinates["alpha"] == [0.8 if question.alpha else "published"]
    assert data.coordinates["gamma"][-1] == "auto"
    for place in itertools.product(*map(data.coordinates.get, grid.AXES)):
        point = dict(zip(grid.AXES, place, strict=True))
        asked = point | {"alpha": None if point["alpha"] == "published" else point["alpha"]}
        row = pm.sweep(replace(QUESTION, **asked)).as_dict()["rows"][0]
        for name in ("speedup", "tpot_s", "max_batch", "gamma_optimal"):
            assert data.at(name, **point) == pytest.approx(row[name], rel=1e-12)


def test_a_dataset_needs_xarray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    refused("to_xarray: needs xarray, which is not installed", pm.sweep(QUESTION).to_xarray)


def test_the_best_row_fits_and_a_time_is_best_where_it_is_least() -> None:
    grid = replace(QUESTION, model="llama-3.1-8b", batch="1,64,4096", context="4k,100k", alpha="0.8")
    frame = pm.sweep(grid)
    rows = pm.sweep(grid).to_frame().query("fits")
    assert not frame.to_frame()["fits"].all()
    best = frame.best()["speedup"]
    assert best == rows["speedup"].max()
    assert best < frame.to_frame()["speedup"].max()
    assert frame.best("tpot_s")["tpot_s"] == rows["tpot_s"].min()
    assert (
        frame.best("throughput_tokens_per_s")["throughput_tokens_per_s"]
        == rows["throughput_tokens_per_s"].max()
    )
    refused("figure: no figure named 'speed'; did you mean speedup", frame.best, "speed")
    refused("figure: must be text, given None", frame.best, None)  # type: ignore[arg-type]
    refused("nothing of this sweep fits", pm.sweep(replace(grid, batch="4096", context="100k")).best)


def test_an_acceptance_is_looked_up_for_each_context() -> None:
    question = replace(
        QUESTION, model="llama-3.1-8b", hardware="a100", draft_kv="streamingllm:512", alpha=None, gamma="2"
    )
    rows = list(rows_of(replace(question, context="4000,8000")))
    rates = [(row["context_tokens"], row["alpha"]) for row in rows]
    assert rates == [(4000, 0.84), (4000, 0.84), (8000, 0.83), (8000, 0.83)]
    refused("was measured at", list, blocks.blocks(replace(question, context="4000,1m")))


def test_a_length_that_is_sought_beside_the_baseline_has_the_published_acceptance() -> None:
    ask = {"model": "llama-3.3-70b", "hardware": "h100", "draft": "eagle3", "batch": 1}
    ask |= {"context": 4000, "tp": 4}
    baseline, sought = pm.sweep(**ask, gamma=[0, "auto"]).to_frame().to_dict("records")
    assert baseline["gamma"] == 0
    assert sought["gamma"] == whatif(**ask).query.gamma > 0
    assert sought["speedup"] == pytest.approx(whatif(**ask).speedup, rel=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_interrupted_sweep_leaves_what_was_there(suffix, tmp_path) -> None:
    path = tmp_path / f"grid{suffix}"
    done = []
    path.write_text("before", encoding="utf-8")

    def stop(rows: int) -> None:
        done.append(rows)
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep_files.write_sweep(QUESTION, path, overwrite=True, progress=stop)
    assert done == [18, 18, 18]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.read_text(encoding="utf-8") == "before"


def test_a_sweep_in_memory_has_no_more_than_ten_million_rows() -> None:
    """1000 batches and 1000 contexts with ten draft lengths are as many; with eleven, nothing is computed."""
    grid = replace(QUESTION, model="llama-3.1-8b", hardware="a100", draft_kv="full", batch=range(1, 1001))
    grid = replace(grid, context=range(1, 1001))
    assert replace(grid, gamma="1..10").rows == sweep.MAX_ROWS
    refused("rows: must be at most 10000000 in memory", pm.sweep, grid, gamma="1..11")


def test_measured_tokens_per_iteration_belong_to_one_draft_length() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "a100", "draft_kv": "full", "alpha": None, "context": "4k"}
    several = replace(QUESTION, **ask, gamma="2,3")
    refused("tokens_per_iteration: needs one gamma N", pm.sweep, several, tokens_per_iteration=2)
    assert len(pm.sweep(several, gamma="2", tokens_per_iteration=2)) == 2


def test_a_sweep_of_too_many_cases_is_refused_before_any_is_priced() -> None:
    """Each acceptance is a case; without one, each context is."""
    alphas = tuple(np.linspace(0, 1, 5001).tolist())
    refused("at most 10000 combinations", pm.sweep, replace(QUESTION, draft_kv="full", alpha=alphas))
    many = replace(QUESTION, model="llama-3.1-8b", hardware="a100", draft_kv="full", alpha=None)
    refused("at most 10000 combinations", pm.sweep, replace(many, batch="1", context=range(1, 10_002)))


@pytest.mark.parametrize(
    ("values", "whole", "spelt"),
    [
        ([0, 9, 64, 100], True, ["0", "9", "64", "100"]),
        ([0, 0.001234, 32.5], False, ["0.000000000000000", "0.001234000000000", "32.500000000000000"]),
        ([0.0, 0.0], False, ["0.000000000000", "0.000000000000"]),
        ([9.99999999999999e-3], False, ["0.010000000000000"]),  # rounds up
        ([1.23456789e-5, 1e6], False, ["1.23456789e-05", "1000000"]),  # too far apart for 18 digits
        ([0.0015, 2000.0], False, ["0.0015", "2000"]),  # so are these, by one
        ([0.5, 99999.0], False, ["0.5000000000000", "99999.0000000000000"]),  # 18 digits
        ([2e13], False, ["20000000000000.0"]),  # no whole number
        ([math.inf, 2.5, -1.0], False, ["inf", "2.5", "-1"]),
        ([math.nan, 2.0], True, ["nan", "2"]),
    ],
)
def test_figures_are_spelt_to_thirteen_digits_of_the_least(values, whole, spelt) -> None:
    rows = sweep_files.figure_cells(np.array(values, float), whole)
    assert [bytes(row[row != 0]).decode() for row in rows] == spelt


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        ("=1+1", "'=1+1"),  # no spreadsheet executes it
        ("=a,b", '"\'=a,b"'),
        ("-5", "-5"),
        ("quest:1k,page=16", '"quest:1k,page=16"'),
        ('a "b"', '"a ""b"""'),
        ("a\nb", '"a\nb"'),
        (None, ""),
        (0.8, "0.8"),
        (-1, "-1"),
    ],
)
def test_a_label_is_a_cell_that_is_read_back_and_never_executed(label, cell) -> None:
    assert sweep_files.label_cell(label) == cell


def test_files_read_back_as_the_frame_of_the_grid(tmp_path: Path) -> None:
    """Also of many blocks; a CSV file holds 13 digits."""
    frame = pm.sweep(QUESTION).to_frame()[[*blocks.LABELS, *blocks.COLUMNS]]
    assert frame["gamma"].dtype == np.int64
    assert frame["fits"].dtype == np.bool_
    for path, read in ((tmp_path / "grid.csv", pd.read_csv), (tmp_path / "grid.parquet", pd.read_parquet)):
        sweep_files.write_sweep(QUESTION, path)
        pd.testing.assert_frame_equal(read(path).astype(frame.dtypes), frame, rtol=1e-12)


def test_a_mistake_in_any_case_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    beyond = 2**41
    wrong = {"tp": "4,3", "gamma": "0,1,2000", "batch": f"1,{beyond}", "context": f"1k,{beyond}"}
    for name, values in wrong.items():
        grid = replace(QUESTION, **{name: values})
        last = values.rpartition(",")[2]
        says = f"{name}: .* given {last}$|tp: "
        refused(says, sweep_files.write_sweep, grid, tmp_path / "grid.csv")
        assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    def peak(context: str) -> int:
        flags = ["--model=llama-3.1-8b", "--hardware=a100", "--tp=8", "--draft-kv=streamingllm:512"]
        flags += ["--alpha=0.8", "--batch=1..100", f"--context={context}", "--gamma=1..10", "--overwrite"]
        with subprocess.Popen(
            [sys.executable, "-m", "perfmodel", "sweep", *flags, f"--output={tmp_path / 'g.csv'}"],
            stderr=subprocess.PIPE,
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
        assert status == 0
        return usage.ru_maxrss

    assert peak("1k..500000+1k") < 1.3 * peak("1k..100000+1k")


def test_an_acceptance_is_looked_up_only_for_a_draft_without_one() -> None:
    looks_up = [
        replace(QUESTION, alpha=alpha, gamma=gamma).looks_up
        for alpha, gamma in ((None, 1), (None, None), (None, 0), (0.7, 1))
    ]
    assert looks_up == [True, True, False, False]
