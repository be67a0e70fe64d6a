"""Under a load an advice names the ``perfmodel traffic`` command that predicts the same row."""

import shlex

import pytest

import perfmodel as pm
from tests.commands import read


@pytest.mark.parametrize(
    "load",
    [
        {"model": "llama-3.1-8b", "hardware": "2xh100", "clients": 40, "slo": "ttft:3000,tpot:30"},
        {"model": "deepseek-v3", "hardware": "8xh200", "request_rate": 2.5, "kv_dtype": "fp8"},
        {"model": "gpt-oss-120b", "hardware": "2xb200"},
        {"model": "qwen3-8b", "hardware": "h100", "clients": 8, "rate": {"eagle3": "0.7"}, "prefix_len": 500},
    ],
    ids=lambda load: load["model"],
)
def test_the_printed_command_predicts_the_row_of_the_choice(capsys, load) -> None:
    answer = pm.advise(**load, input_len=2000, output_len=300)
    words = shlex.split(answer.traffic_command)
    assert words[:2] == ["perfmodel", "traffic"]
    assert words[words.index("--gamma") + 1] == str(answer.chosen.gamma)
    told = read(capsys, *words[1:])
    row = told["rows"][-1]
    assert [row["gamma"] for row in told["rows"]] == sorted({0, answer.chosen.gamma})
    assert row["tpot_s"]["mean"] == pytest.approx(answer.chosen.tpot_s, rel=1e-3)
    assert row["ttft_s"]["mean"] == pytest.approx(answer.chosen.ttft_s, rel=1e-3)
    assert row["output_tokens_per_s"] == pytest.approx(answer.chosen.throughput_tokens_per_s, rel=1e-3)
    assert row["slo_share"] == answer.chosen.slo_share
