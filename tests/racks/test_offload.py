"""Caches of earlier prompts on another tier."""

from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.load.offload import Offload, _crossing
from perfmodel.answers.load.tier_question import parse_tier
from perfmodel.errors import InputError

ASKED: dict[str, Any] = {
    "model": "deepseek-v3",
    "hardware": "h200",
    "engine": "sglang",
    "tp": 8,
    "input_len": 16384,
    "output_len": 256,
    "prefix_len": 12288,
    "request_rate": 0.1,
    "draft": "mtp",
    "gamma": 3,
    "alpha": 0.7,
    "closed_form": True,
}


def offload(tier: str, **changes: Any) -> Offload:
    answer = pm.traffic(**ASKED | {"kv_offload": tier} | changes).offload
    assert answer is not None
    return answer


def test_a_fast_tier_pays_at_any_length_and_a_slow_start_only_beyond_some() -> None:
    assert offload("host").pays_from_tokens == 1
    remote = offload("remote:4.5,1.7")
    assert remote.pays_from_tokens is not None
    assert remote.pays_from_tokens > 1000
    assert (remote.tokens > remote.pays_from_tokens) == (remote.saved_s > 0)


def test_tiers_are_ordered_by_their_rates() -> None:
    assert offload("host").read_s < offload("nvme").read_s < offload("remote:1,0").read_s


def test_a_draft_has_a_cache_to_keep_too() -> None:
    assert offload("host").draft_share == pytest.approx(1 / 62, rel=0.05)
    assert offload("host", gamma=0).draft_share == 0.0


def test_a_session_reads_its_earlier_turns() -> None:
    turned = offload("host", prefix_len=None, turns=4, turn_input_len=1000)
    assert turned.tokens > 16000


def test_with_two_pools_the_tier_is_that_of_a_prefill_instance() -> None:
    layout = {"tp": 1, "prefill": "2x8:dp8,ep8", "decode": "1x16"}
    assert offload("host", **layout) == offload("host", tp=8, dp=8, ep=8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_offload": "c2c"}, "hardware/kv_tiers.yaml has no c2c of h200-sxm-141gb"),
        ({"kv_offload": "tape"}, "kv_offload: must be host, c2c, nvme or remote:GB/S,SECONDS"),
        ({"kv_offload": "host", "prefix_len": None}, "kv_offload: needs prefix_len or turns"),
    ],
)
def test_a_missing_tier_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        pm.traffic(**ASKED | changes)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("first", "answer", "turns", "kept"), [(20, 44, 2, 64), (1000, 100, 3, (1100 + 1500) / 2)]
)
def test_a_further_turn_finds_the_context_of_the_one_before(
    first: int, answer: int, turns: int, kept: float
) -> None:
    session = {"turns": turns, "turn_input_len": 300, "input_len": first, "output_len": answer}
    assert offload("host", prefix_len=None, **session).tokens == pytest.approx(kept)


def test_the_memory_of_the_host_has_several_words() -> None:
    assert parse_tier("cpu", "--kv-offload") == parse_tier("DRAM", "--kv-offload") == "host"


def test_the_sentence_says_whether_reading_pays_and_from_where_on() -> None:
    fast = offload("host")
    assert " pays off (" in fast.sentence
    assert fast.sentence.endswith("it pays off from 1 tokens on")
    slow = offload("remote:0.01,1.7")
    assert slow.saved_s < 0
    assert " does not pay off (" in slow.sentence
    assert slow.sentence.endswith("it pays off at no length")


@pytest.mark.parametrize(("start_s", "first"), [(0.0, 1), (0.5, 6), (1.0, 11)])
def test_the_shortest_prefix_that_pays_is_a_whole_number_of_tokens(start_s: float, first: int) -> None:
    """A read takes its start and no time per token, and computing takes 0.1 s per token."""
    start_s += 0.05

    def found(most: int) -> int | None:
        return _crossing(lambda tokens: start_s, lambda tokens: 0.1 * tokens, most)

    assert found(100) == found(first) == first
    if first > 1:
        assert found(first - 1) is None
