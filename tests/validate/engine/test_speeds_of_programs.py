"""Speeds of one answer as programs print them: the context, the draft and the first token of each."""

import json

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes.lm_studio import LmStudio
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.refusals import refused
from tests.validate.engine.pasting import pasted, sample

CLI = "[ Prompt: 407.7 t/s | Generation: 40.0 t/s ]"
KOBOLD, TABBY, _ = sample("one_line").splitlines()


def read(text: str, **given: float) -> list[Timing]:
    return read_pasted("-", text, GivenFacts(**given))


@pytest.mark.parametrize(
    ("line", "context"),
    [
        (KOBOLD, 1231 - 420 + 210),
        (KOBOLD.replace("1231/", "100/"), 210),
        (TABBY, 812 + 210),
        (TABBY.replace("0 cached", "300 cached"), 300 + 812 + 210),
        (TABBY.replace("0 cached tokens and 812 new tokens at 1801.9 T/s", "x"), 812 + 210),
        (CLI, 500 + 50),
    ],
)
def test_the_context_of_a_line_is_that_of_its_own_prompt(line: str, context: float) -> None:
    """Only llama-cli prints no lengths, so that those of the user count."""
    (timing,) = read(line, input=500, output=100)
    assert timing.context == context


def test_a_stated_draft_is_that_of_all_lines_or_of_those_that_state_an_acceptance() -> None:
    given = {"input": 500, "gamma": 3, "accepted": 2.0}
    assert [(one.gamma, one.seconds) for one in read(f"{CLI}\n{CLI}", **given)] == [(3, 2 / 40)] * 2
    one_of_two = f"{CLI}\n{CLI} acceptance 50 %\n{CLI}"
    steps = [(one.gamma, one.tokens_per_iteration) for one in read(one_of_two, input=500, gamma=3)]
    assert steps == [(0, 1.0), (3, 2.5), (0, 1.0)]


def test_the_speed_of_two_requests_is_that_of_one_if_the_user_says_so() -> None:
    refused("-: tokens per second: must be of one request", read, "40 tok/s at 2 users", input=500)
    (timing,) = read("40 tok/s at 2 users", input=500, batch=2)
    assert (timing.batch, timing.seconds) == (2, 1 / 40)


SHOWN = "50 tok/sec • 90 tokens • 0.5s to first token"


def test_each_answer_of_lm_studio_has_a_draft_and_a_first_token_of_its_own() -> None:
    text = f"{SHOWN}\n{SHOWN} • Accepted 60/120 draft tokens\n{sample('lm_studio')}"
    alone, drafting, printed = read(text, input=10)
    assert (alone.gamma, alone.ttft_s) == (0, 0.5)
    assert (drafting.gamma, drafting.tokens_per_iteration) == (4, 3.0)
    assert (printed.context, printed.ttft_s) == (26 + 129 / 2, 0.237)
    (shorter,) = read(f"{SHOWN} • Accepted 60/120 draft tokens", input=10, gamma=1)
    assert (shorter.gamma, shorter.tokens_per_iteration) == (1, 2.0), "at most the draft and one token"


def test_an_answer_of_lm_studio_without_counts_has_the_draft_that_the_user_states() -> None:
    (timing,) = read(SHOWN, input=10, gamma=2, accepted=2.5)
    assert (timing.gamma, timing.tokens_per_iteration, timing.seconds) == (2, 2.5, 2.5 / 50)
    without_first = sample("lm_studio").replace("  Time to First Token: 0.237s\n", "")
    (timing,) = read(without_first)
    assert timing.ttft_s is None


def test_a_file_in_json_is_no_text_of_lm_studio() -> None:
    assert not LmStudio().has(json.dumps({"stats": SHOWN}, ensure_ascii=False))


@pytest.mark.parametrize("separator", [" ", ", ", " , "])
def test_the_line_of_sglangs_send_one_has_the_length_that_the_user_states(separator: str) -> None:
    (timing,) = read(f"acc_length=2.50{separator}speed=100.0 token/s", input=100, output=50, gamma=3)
    assert (timing.context, timing.tokens_per_iteration) == (125, 2.5)
    assert timing.seconds == pytest.approx(0.025)


def test_a_request_of_sglangs_send_one_runs_alone() -> None:
    (timing,) = read(sample("sglang_send_one"), input=100, gamma=3, batch=8)
    assert timing.batch == 1


GENAI = """GenAI-Perf | LLM Metrics
| Statistic | avg | p50 |
| Time To First Token (ms) | 90 | 60 |
| Inter Token Latency (ms) | 12 | 10 |
| Request Latency (ms) | 2,000 | 1,000 |
| Request Throughput (per sec) | 4 | 3 |
"""


def test_lengths_that_a_table_of_genai_perf_lacks_are_those_of_the_user() -> None:
    """The requests in flight are a mean: the rate times the mean latency."""
    (timing,) = read(GENAI, input=100, output=10)
    assert (timing.batch, timing.context, timing.seconds, timing.ttft_s) == (8, 105, 0.01, 0.06)
    refused("-: output: must be stated", read, GENAI, input=100)
    refused("-: input: must be stated", read, GENAI, output=10)


@pytest.mark.parametrize("cell", ["N/A", ""])
def test_a_table_of_genai_perf_without_a_median_has_its_mean(cell: str) -> None:
    (timing,) = read(GENAI.replace("| 12 | 10 |", f"| 12 | {cell} |"), input=100, output=10)
    assert timing.seconds == pytest.approx(0.012)


def test_a_table_of_genai_perf_without_first_tokens_or_with_a_stated_draft() -> None:
    text = GENAI.replace("Time To First", "x")
    (timing,) = read(text, input=100, output=10, gamma=2, accepted=2.5)
    assert (timing.ttft_s, timing.gamma, timing.seconds) == (None, 2, pytest.approx(0.025))


def test_of_two_tables_of_genai_perf_the_first_is_read() -> None:
    (timing,) = read(GENAI + GENAI.replace("| 12 | 10 |", "| 24 | 20 |"), input=100, output=10)
    assert timing.seconds == pytest.approx(0.01)
    refused("inter token latency: must be printed, and above 0", read, GENAI.replace("12 | 10", "0 | 0"))


@pytest.mark.parametrize(
    "tpot",
    [
        *("TPOT 10 ms", "TPOT: 10ms", "time per output token = 10 ms", "10 ms TPOT", "10 ms per token"),
        *("10 ms/tok", "10.0ms / tok"),
    ],
)
def test_each_name_of_the_time_of_a_token_in_a_line_of_a_load(tpot: str) -> None:
    text = f"ISL 1000, OSL 200\nconcurrency=1: {tpot}\nconcurrency=8: {tpot}\n"
    steps = [(one.batch, one.context, one.seconds) for one in read(text)]
    assert steps == [(1, 1100, pytest.approx(0.01)), (8, 1100, pytest.approx(0.01))]


def test_an_accepted_share_in_a_line_of_a_load_is_of_the_stated_draft_length() -> None:
    text = "concurrency=1: TPOT 10 ms, acceptance 50 %\nconcurrency=8: TPOT 20 ms, acceptance 75 %\n"
    steps = [(one.gamma, one.tokens_per_iteration) for one in read(text, input=500, gamma=2)]
    assert steps == [(2, 2.0), (2, 2.5)]


@pytest.mark.parametrize("text", [CLI, "concurrency=1: TPOT 10 ms\nconcurrency=8: TPOT 20 ms"])
def test_a_draft_beside_a_text_that_counts_none_is_asked_for(text: str, monkeypatch, capsys) -> None:
    """The text cannot show that no draft ran, so it is not taken for decoding without one."""
    _, out = pasted(monkeypatch, capsys, text, "--draft", "mtp", "--from", "-,input=500,gamma=2")
    assert "counts no draft" not in out
    assert "K=2" in out
