"""The load that the log of a server states: the lines that are used, and their medians."""

import pytest

from perfmodel.validate.engine.logged_load import LoggedLoad

VLLM = (
    "Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {decode} tokens/s, "
    "Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {used}%, Prefix cache\n"
)
SGLANG = (
    "[2025-03-01 12:00:{second:02}] Decode batch, #running-req: {running}, #token: {cached}, token usage: "
    "0.1, gen throughput (token/s): {decode}, #queue-req: {waiting}\n"
)
PREFILL = "[2025-03-01 12:00:{second:02}] Prefill batch, #new-seq: 1, #new-token: {tokens}, #cached\n"
IDLE = VLLM.format(prompt=0.0, decode=0.0, running=0, waiting=0, used=0.0)


def vllm_line(
    decode: float, running: int = 4, prompt: float = 0.0, waiting: int = 0, used: object = 8
) -> str:
    return VLLM.format(prompt=prompt, decode=decode, running=running, waiting=waiting, used=used)


def load_of(text: str) -> LoggedLoad:
    load = LoggedLoad.of(text)
    assert load is not None
    return load


def test_the_first_and_the_last_line_of_a_load_do_not_count() -> None:
    """The two ends are slow. The medians of the three lines between them are those of the server."""
    inner = [vllm_line(400, prompt=30), vllm_line(200, prompt=10, waiting=2), vllm_line(800, prompt=20)]
    load = load_of("".join([vllm_line(10), *inner, vllm_line(20)]))
    assert (load.tpot_s, load.waiting, load.prompt_tokens_per_s) == (0.01, 0, 20)
    assert not load.partly_idle


def test_an_idle_line_separates_two_loads() -> None:
    """Neither load has an inner line. The lines of the second one agree."""
    first = vllm_line(100, 1) + vllm_line(400)
    second = vllm_line(500) + vllm_line(510)
    assert load_of(first + IDLE + second).tpot_s == pytest.approx((4 / 500 + 4 / 510) / 2)
    apart = load_of(first + IDLE + vllm_line(500))
    assert apart.partly_idle
    assert len(apart.lines) == 3
    assert LoggedLoad.of(IDLE) is None
    ended = vllm_line(30, running=0)
    assert load_of(first + ended + second).tpot_s == load_of(first + IDLE + second).tpot_s


def test_the_context_of_vllm_is_the_used_part_of_its_cache_over_the_requests() -> None:
    lines = vllm_line(400) * 3
    assert load_of("GPU KV cache size: 80,000 tokens\n" + lines).context == 0.08 * 80_000 / 4
    assert load_of(lines).context is None
    assert load_of(lines).context_of(40_000) == 0.08 * 40_000 / 4


def test_a_line_with_an_unreadable_number_does_not_count() -> None:
    assert LoggedLoad.of(vllm_line(400).replace("400", "4.0.0") * 3) is None
    assert load_of(vllm_line(400, used="8.0.1") * 3).context_of(40_000) is None


def test_sglang_reads_the_prompt_tokens_between_two_lines() -> None:
    """1,000 and 500 tokens in the five seconds between the first and the second line."""
    text = ""
    for second, tokens in ((0, (4000,)), (5, (1000, 500)), (10, ())):
        text += "".join(PREFILL.format(second=second, tokens=count) for count in tokens)
        text += SGLANG.format(second=second, running=4, cached=8000, decode=200.0, waiting=3)
    load = load_of(text)
    assert (load.tpot_s, load.waiting, load.context) == (0.02, 3, 2000)
    assert load.prompt_tokens_per_s == 300
    without_time = load_of(text.replace("2025-03-01", "2025-13-01"))
    assert without_time.prompt_tokens_per_s == 0
