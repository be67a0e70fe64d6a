"""An answer that is too close to call says what decides it, and prints a command for a measurement."""

import io
import shlex
import sys

import pytest

from perfmodel.cli import run

MAC = "-m gemma-4-12b --weights 4bit --hardware m3-ultra -b 1 -c 500 --draft mtp"
STRIX = "-m qwen3.6-35b-a3b --weights q4_k_m --hardware strix-halo -b 1 -c 500 --draft mtp --gamma 2"
DECIDE = "to decide "
COMMAND = "perfmodel validate engine"


def said(capsys, question: str) -> str:
    assert run(["whatif", *question.split()]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_tokens_from_which_it_pays_are_the_break_even_of_the_answer(capsys) -> None:
    answer = said(capsys, f"{STRIX} --tokens-per-iteration 2.4")
    assert "Too close to call" in answer
    even, certain = (
        float(answer.split(words)[1].split()[0].rstrip(";"))
        for words in (f"{DECIDE}breaks even at ", "certainly pays off from ")
    )
    assert even < 2.4 < certain <= 3.0
    assert "Speculation pays off" in said(capsys, f"{STRIX} --tokens-per-iteration {certain + 0.01}")
    assert "Too close to call: 1.0" in said(capsys, f"{STRIX} --tokens-per-iteration {even + 0.01}")


def test_a_draft_that_gains_at_no_length_is_decided_at_the_length_that_loses_least(capsys) -> None:
    answer = said(capsys, f"{MAC} --alpha 0.66")
    assert "gamma 0 Too close to call" in answer
    assert f"{DECIDE}breaks even at " in answer
    assert "tokens per iteration at gamma 1, but no" in answer
    assert "--gamma 1 " in answer.split(COMMAND)[1]


def test_counts_that_decide_nothing_are_not_promised(capsys) -> None:
    answer = said(capsys, f"{MAC} --gamma 2 --tokens-per-iteration 2.3")
    assert "but no acceptance makes it certain; paste" in answer
    long = "-m qwen3.8-27b --weights int4-g128 --hardware a100 -b 1 -c 29k --draft mtp --gamma 1"
    assert f"{DECIDE}no acceptance breaks even at gamma 1" in said(
        capsys, f"{long} --tokens-per-iteration 1.87"
    )


@pytest.mark.parametrize("question", [STRIX, f"{MAC} --gamma 2 --tokens-per-iteration 2.3"])
def test_the_printed_command_reads_two_speeds(capsys, monkeypatch, question: str) -> None:
    command = (
        said(capsys, question).partition(COMMAND)[2].partition(" llama-server ")[0].partition(" warning: ")[0]
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"with MTP 60 tok/s, without 55 tok/s")))
    assert run(["validate", "engine", *shlex.split(command)]) == 0
    assert "measured 1.09 times the baseline" in " ".join(capsys.readouterr().out.split())


def test_the_command_has_the_requests_and_the_version_of_the_question(capsys) -> None:
    server = "--engine sglang@0.5.13 --tp 2 --gamma 3 --tokens-per-iteration 1.86 --memory-fraction 0.8"
    answer = said(capsys, f"-m qwen3-30b-a3b --hardware h100 -b 4 -c 500 --draft eagle3 {server}")
    assert "--from -,batch=4,accepted=1.86 --model qwen3-30b-a3b" in answer
    assert "--tp 2 --memory-fraction 0.8 --engine sglang --version 0.5.13" in answer


def test_a_decided_answer_needs_no_measurement(capsys) -> None:
    assert DECIDE not in said(capsys, "-m llama-3.1-8b --hardware h100 -b 1 -c 1k --draft eagle3 --gamma 3")
    assert DECIDE not in said(capsys, STRIX.replace("--gamma 2", "--gamma 0"))
