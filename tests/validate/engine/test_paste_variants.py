"""Pasted texts in other forms of the same tools: older lines, other clients' words, a part of a block."""

import json

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import pasted, sample


def test_the_older_line_of_llama_cpp_tells_the_draft_length_too(monkeypatch, tmp_path, capsys) -> None:
    older = (
        sample("llama_server_log")
        .partition(", mean acceptance")[0]
        .replace("acceptance =", "acceptance rate =")
    )
    (tmp_path / "log").write_text(older)
    status, out = pasted(
        monkeypatch, capsys, "", "--watch", str(tmp_path / "log"), "--draft", "mtp", "--engine", "llamacpp"
    )
    assert status == 0
    assert "2.94 tokens per iteration" in out
    assert "health: healthy: measured 14 ms per token" in out


def test_other_lines_of_the_same_tools() -> None:
    """What LM Studio shows in its window, mlx-lm's benchmark, and a load that vLLM's client names first."""
    shown = "32.14 tok/sec • 512 tokens • 0.45s to first token • Stop reason: EOS Token Found"
    refused("-: input: must be stated", read_pasted, "-", shown, GivenFacts())
    (timing,) = read_pasted("-", shown, GivenFacts(input=100))
    assert (timing.context, timing.ttft_s) == (356, 0.45)
    assert timing.seconds == pytest.approx(1 / 32.14)
    drafting = f"{shown} • Accepted 320/480 draft tokens (66.7%)"
    (timing,) = read_pasted("-", drafting, GivenFacts(input=100))
    assert (timing.gamma, timing.tokens_per_iteration) == (3, 512 / 192)
    assert timing.seconds == pytest.approx(512 / 192 / 32.14)
    counted = f"{sample('lm_studio')}  Total Draft Tokens: 120\n  Accepted Draft Tokens: 69\n"
    (timing,) = read_pasted("-", counted, GivenFacts())
    assert (timing.gamma, timing.tokens_per_iteration) == (2, 129 / 60)
    benchmark = (
        "Timing with prompt_tokens=1024, generation_tokens=256, batch_size=4.\n"
        "Trial 1:  prompt_tps=1201.331, generation_tps=161.022, peak_memory=9.812\n"
        "Averages: prompt_tps=1201.720, generation_tps=160.000, peak_memory=9.812\n"
    )
    (timing,) = read_pasted("-", benchmark, GivenFacts())
    assert (timing.batch, timing.context, timing.seconds) == (4, 1152, 4 / 160)
    block = sample("serving_block")
    at_once = next(line for line in block.splitlines() if "request concurrency" in line)
    text = f"Burstiness factor: 1.0\nMaximum request concurrency: 8\n{block.replace(at_once, '')}"
    (timing,) = read_pasted("-", text, GivenFacts())
    assert timing.batch == 8
    lacking = text.replace("Maximum request concurrency: 8", "")
    (timing,) = read_pasted("-", lacking, GivenFacts())
    assert timing.batch == 7.7, "(8192 - 32) tokens x 20.4 ms over 21.5 s"
    lacking = lacking.replace("Mean TPOT", "x")
    refused("-: batch: must be stated, as in --from -,batch=N", read_pasted, "-", lacking, GivenFacts())


def test_an_answer_of_llama_cpp_tells_the_draft_length_as_its_log_does() -> None:
    counts = {
        "prompt_n": 512,
        "predicted_n": 301,
        "predicted_ms": 6100,
        "draft_n": 330,
        "draft_n_accepted": 190,
    }
    (timing,) = read_pasted("-", json.dumps({"timings": counts}), GivenFacts())
    assert (timing.gamma, timing.tokens_per_iteration) == (3, 300 / 110)
    (given,) = read_pasted("-", json.dumps({"timings": counts}), GivenFacts(gamma=4))
    assert given.gamma == 4


def test_accepted_tokens_stay_within_a_draft_length_that_was_rounded_down() -> None:
    """Ten iterations accept 35 drafted tokens: drafts of 3, and 4 tokens an iteration, not 4.5."""
    counts = {"prompt_n": 512, "predicted_n": 46, "predicted_ms": 1000}
    answer = json.dumps({"timings": counts | {"draft_n": 35, "draft_n_accepted": 35}})
    shown = "30 tok/sec • 45 tokens • 0.45s to first token • Accepted 35/35 draft tokens"
    for text in (answer, shown):
        (timing,) = read_pasted("-", text, GivenFacts(input=512))
        assert (timing.gamma, timing.tokens_per_iteration) == (3, 4.0)


def test_the_prompt_of_one_sequence_alone_is_timed_by_itself() -> None:
    lines = "Prefill. latency: 0.05 s, throughput: {:.1f} token/s\n"
    lines += "Decode.  median latency: 0.005 s, median throughput: {:.1f} token/s\n"
    one, eight = (lines.format(batch * 20480, batch * 200) for batch in (1, 8))
    assert form_of(one).prompts("-", one + eight) == [PromptTiming(1024, 0.0, 0.05)]


def test_older_send_one_prints_one_line() -> None:
    (timing,) = read_pasted("-", "acc_length=2.84 speed=212.31 token/s\n", GivenFacts(input=100, gamma=3))
    assert (timing.gamma, timing.tokens_per_iteration, timing.context) == (3, 2.84, 100.5)
    assert timing.seconds == pytest.approx(2.84 / 212.31)


def test_an_older_line_of_exllama_has_its_prompt_in_the_context() -> None:
    line = "420 tokens generated in 7.01 seconds (Queue: 0.0 s, Process: 1801.9 T/s, Generate: 70.12 T/s{})\n"
    (timing,) = read_pasted("-", line.format(", Context: 812 tokens"), GivenFacts())
    assert (timing.context, timing.seconds) == (812 + 210, pytest.approx(1 / 70.12))
    refused(r"-: input: must be stated", read_pasted, "-", line.format(""), GivenFacts())


def test_a_part_of_a_block_has_the_step_of_the_whole_block() -> None:
    block = sample("serving_block")
    part = block[block.index("Mean TPOT") :]
    (of_part,) = read_pasted("-", part, GivenFacts(batch=8, input=1024, output=256))
    (of_block,) = read_pasted("-", block, GivenFacts())
    for fact in ("seconds", "batch", "context", "gamma", "tokens_per_iteration"):
        assert getattr(of_part, fact) == pytest.approx(getattr(of_block, fact))


def test_rows_of_a_table_name_their_own_concurrency() -> None:
    table = """
| config | mean TPOT (ms) | Accept length |
|---|---|---|
| baseline c=1 | 18 | - |
| EAGLE3 k=3 c=1 | 10 | 2.5 |
| baseline conc=32 | 26 | - |
| EAGLE3 k=3 conc=32 | 24 | 2.5 |
"""
    steps = read_pasted("-", table, GivenFacts(input=500))
    assert [(step.batch, step.gamma) for step in steps] == [(1, 0), (1, 3), (32, 0), (32, 3)]


def test_a_line_with_an_acceptance_is_an_answer_with_a_draft() -> None:
    """The lines beside it, which have none, are answers without a draft."""
    line = "512 tokens generated in 11.4 seconds (Generate: 44.8 T/s, Context: 1820 tokens"
    text = f"{line})\n{line}, Draft acceptance: 70%)\n"
    refused("-: gamma: must be stated", read_pasted, "-", text, GivenFacts())
    alone, drafting = read_pasted("-", text, GivenFacts(gamma=3))
    assert (alone.gamma, drafting.gamma) == (0, 3)
    assert drafting.tokens_per_iteration == pytest.approx(1 + 0.7 * 3)


def test_the_older_table_of_bench_one_batch_server_has_no_prompt_lengths(monkeypatch, capsys) -> None:
    table = (
        "| batch size | latency (s) | input throughput (tok/s)  | output throughput (tok/s) | acc length |\n"
        "| ---------- | ----------- | ------------------------- | ------------------------- | ---------- |\n"
        "| 1 | 2.41 | 8211.11 | 200.00 | 2.50 |\n"
        "| 8 | 3.61 | 18211.11 | 1000.00 | 2.40 |\n"
    )
    refused("-: input: must be stated", read_pasted, "-", table, GivenFacts(gamma=3))
    steps = read_pasted("-", table, GivenFacts(gamma=3, input=1024))
    assert [(step.batch, step.gamma, step.tokens_per_iteration) for step in steps] == [
        (1, 3, 2.5),
        (8, 3, 2.4),
    ]
    assert [step.seconds for step in steps] == pytest.approx([2.5 / 200, 2.4 * 8 / 1000])
    assert form_of(table).prompts("-", table) == []
    _, out = pasted(monkeypatch, capsys, table, "--draft", "mtp", "--from", "-")
    assert "error: -: gamma, input: must be stated" in out, "all that is missing at once"
