"""Tables and lines of benchmark clients: which rows belong together, and what a user adds to them."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import sample

BENCHY = "| test | t/s | ttfr (ms) | e2e_ttft (ms) |\n"
TWO_CLIENTS = "| test | t/s (total) | t/s (req) | ttfr (ms) | e2e_ttft (ms) |\n"


def contexts(text: str, **given: float) -> list[tuple[float, float]]:
    """The requests and the mean cached tokens of each step."""
    return [(step.batch, step.context) for step in read_pasted("-", text, GivenFacts(**given))]


def test_answers_of_llama_benchy_follow_the_prompts_of_their_own_run() -> None:
    """All prompts are in the table before all answers; the prompt of an answer has its depth and clients."""
    prompts = (
        "| pp100 | 9 | | |\n| ctx_pp @ d500 | 9 | | |\n| pp200 @ d500 | 9 | | |\n| pp300 (c2) | 9 | | |\n"
    )
    answers = (
        "| tg10 | 50 | | |\n| ctx_tg @ d500 | 50 | | |\n| tg10 @ d500 | 50 | | |\n| tg10 (c2) | 50 | | |\n"
    )
    expected = [(1, 100 + 5), (1, 500 + 0.5), (1, 500 + 200 + 5), (2, 300 + 5)]
    assert contexts(f"{BENCHY}{prompts}{answers}") == expected


def test_an_answer_of_llama_benchy_without_its_prompt_has_the_one_that_the_user_states() -> None:
    alone = f"{BENCHY}| tg10 | 50 | | |\n"
    assert contexts(alone, input=700) == [(1, 705)]
    refused("-: input: must be stated", contexts, alone)


def test_rows_of_llama_benchy_without_the_rate_of_a_request_are_passed_over() -> None:
    only_total = TWO_CLIENTS.replace(" t/s (req) |", "")
    assert contexts(f"{only_total}| pp100 (c2) | 9 | | |\n| tg10 (c2) | 90 | | |\n") == []
    assert contexts(f"{TWO_CLIENTS}| pp100 (c2) | 9 | 9 | | |\n| tg10 (c2) | 90 | 50 | | |\n") == [(2, 105)]


SGLANG = """{lengths}
| batch size | input len | input throughput (tok/s) | output throughput (tok/s) |
|---|---|---|---|
| 2 | 1000 | 9000 | 100 |
"""


@pytest.mark.parametrize("lengths", ["Output lens: (256,).", "Output lens: [256].", "Output lens: 256"])
def test_the_printed_length_of_answers_of_sglangs_server(lengths: str) -> None:
    """Older tables have no column of accepted lengths."""
    assert contexts(SGLANG.format(lengths=lengths), output=100) == [(2, 1000 + 128)]


def test_the_length_of_answers_that_the_user_states_for_sglangs_server() -> None:
    assert contexts(SGLANG.format(lengths=""), output=100) == [(2, 1000 + 50)]
    assert contexts(SGLANG.format(lengths="")) == [(2, 1000.5)]


def test_a_run_of_sglangs_server_without_a_draft_before_one_with_it() -> None:
    lines = sample("sglang_one_batch_server").replace("acc_length: 2.81", "")
    refused("-: accepted: must be stated", read_pasted, "-", lines, GivenFacts(gamma=3))


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        ("llamacpp", ["llama_batched_bench", "llama_bench", "llama_bench_csv", "llama_metrics"]),
        ("llamacpp", ["llama_progress", "llama_server_log", "llama_speculative", "llama_sweep_bench"]),
        ("llamacpp", ["mtp_bench", "ollama"]),
        ("mlx-dspark", ["mlx_dspark"]),
        ("mlx", ["mlx_lm"]),
        ("sglang", ["sglang_one_batch", "sglang_one_batch_server", "sglang_send_one"]),
        ("trtllm", ["trtllm_bench", "trtllm_iterations", "trtllm_log", "trtllm_metrics"]),
        ("", ["llama_benchy", "lm_studio", "serving_block", "genai_perf", "guidellm_table", "two_speeds"]),
    ],
)
def test_what_one_engine_alone_prints_is_compared_with_that_engine(engine: str, names: list[str]) -> None:
    assert [form_of(sample(name)).engine for name in names] == [engine] * len(names)
