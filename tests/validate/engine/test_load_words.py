"""The load that people state in words beside their speeds."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused


@pytest.mark.parametrize(
    ("words", "batch", "prompt", "answer"),
    [
        ("32 concurrent requests, ISL 4096 OSL 512", 32, 4096, 512),
        ("concurrency 16, input 3k, output 500", 16, 3072, 500),
        ("Llama-3.1-8B on one H100, 1024 in / 256 out", None, 1024, 256),
        ("batch size 1, prompt ~1k tokens", 1, 1024, None),
        ("--random-input-len 2048 --random-output-len=128 --max-concurrency 8", 8, 2048, 128),
        ("a single stream with 8,000 token prompts", 1, 8000, None),
        ("bs=4, input_len=512", 4, 512, None),
        ("64 users, max_tokens 300", 64, None, 300),
        ("concurrency 1 to 16", None, None, None),
        ("4xH100, ISL/OSL = 2048/256", None, 2048, 256),
        ("input/output 1k/2k", None, 1024, 2048),
        ("concurrency 1, 4 and 16", None, None, None),
        ("batch 1 is fine, batch 8 is not", None, None, None),
        ("prompt 512 tok/s, output 30 tok/s", None, None, None),
        ("Prompt: 300 t/s; input 96 ms", None, None, None),
        ("two 3090 with 24 GB, Qwen3 32B", None, None, None),
    ],
)
def test_the_load_is_read_if_it_is_stated_once(
    words: str, batch: float | None, prompt: float | None, answer: float | None
) -> None:
    assert load(words) == GivenFacts(batch=batch, input=prompt, output=answer)


def test_two_speeds_take_the_load_from_the_words() -> None:
    words = (
        "TPOT went from 18.2 ms without MTP to 25.3 ms with MTP (num_speculative_tokens=1), acceptance 82%. "
        "32 concurrent requests, ISL 4096 OSL 512."
    )
    alone, drafting = read_pasted("-", words, GivenFacts())
    assert (alone.batch, alone.context, alone.gamma, alone.seconds) == (32, 4096 + 256, 0, 0.0182)
    assert (drafting.gamma, drafting.seconds) == (1, pytest.approx(1.82 * 0.0253))
    assert read_pasted("-", words, GivenFacts(batch=8))[0].batch == 8, "the command line has the last word"


CONFIGURATIONS = """
| | TTFT p50 | TPOT p50 | P99 TPOT | output tok/s |
|--|--|--|--|--|
| no MTP | 310 ms | 11.8 ms | 19.0 | 1290 |
| MTP=2 | 402 ms | 13.9 ms | 29.0 | 1085 |

concurrency 16, input 3k, output 500. Mean acceptance length 2.41
"""


def test_a_table_of_metrics_may_have_the_configurations_as_rows() -> None:
    alone, drafting = read_pasted("-", CONFIGURATIONS, GivenFacts())
    assert (alone.batch, alone.context, alone.gamma, alone.seconds) == (
        16,
        3072 + 250,
        0,
        pytest.approx(0.0118),
    )
    assert (drafting.gamma, drafting.seconds) == (2, pytest.approx(2.41 * 0.0139))


def test_a_table_of_draft_lengths_may_have_the_tpot() -> None:
    table = "| config | p50 TPOT (ms) | tok/s |\n|--|--|--|\n| no spec | 10 | 90 |\n| n=2 | 8 | 110 |"
    alone, drafting = read_pasted("-", table, GivenFacts(input=500, batch=4, accepted=2.0))
    assert (alone.batch, alone.gamma, alone.seconds) == (4, 0, 0.01)
    assert (drafting.gamma, drafting.seconds) == (2, 0.016)


def test_a_table_may_have_the_names_of_the_clients_file() -> None:
    table = "num_speculative_tokens,p99_tpot_ms,mean_tpot_ms,acceptance_length\n0,20,17.6,1.0\n3,15,9.8,2.3\n"
    alone, drafting = read_pasted("-", plain(table), GivenFacts(input=500))
    assert (alone.gamma, alone.seconds) == (0, pytest.approx(0.0176))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (3, 2.3)
    assert drafting.seconds == pytest.approx(2.3 * 0.0098)


def test_lines_of_draft_lengths_may_have_the_tpot() -> None:
    lines = "K=0: TPOT 6.1 ms\nK=1: TPOT 5.0 ms (acc len 1.71)\nK=3: TPOT 4.9 ms (acc len 2.35)"
    steps = read_pasted("-", lines, GivenFacts(input=500, batch=2))
    assert [(t.gamma, t.seconds) for t in steps] == [
        (0, pytest.approx(0.0061)),
        (1, pytest.approx(1.71 * 0.005)),
        (3, pytest.approx(2.35 * 0.0049)),
    ]
    assert form_of(lines.replace("TPOT", "TTFT")) is None


def test_a_share_counts_with_the_length_of_the_command_line() -> None:
    words = "without MTP: 78.1 tok/s, with MTP: 70.4 tok/s, acceptance 79%"
    _, drafting = read_pasted("-", words, GivenFacts(input=500, gamma=1))
    assert drafting.tokens_per_iteration == pytest.approx(1.79)


def test_a_table_of_requests_at_once_may_have_the_tpot() -> None:
    table = (
        "| Batch | Baseline TPOT (ms) | EAGLE3 TPOT (ms) | Speedup |\n|---|---|---|---|\n"
        "| 1 | 17.9 | 10.8 | 1.66x |\n| 32 | 23.8 | 24.1 | 0.99x |"
    )
    steps = read_pasted("-", table, GivenFacts(input=500, gamma=3, accepted=2.0))
    assert [(t.batch, t.gamma, t.seconds) for t in steps] == [
        (1, 0, pytest.approx(0.0179)),
        (32, 0, pytest.approx(0.0238)),
        (1, 3, pytest.approx(2 * 0.0108)),
        (32, 3, pytest.approx(2 * 0.0241)),
    ]


def test_the_time_between_chunks_is_not_taken_for_that_of_a_token() -> None:
    words = "ITL went from 18.2 ms without MTP to 25.3 ms with MTP (n=1, acc 82%)"
    refused("-: ITL: state the TPOT", read_pasted, "-", words, GivenFacts(input=500))
