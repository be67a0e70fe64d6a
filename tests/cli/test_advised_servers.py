"""The command lines of `advise`: the words before each, and the number of servers to start."""

from dataclasses import replace

import pytest

from perfmodel import cli
from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.cli.advise_lines import say_lines

CLIENTS = "--hardware 8xh200 --clients 32 --input-len 4000 --output-len 500"
ROUTER = "Start 2 of these behind a router:"


def test_each_line_says_what_it_starts_and_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    """The choice is one server, and an alternative has two."""
    cli.run(("advise", *f"-m deepseek-v3.1 {CLIENTS}".split()))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("Start ") for line in lines) == 1
    choice = lines.index("The choice, without a draft:")
    assert lines[choice + 1].startswith("vllm serve ")
    router = lines.index(ROUTER)
    assert ": 2 x TP 4, " in lines[router - 1]
    assert lines[router + 1].startswith("vllm serve ")


def test_a_server_in_another_format_follows_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody asked for the format."""
    load = "--request-rate 1 --input-len 2000 --output-len 300"
    cli.run(("advise", *f"-m qwen3-32b --hardware l40s {load}".split()))
    first, *others = [line for line in capsys.readouterr().out.splitlines() if line.startswith("vllm serve")]
    assert first.startswith("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4 ")
    assert '"method": "eagle3"' in first
    assert any(line.startswith("vllm serve Qwen/Qwen3-32B-FP8") for line in others)


def printed_after(sentence: str, answer: Advice, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines after a sentence about the second command line."""
    say_lines(answer)
    lines = capsys.readouterr().out.splitlines()
    return lines[lines.index(sentence) + 1 :]


def test_the_second_line_states_its_own_number_of_servers(capsys: pytest.CaptureFixture[str]) -> None:
    """The choice is one server, and the servers of the second line are two."""
    optional = advise("gpt-oss-120b", "h100", context=8192)
    optional = replace(optional, option=replace(optional.option, replicas=2))
    with_draft = "With eagle3, to compare on your own requests:"
    assert printed_after(with_draft, optional, capsys)[0] == ROUTER
    close = advise("gpt-oss-20b", "rtx-5090", context=16384)
    close = replace(close, baseline=replace(close.baseline, replicas=2))
    without_draft = "Without a draft, to compare on your own requests:"
    router, line, *_ = printed_after(without_draft, close, capsys)
    assert router == ROUTER
    assert line.startswith("vllm serve ")
    assert "speculative" not in line


def test_a_second_line_for_the_servers_of_the_choice_has_their_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The draft to measure runs on the servers of the choice."""
    answer = advise("qwen2.5-7b", "h100", context=8192)
    answer = replace(answer, chosen=replace(answer.chosen, replicas=2))
    router, line, *_ = printed_after("To measure ngram, which pays off from alpha 0.09:", answer, capsys)
    assert router == ROUTER
    assert '"method": "ngram"' in line


@pytest.mark.parametrize(
    ("place", "own"),
    [
        ("4xh100", "vLLM servers on one host each need their own devices (CUDA_VISIBLE_DEVICES) and --port"),
        ("4xmi300x", "vLLM servers on one host each need their own devices (HIP_VISIBLE_DEVICES) and --port"),
    ],
)
def test_several_servers_on_one_host_differ_in_devices_and_port(place: str, own: str) -> None:
    load = {"clients": 64, "input_len": 2000, "output_len": 300}
    several = advise("llama-3.1-8b", place, tp=1, **load)
    assert several.chosen.replicas == 4
    assert own in several.serve.remarks["vllm"]
    single = advise("llama-3.1-8b", place, tp=4, **load)
    assert "on one host" not in single.serve.remarks.get("vllm", "")


def test_servers_that_fill_a_compute_tray_share_no_host() -> None:
    trays = advise("llama-3.1-8b", "8xgb200", tp=4, clients=64, input_len=2000, output_len=300)
    assert trays.chosen.replicas == 2
    assert "on one host" not in trays.serve.remarks.get("vllm", "")


def test_a_draft_that_the_engine_cannot_start_leaves_the_line_of_the_baseline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sparse = "-c 64k -b 12 --draft self --any-draft"
    cli.run(("advise", *f"-m llama-3.1-8b --hardware h200 {sparse}".split()))
    lines = capsys.readouterr().out.splitlines()
    baseline = lines[1 + lines.index("The best baseline, which the engine runs:")]
    assert baseline.startswith("vllm serve ")
    assert "--max-num-seqs 12" in baseline
    assert "speculative" not in baseline
