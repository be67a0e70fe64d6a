"""The engine flags that `advise` names under a load: an attention backend, more memory."""

import pytest

from perfmodel import advise

HYBRID = {
    "model": "qwen3-next-80b-a3b",
    "hardware": "rtx-pro-6000",
    "gpus": 1,
    "weights": "fp8",
    "clients": 2,
    "input_len": 32_768,
    "output_len": 1024,
}
FULL = {"model": "gpt-oss-120b", "hardware": "h100", "gpus": 1, "clients": 64, "input_len": 4096}


def named(answer, flag: str):
    """The only alternative with a flag in its first words."""
    (found,) = [each for each in answer.alternatives if each.text.startswith(f"With --{flag}")]
    return found


@pytest.fixture(scope="module")
def full():
    return advise(output_len=1024, **FULL)


def test_a_backend_that_turns_the_verdict_of_a_load_is_in_the_first_line() -> None:
    answer = advise(**HYBRID)
    there = advise(**HYBRID, attention_backend="flashinfer")
    change = answer.better_changes[0]
    assert there.chosen.draft == change.draft == "eagle3"
    gain = there.chosen.throughput_tokens_per_s / answer.chosen.throughput_tokens_per_s
    assert change.gain == pytest.approx(gain, rel=0.03)
    low, high = change.gain_interval
    assert low < 1.0 < gain < high < gain * 2.43 / 1.41, "a draft does not shorten the prefill"
    head = answer.headline()
    assert head.startswith("Do not speculate with the default attention backend (flash-attn2): ")
    assert f"; with --attention-backend flashinfer {change.gain:.2f} times as good (" in head
    alternative = named(answer, "attention-backend flashinfer, where the draft may pay off, a request takes ")
    assert " --attention-backend FLASHINFER " in alternative.line
    assert not any("backend" in each.flags for each in there.better_changes), "a stated one is kept"


def test_the_own_layer_is_named_although_no_other_draft_gains_under_the_load() -> None:
    answer = advise(**HYBRID)
    assert answer.verdict == "do_not_speculate"
    assert any(each.text.startswith("The checkpoint has its own mtp layer") for each in answer.alternatives)


def test_the_reason_says_how_many_clients_wait_for_a_seat_and_how_long(full) -> None:
    waiting = FULL["clients"] - full.chosen.batch
    seats = f"({full.chosen.batch} clients run and {waiting} wait for a seat, TTFT "
    assert seats in full.reason
    assert full.chosen.ttft_s > 10.0


def test_no_wait_is_stated_if_every_client_has_a_seat() -> None:
    assert "wait for a seat" not in advise(output_len=1024, **FULL | {"clients": 8}).reason


def test_a_larger_share_of_the_memory_is_named_after_the_smaller_cache_where_clients_wait(full) -> None:
    share = named(full, "memory-fraction 0.95")
    there = advise(output_len=1024, **FULL, memory_fraction=0.95)
    assert there.chosen.ttft_s < full.chosen.ttft_s
    assert f"a server runs {there.chosen.batch + 1} of 64 requests at once, not " in share.text
    assert share.text.endswith("; the server may then run out of memory")
    assert " --gpu-memory-utilization 0.95 " in share.line
    texts = [each.text for each in full.alternatives]
    cache = next(text for text in texts if "with --kv-dtype fp8" in text)
    assert texts.index(cache) < texts.index(share.text)
    assert not any("--memory-fraction" in each.text for each in there.alternatives)


def test_a_larger_share_is_not_named_if_every_client_has_a_seat() -> None:
    answer = advise(output_len=1024, **FULL | {"clients": 8})
    assert not any("--memory-fraction" in each.text for each in answer.alternatives)
