"""A prediction as llm-d's benchmark report: its classes (llmd-benchmark-report 0.2.1) took one of just this form."""

import json
from pathlib import Path

import pytest

from perfmodel.answers.traffic import traffic
from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.timing import Said
from tests.commands import refused

ASK = ["traffic", "--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3", "--gamma", "3"]
LENGTHS = ["--input-len", "2k", "--output-len", "500"]


def test_the_report_is_the_row_of_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "report.json"
    assert run([*ASK, *LENGTHS, "--output-std", "50", "--request-rate", "1", "--report", str(where)]) == 0
    lengths = {"input_len": "2k", "output_len": 500, "output_std": 50}
    a = traffic("qwen3-32b", "h100", tp=2, draft="eagle3", gamma=3, request_rate=1, **lengths)
    (row,) = [row for row in a.rows if row.gamma == 3]
    report = json.loads(where.read_text())
    assert (report["version"], report["run"]["keywords"]) == ("0.2.1", ["prediction"])
    found = report["results"]["request_performance"]["aggregate"]
    assert found["latency"]["time_per_output_token"]["p50"] == row.tpot_s.p50
    assert found["latency"]["time_to_first_token"]["p99"] == row.ttft_s.p99
    assert found["throughput"]["output_token_rate"] == {"units": "tokens/s", "mean": row.output_tokens_per_s}
    assert found["requests"]["input_length"]["mean"] == 2048
    load = report["scenario"]["load"]["standardized"]
    assert (load["rate_qps"], load["input_seq_len"]) == (1, {"distribution": "fixed", "value": 2048})
    assert load["output_seq_len"] == {"distribution": "uniform", "min": 413, "max": 587, "value": 500}
    engine = report["scenario"]["stack"][0]
    assert engine["standardized"]["accelerator"]["parallelism"]["tp"] == 2
    assert engine["native"]["args"]["num_speculative_tokens"] == 3
    with pytest.raises(InputError, match="a prediction is no measurement"):
        read(where, Said(batch=8))


def test_what_is_no_one_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "report.json"
    for rate, says in (("1,2", "one --request-rate"), ("100", "a load that the server sustains")):
        assert says in refused(capsys, *ASK, *LENGTHS, "--request-rate", rate, "--report", str(where))
        assert not where.exists()
