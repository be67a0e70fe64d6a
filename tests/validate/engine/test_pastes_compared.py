"""``validate engine --from -``: what a text is, how it compares with the prediction, and what is missing."""

import io
import re
import sys
from pathlib import Path

import pytest

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.cli import run
from perfmodel.validate.engine.compared import predicted_prompt_s
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from tests.validate.engine.pasting import ASK, SAMPLES, pasted, sample


def test_standard_input_is_told_compared_and_what_is_missing_is_said(monkeypatch, capsys) -> None:
    log = sample("llama_server_log")
    status, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert status == 0
    assert "read: log of llama.cpp's server" in out
    assert "B=1 S=1646 K=3: 41 ms per iteration, 2.94 tokens per iteration; predicted" in out
    assert "prompt of 1520 tokens: 1.8 s; predicted" in out
    assert "missing for a calibration: must hold two draft lengths or more" in out


def test_a_file_of_printed_text_is_described_as_standard_input_is(monkeypatch, tmp_path, capsys) -> None:
    path = tmp_path / "bench.txt"
    path.write_text(sample("llama_bench"))
    _, of_file = pasted(monkeypatch, capsys, "", "--from", str(path))
    _, of_input = pasted(monkeypatch, capsys, sample("llama_bench"), "--from", "-")
    assert of_file == of_input
    assert "prompt of 512 tokens behind 512 cached: 80 ms" in of_file


def test_a_block_without_acceptance_takes_the_published_one_and_says_so(monkeypatch, capsys) -> None:
    block = sample("serving_block")
    plain = "\n".join(
        line for line in block.splitlines() if "cceptance" not in line and "osition" not in line
    )
    plain = "\n".join(line for line in plain.splitlines() if "raft" not in line)
    ask = ["--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3", "--gamma", "3"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.encode())))
    assert run(["validate", "engine", *ask, "--from", "-"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "acceptance is not in the text; taken: 2.26 tokens per iteration at K = 3 (RedHatAI" in out
    assert "K=3: 45 ms per iteration, 2.26 tokens per iteration" in out


def test_a_block_without_drafts_beside_one_with_them_is_the_baseline(monkeypatch, capsys) -> None:
    block = sample("serving_block")
    alone = block.partition("---------------Speculative")[0]
    given = [*ASK, "--draft", "mtp", "--gamma", "3", "--from", "-"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{alone}{block}".encode())))
    assert run(given) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "B=8 S=1152 baseline: 20 ms per iteration" in out
    assert "B=8 S=1152 K=3: 50 ms per iteration, 2.50 tokens per iteration" in out
    assert "measured 1.00 times the baseline" in out
    assert "acceptance is not in the text" not in out


def test_an_answer_that_counts_its_draft_keeps_its_acceptance_beside_one_that_does_not(
    monkeypatch, capsys
) -> None:
    shown = "32.14 tok/sec • 512 tokens • 0.45s to first token"
    text = f"{shown} • Accepted 320/480 draft tokens (66.7%)\n{shown}\n"
    given = ["--draft", "mtp", "--gamma", "3", "--from", "-,input=100,gamma=3"]
    _, out = pasted(monkeypatch, capsys, text, *given)
    assert "acceptance is not in the text; taken:" in out
    assert out.count("83 ms per iteration, 2.67 tokens per iteration") == 1  # 512 / 192 over 32.14


def test_a_prompt_takes_longer_behind_cached_tokens_and_where_a_draft_reads_it_too() -> None:
    scenario = resolve_costs(Query("qwen3-32b", "h100", 1, 4096, tp=2, draft="eagle3", alpha=0.6))

    def prompt_s(tokens: int, cached: int = 0, drafts: bool = False) -> float:
        return predicted_prompt_s(scenario, PromptTiming(tokens, cached, 0.0), drafts)

    assert prompt_s(2048) < prompt_s(2048, drafts=True) < prompt_s(2048, cached=2048)
    in_two = prompt_s(2048) + prompt_s(2048, cached=2048)
    assert in_two == pytest.approx(prompt_s(4096), rel=0.01)


@pytest.mark.parametrize("name", ["serving_block", "llama_bench", "mlx_lm"])
def test_the_output_of_a_client_is_no_log_to_watch(monkeypatch, capsys, name: str) -> None:
    status, out = pasted(monkeypatch, capsys, "", "--watch", str(SAMPLES / f"{name}.txt"), "--draft", "mtp")
    assert status == 2
    assert f"is {form_of(sample(name)).title}; use --from" in out


def with_and_without_drafts() -> str:
    """A log of answers with and without drafts, at two contexts."""
    drafted = sample("llama_server_log")
    plain = "".join(line for line in drafted.splitlines(keepends=True) if "draft acceptance" not in line)
    short = drafted + plain
    return short + short.replace("1520 tokens", "6080 tokens").replace("1774 tokens", "6334 tokens")


def test_a_text_on_standard_input_that_is_enough_has_to_be_saved(monkeypatch, capsys) -> None:
    """A calibration names the file of its timings."""
    text = with_and_without_drafts()
    status, out = pasted(monkeypatch, capsys, text, "--draft", "mtp", "--from", "-")
    assert status == 0
    parts = (
        "K=3: 41 ms per",
        "S=6206 baseline:",
        "times the baseline",
        "prompt of 6080 tokens",
        "enough for",
    )
    places = [out.index(part) for part in parts]
    assert places == sorted(places), "steps, what they gain, prompts, and what to do next"
    assert out.endswith("enough for a calibration: save the text, and give its name to --from")


def test_an_acceptance_that_nobody_published_is_asked_for_with_its_place(monkeypatch, capsys) -> None:
    plain = sample("serving_block").partition("---------------Speculative")[0]
    text = f"no draft:\n{plain}\nngram (n=5):\n{plain}"
    status, out = pasted(monkeypatch, capsys, text, "--draft", "ngram", "--from", "-")
    assert status == 2
    assert "accepted: must be stated" in out
    assert "the log or /metrics of the server states it" in " ".join(out.split())


def test_steps_with_too_much_prefill_are_not_enough_for_a_calibration(monkeypatch, capsys) -> None:
    """They are set aside, as for a file."""
    drafted = sample("serving_block").replace("32768", "327680")
    plain = drafted[: drafted.index("---------------Speculative")] + "=" * 50 + "\n"
    both = drafted + plain
    text = both + both.replace("327680", "655360")
    _, out = pasted(monkeypatch, capsys, text, "--draft", "eagle3", "--from", "-")
    assert "4 steps are set aside because of a prefill" in " ".join(out.split())
    assert "enough for a calibration: save" not in out


@pytest.mark.slow
def test_a_file_of_printed_text_that_is_enough_is_fitted(monkeypatch, tmp_path, capsys) -> None:
    """To the engine that printed it, unless --engine names another."""
    path = tmp_path / "server.txt"
    path.write_text(with_and_without_drafts())
    given = ("--draft", "mtp", "--machine", "t-1", "--results", str(tmp_path), "--from", str(path))
    for engine, more in (("llamacpp", ()), ("vllm", ("--engine", "vllm"))):
        written = tmp_path / f"{engine}.yaml"
        status, out = pasted(monkeypatch, capsys, "", *given, *more, "--out", str(written))
        assert status == 0
        assert "K=3: 41 ms per iteration" in out
        assert f"calibration: {written}" in out
        assert f"stack: {engine}-unknown" in written.read_text()


def test_an_address_counters_and_anything_else(monkeypatch, capsys) -> None:
    status, out = pasted(monkeypatch, capsys, "http://127.0.0.1:1\n", "--from", "-")
    assert status == 2
    assert "127.0.0.1:1 cannot be reached" in out
    log = (SAMPLES.parent / "files" / "vllm-log-draft3.txt").read_text()
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--context", "600", "--from", "-")
    assert "read: counters of vllm" in out
    assert "K = 3" in out
    status, out = pasted(monkeypatch, capsys, "Dear all,\n", "--from", "-")
    assert status == 2
    assert "-: holds no benchmark known here: paste a log of vLLM" in out
    status, out = pasted(monkeypatch, capsys, " \n", "--from", "-")
    assert status == 2
    assert "--from -: must be a text on standard input, given nothing" in out


def test_a_text_of_llama_cpp_is_compared_with_llama_cpp(monkeypatch, capsys) -> None:
    """Without weights, which would say so too."""
    ask = ["validate", "engine", "--model", "qwen3-8b", "--hardware", "rtx-4090", "--from", "-"]
    printed = []
    for more in ([], ["--engine", "llamacpp"], ["--engine", "vllm"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample("llama_bench").encode())))
        assert run([*ask, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0] != printed[2]


@pytest.mark.parametrize(
    "line",
    [
        "Processed prompts: 100%| 8/8 [00:10<00:00, est. speed input: 51.20 toks/s, output: 63.21 toks/s]",
        "INFO 06-01 the engine runs\nThroughput: 7.10 requests/s, 9087.20 total tokens/s",
        "INFO 06-01 the engine runs\nAvg latency: 0.9231 seconds",
    ],
)
def test_the_speed_of_whole_requests_of_vllm_is_refused_with_what_to_run(monkeypatch, capsys, line) -> None:
    status, out = pasted(monkeypatch, capsys, line, "--from", "-")
    assert status == 2
    assert "times prompts and outputs together: `vllm bench serve`" in out


def test_a_slow_answer_names_the_iteration_and_the_signs_of_the_text(monkeypatch, capsys) -> None:
    log = sample("llama_server_log").replace("3511.48 ms", "9511.48 ms")
    log = f"load_tensors: offloaded 40/66 layers to GPU\n{log}"
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert "times as long: the iteration is off" in out
    assert "seen in the text: 26 of 66 layers run on the host" in out


def test_a_rejected_draft_names_the_acceptance(monkeypatch, capsys) -> None:
    rates = {"167 accepted": "17 accepted", "0.805, 0.632, 0.483": "0.090, 0.060, 0.047"}
    log = sample("llama_server_log").replace("254 tokens", "104 tokens")
    for old, new in rates.items():
        log = log.replace(old, new)
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert "the acceptance is off: 1.20 tokens per iteration, expected" in out


def test_a_baseline_beside_a_draft_gives_the_measured_speedup(monkeypatch, capsys) -> None:
    drafting = sample("llama_server_log")
    alone = "       eval time =    5512.01 ms /   200 tokens (   27.56 ms per token)\n"
    baseline = f"prompt eval time =     312.22 ms /   320 tokens\n{alone}"
    _, out = pasted(monkeypatch, capsys, f"{drafting}\n{baseline}", "--draft", "mtp", "--from", "-")
    # 2.94 tokens in 40.8 ms, and one in 27.7 ms
    assert "measured 2.00 times the baseline, predicted" in out


@pytest.mark.parametrize(
    ("alone", "drafting", "of_the_draft"),
    [
        # 28 ms and 30 ms are as predicted; 45 ms are 1.7 times as long, 111 ms four times
        (36, 12, True),
        (33, 40, True),
        (22, 12, True),
        (9, 12, False),
    ],
)
def test_a_server_that_is_slow_with_its_draft_alone_has_reasons_of_the_draft(
    monkeypatch, capsys, alone: int, drafting: int, of_the_draft: bool
) -> None:
    speeds = f"without MTP {alone} tok/s\nwith MTP n=3: {drafting} tok/s, acceptance 72%"
    _, out = pasted(monkeypatch, capsys, speeds, "--draft", "mtp", "--from", "-,input=500")
    of_draft = (
        "most time is lost with the draft: nothing in the text explains it; possible: the draft or" in out
    )
    assert of_draft is of_the_draft
    assert ("seen in the text: nothing that explains it; possible: layers" in out) is not of_the_draft


@pytest.mark.parametrize(
    ("server", "log"),
    [
        ("--model qwen3.6-27b --weights q4_k_m --hardware rtx-3090", "grep -iE 'offloaded|"),
        ("--model qwen3.6-27b --weights fp8 --hardware h100", "grep -iE 'enforce_eager|"),
        ("--model qwen3.6-27b --weights fp8 --hardware h100 --engine sglang", "grep -iE 'cuda.graph|"),
        ("--model qwen3.6-27b --weights 4bit --hardware m3-ultra", "read the weights again"),
    ],
)
def test_the_lines_of_the_log_that_would_explain_it_are_those_of_the_engine(
    monkeypatch, capsys, server: str, log: str
) -> None:
    speeds = "without MTP 40 tok/s\nwith MTP n=3: 9 tok/s, acceptance 72%"
    _, out = pasted(monkeypatch, capsys, speeds, *server.split(), "--draft", "mtp", "--from", "-,input=500")
    assert "nothing" in out
    assert log in out
    assert ("grep" in out) is log.startswith("grep")


def test_devices_in_turn_and_host_memory_are_part_of_the_prediction(monkeypatch, capsys) -> None:
    log = sample("llama_server_log")
    _, alone = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-", "--engine", "llama.cpp")
    _, by_host = pasted(
        monkeypatch,
        capsys,
        log,
        "--draft",
        "mtp",
        "--from",
        "-",
        "--gpu-layers",
        "40",
        "--host-bandwidth",
        "80",
    )
    alone_ms, by_host_ms = (float(re.search(r"predicted (\d+) ms", out)[1]) for out in (alone, by_host))
    assert by_host_ms > 1.5 * alone_ms
    _, refused_line = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-", "--gpu-layers", "40")
    assert "--gpu-layers: needs --host-bandwidth" in refused_line


def test_a_power_limit_is_part_of_the_prediction(monkeypatch, capsys) -> None:
    ask = ["validate", "engine", "--model", "qwen3.8-27b", "--weights", "q4_k_m", "--hardware", "rtx-5090"]
    predicted_ms = []
    for more in ([], ["--power-limit", "400"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample("llama_server_log").encode())))
        assert run([*ask, *more, "--draft", "mtp", "--from", "-"]) == 0
        out = " ".join(capsys.readouterr().out.split())
        predicted_ms.append(float(re.search(r"predicted (\d+) ms", out)[1]))
    assert predicted_ms[1] > predicted_ms[0]


def test_a_calibration_takes_the_flags_that_state_a_fact_and_no_published_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.md"
    table.write_text(
        "| batch size | baseline tok/s | eagle3 tok/s |\n|--|--|--|\n| 1 | 40 | 70 |\n| 8 | 300 | 450 |\n"
    )
    flags = "--model qwen3-32b --hardware h100 --tp 2 --draft eagle3 --gamma 3 --context 2k"
    out = tmp_path / "mine.yaml"
    ask = ["validate", "engine", *flags.split(), "--out", str(out), "--from"]
    assert run([*ask, str(table)]) == 0
    assert "missing for a calibration" in capsys.readouterr().out
    assert not out.exists()
    assert run([*ask, f"{table},accepted=2.4"]) == 0
    assert "held-out error" in capsys.readouterr().out
    assert out.exists()
