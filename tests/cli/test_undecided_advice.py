"""The end of an answer of `advise` that is undecided."""

import re

import pytest

import perfmodel as pm
from perfmodel import cli
from perfmodel.cli.advise_words import COUNTERS_READ
from perfmodel.validate.engine.acceptance import MODULES

MAC = "-m qwen3-30b-a3b-2507 --hardware apple-m3-ultra-512gb -c 16k --engine mlx --weights int4-g64"
LOAD = (
    "-m llama-3.1-405b --hardware h100 --gpus 8 --request-rate 0.5 --input-len 2000 --output-len 400 "
    "--slo ttft:4000,tpot:60 --weights fp8 --engine trtllm"
)
QWEN = "-m qwen3.5-27b --hardware rtx-5090 "


@pytest.mark.parametrize(("question", "engine"), [(MAC, "MLX"), (LOAD, "TensorRT-LLM")])
def test_it_says_to_measure_a_draft_before_deciding_and_with_what(
    question: str, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(("advise", *question.split())) == 1
    words = " ".join(capsys.readouterr().out.split())
    assert "Undecided: " in words
    assert "start without a draft; measure the acceptance of a draft, then decide" in words
    assert "leave speculation off" not in words
    assert "/metrics" not in words
    assert f"SGLang or llama.cpp with the same draft; those of {engine} are not read" in words


def test_the_engines_that_it_names_are_those_whose_counters_are_read() -> None:
    assert {name.lower() for name in COUNTERS_READ} == set(MODULES)


def test_a_switch_with_which_a_typical_draft_gains_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With vLLM's default backend on this board, verifying several tokens takes as long as they save."""
    question = "-m glm-4.5-air --hardware 2xrtx-pro-6000 --weights fp8 -c 64k --objective latency"
    assert cli.run(("advise", *question.split())) == 1
    lines = capsys.readouterr().out.splitlines()
    words = " ".join(" ".join(lines).split())
    likely = re.search(
        r"with --attention-backend flashinfer likely (\S+)x to (\S+)x with a typical mtp", words
    )
    assert "no draft is likely to gain with a typical acceptance; " + likely[0] in words
    low, high = map(float, likely.groups())
    point = {"batch": 1, "context": 65536, "tp": 2, "weights": "fp8", "draft": "mtp"}
    typical = pm.whatif("glm-4.5-air", "rtx-pro-6000", attention_backend="flashinfer", **point).typical
    assert typical.speedups == pytest.approx((low, high), abs=0.1)
    started = next(line for line in lines if "--attention-backend FLASHINFER" in line)
    assert '"method": "mtp"' in started
    assert "--max-num-seqs 1 " not in started, "a server for one person lets no second request wait"
    assert words.count("TP 2 2 none") == 1, "the choice is the best baseline, and has one row"


def test_no_switch_is_named_where_a_draft_gains_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    question = "-m glm-4.5-air --hardware 4xh100 --weights fp8 -c 64k --objective latency"
    cli.run(("advise", *question.split()))
    words = capsys.readouterr().out
    assert "run the first server below (with mtp) and" in words
    assert "--attention-backend" not in words


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (
            QWEN + "--weights nvfp4 -c 16k --objective latency",
            "with mtp and --attention-backend flashinfer",
        ),
        (QWEN + "--weights q4_k_m --engine llamacpp", "with mtp"),
        (
            "-m llama-3.1-405b --hardware 8xh200 --weights fp8 -c 1k",
            "no draft is certain to gain",
        ),
        (
            "-m deepseek-v3.1 --hardware 8xh200 --clients 32 --input-len 4000 --output-len 500",
            "with mtp",
        ),
        (
            "-m qwen2.5-72b --hardware 4xh100 --clients 32 --input-len 4000 --output-len 500",
            r"eagle3 would gain, but no such head is known for this model \(--draft-path names one\)",
        ),
    ],
)
def test_of_several_servers_the_one_to_run_first_is_named(
    question: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(("advise", *question.split())) == 1
    words = " ".join(capsys.readouterr().out.split())
    decide = f"To decide, run the first server below \\({first}\\) and measure the acceptance of mtp, [^.]*"
    decide += (
        r"; keep this server if (alpha is at least 0\.\d\d|it is faster|the draft makes it faster), [^.]*"
    )
    start = f"Until a draft is measured, run the server without a draft: {first}"
    label = "(With [^:]*(: [^:]*)*: )?"
    assert re.search(rf"({decide}|{start})\. {label}(vllm serve|llama-server|Start 2 )", words)
    assert "Start without a draft." not in words


@pytest.mark.parametrize(
    ("question", "flags"),
    [
        (QWEN + "--weights nvfp4 -c 16k --objective latency", ["FLASHINFER", '"method": "mtp"']),
        ("-m deepseek-v3.1 --hardware 8xh200 -b 8", ['"method": "mtp"']),
        ("-m gemma-3-27b --hardware a100", ["google/gemma-3-27b-it --max-model-len"]),
    ],
)
def test_the_line_of_the_server_to_run_first_is_the_first_line(
    question: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(("advise", *question.split())) == 1
    shown = capsys.readouterr().out.splitlines()
    lines = [line for line in shown if line.startswith("vllm serve")]
    assert all(flag in lines[0] for flag in flags)
    assert len(lines) == len(set(lines)), "no line is printed twice"
    assert any(line.startswith(("To decide, run ", "Until a draft is measured, run ")) for line in shown)


def test_one_line_without_a_draft_is_to_be_started_before_a_draft_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = "-m qwen2.5-72b --hardware 8xh100 -c 1k --weights fp8 --kv-dtype fp8 --draft eagle3"
    assert cli.run(("advise", *question.split())) == 1
    words = " ".join(capsys.readouterr().out.split())
    copies = "vLLM servers on one host each need their own devices (CUDA_VISIBLE_DEVICES) and --port."
    assert words.endswith(f" Start without a draft. Measure the acceptance of a draft, then decide. {copies}")
    assert "run the server" not in words


def test_one_server_needs_no_favourite(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(("advise", *MAC.split(), "--draft", "eagle3"))
    assert "run the server" not in capsys.readouterr().out
