"""The pandas bridge: tidy tables with units in their names."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfmodel
from perfmodel import cli
from perfmodel.answers import sweep
from perfmodel.answers.frames import RATIOS
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.sweep import COLUMNS, LABELS, Grid
from perfmodel.errors import InputError
from perfmodel.speculation.chain import Prediction, predict
from perfmodel.speculation.workload import Workload

BATCH, CONTEXT, GAMMA = [[[1.0]], [[64.0]]], [[1000.0], [32000.0], [64000.0]], [0, 2, 4]
ASK = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.8)
GRID = Grid("llama-3.1-8b", ["a100-sxm-80gb", "h100-sxm-80gb"], batch=[1, 64], context="4k,32768", gamma=["auto", 2],
            tp=8, draft_kv=("streamingllm:512", "snapkv:2048"), alpha=0.8)  # fmt: skip


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return predict(resolve(ASK), Workload.of(BATCH, CONTEXT, GAMMA))


def test_a_prediction_is_a_row_for_every_point(prediction: Prediction) -> None:
    frame = perfmodel.to_frame(prediction, context=CONTEXT, model="llama-3.1-8b")
    assert frame.shape[0] == 2 * 3 * 3
    assert list(frame.columns) == ["model", *COLUMNS[:-2][:-1], *RATIOS]
    assert not frame.duplicated(["batch", "context_tokens", "gamma"]).any()
    (row,) = frame.query("batch == 64 and context_tokens == 32000 and gamma == 2").to_dict("records")
    at = (1, 1, 1)
    for name in ("speedup", "tpot_s", "draft_to_target", "gamma_optimal"):
        assert row[name] == getattr(prediction, name)[at]
    # every time and rate has its unit in its name
    dimensionless = {"gamma", "speedup", "gamma_optimal", "speedup_at_gamma_optimal", "batch", *RATIOS}
    counted = {"tokens_per_iteration", "context_tokens"}
    for name in set(frame.columns) - {"model"} - dimensionless - counted:
        assert name.endswith(("_s", "_tokens_per_s")), name


def test_rows_that_could_not_be_told_apart_are_refused(prediction: Prediction) -> None:
    with pytest.raises(InputError, match=r"give context=workload\.context"):
        perfmodel.to_frame(prediction)
    single = perfmodel.to_frame(predict(resolve(ASK), Workload.of(64, 32000, [1, 2, 3])))
    assert "context_tokens" not in single
    assert list(single["gamma"]) == [1, 2, 3]
    one = perfmodel.to_frame(predict(resolve(ASK), Workload.of(64, 32000, 2)), context=32000)
    assert list(one["context_tokens"]) == [32000]


def test_wrong_arguments_are_told(prediction: Prediction) -> None:
    with pytest.raises(InputError, match=r"shape that broadcasts to \(2, 3, 3\), given \(5,\)"):
        perfmodel.to_frame(prediction, context=np.ones(5))
    with pytest.raises(InputError, match="context: must be cached tokens per sequence, given 'x'"):
        perfmodel.to_frame(prediction, context="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="speedup: must be a new name"):
        perfmodel.to_frame(prediction, context=CONTEXT, speedup=1.0)
    with pytest.raises(InputError, match="leave context and labels out"):
        perfmodel.to_frame(GRID, context=4096)


def test_a_grid_is_what_sweep_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files of `perfmodel sweep` read back as the frame of the same grid, also of many blocks (CSV: 13 digits)."""
    frame = perfmodel.to_frame(GRID)
    monkeypatch.setattr(sweep, "BLOCK_ROWS", 3)
    assert list(frame.columns) == [*LABELS, *COLUMNS]
    assert frame.shape[0] == GRID.rows
    asked = "--model llama-3.1-8b --hardware a100,h100 --tp 8 --draft-kv streamingllm:512,snapkv:2048 --alpha 0.8 "
    asked += "--batch 1,64 --context 4k,32k --gamma auto,2"
    for name in ("grid.csv", "grid.parquet"):
        assert cli.run(["sweep", *asked.split(), "--output", str(tmp_path / name)]) == 0
        read = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / name)
        pd.testing.assert_frame_equal(read.astype(frame.dtypes), frame, rtol=1e-12)


def test_an_acceptance_that_is_no_constant_stays_empty(tmp_path: Path) -> None:
    rows = tmp_path / "rows.yaml"
    subject = "{target: llama-3.1-8b, draft: self, draft_kv: streamingllm, kv_budget_tokens: 512, context_tokens: 32000"
    rows.write_text(f"schema_version: 1\nsource: a test's own\nrows:\n  - {subject}, positions: [0.9, 0.7]}}\n")
    assert perfmodel.sweep(ASK, alpha=None, acceptance=str(rows)).to_frame()["alpha"].isna().all()


def test_without_pandas_the_remedy_is_told(prediction: Prediction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs pandas.*in a clone, pip install '.\[notebooks\]'"):
        perfmodel.to_frame(prediction, context=CONTEXT)
