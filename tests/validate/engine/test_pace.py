"""The pace of a server, from each kind of log or page that states one."""

import pytest

from perfmodel.validate.engine.pace import Pace
from tests.validate.engine.health_logs import vllm_log


def pace_of(text: str, gained: float = 1.0) -> Pace | None:
    return Pace.of("server.txt", text, gained)


def histogram(name: str, mean_s: float) -> str:
    """A histogram of ten values on a page of metrics."""
    return f"vllm:{name}_seconds_sum {10 * mean_s}\nvllm:{name}_seconds_count 10\n"


def test_the_running_requests_of_a_log_share_its_throughput() -> None:
    """Eight requests at 400 tokens/s: 20 ms a token. Three equal lines: two lie inside the load."""
    text = vllm_log(400.0, waiting=5).replace("prompt throughput: 0.0", "prompt throughput: 90.0")
    assert pace_of(text) == Pace(0.02, waiting=5.0, prompt_tokens_per_s=90.0, partly_idle=False)


@pytest.mark.parametrize(("tokens_per_s", "partly_idle"), [((400, 380), False), ((400, 300), True)])
def test_two_lines_are_of_a_busy_server_if_they_agree(
    tokens_per_s: tuple[int, int], partly_idle: bool
) -> None:
    """Both are an end of the load; a tenth is no difference."""
    line = "Avg generation throughput: {}.0 tokens/s, Running: 8 reqs, Waiting: 0 reqs\n"
    pace = pace_of("".join(map(line.format, tokens_per_s)))
    assert pace is not None
    assert pace.partly_idle == partly_idle


def test_the_prompts_of_a_log_of_sglang_count_between_its_lines_of_decoding() -> None:
    """900 prompt tokens in each ten seconds."""
    prompts = "[2026-01-11 10:00:{}] Prefill batch, #new-seq: 1, #new-token: 900, #queue-req: 2\n"
    decoding = (
        "[2026-01-11 10:00:{}] Decode batch, #running-req: 8, #token: 9216, token usage: 0.02, "
        "gen throughput (token/s): 400.00, #queue-req: 2,\n"
    )
    text = "".join(prompts.format(second) + decoding.format(second + 5) for second in (10, 20, 30, 40))
    assert pace_of(text) == Pace(0.02, waiting=2.0, prompt_tokens_per_s=90.0, partly_idle=False)


def test_the_median_answer_of_llama_server_is_its_pace() -> None:
    """The first token of an answer is the prompt's."""
    lines = [f"eval time = {ms * 100:.2f} ms / 101 tokens ({ms:.2f} ms per token)\n" for ms in (20, 30, 90)]
    assert pace_of("".join(lines)) == Pace(pytest.approx(0.03), waiting=0.0)


def test_a_page_of_vllm_states_the_time_per_token() -> None:
    page = histogram("request_time_per_output_token", 0.02) + histogram("inter_token_latency", 0.06)
    assert pace_of(page + "vllm:num_requests_waiting 3\n", gained=2.0) == Pace(0.02, waiting=3.0)


@pytest.mark.parametrize("name", ["inter_token_latency", "time_per_output_token"])
def test_the_gaps_of_an_older_page_are_iterations_of_several_tokens(name: str) -> None:
    assert pace_of(histogram(name, 0.06), gained=3.0) == Pace(pytest.approx(0.02), waiting=0.0)


def test_the_newer_name_of_the_gaps_comes_first() -> None:
    page = histogram("time_per_output_token", 0.09) + histogram("inter_token_latency", 0.06)
    assert pace_of(page) == Pace(pytest.approx(0.06), waiting=0.0)


def test_the_running_requests_of_a_page_of_sglang_share_its_throughput() -> None:
    page = "sglang:gen_throughput 400.0\nsglang:num_running_reqs 8\nsglang:num_queue_reqs 2\n"
    assert pace_of(page) == Pace(0.02, waiting=2.0)


@pytest.mark.parametrize(
    "text", ["", "sglang:gen_throughput 0\nsglang:num_running_reqs 8\n", "GET /health 200"]
)
def test_a_text_without_a_pace_has_none(text: str) -> None:
    assert pace_of(text) is None
