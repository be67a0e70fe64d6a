"""A drafter on devices of its own: the hit rate at its ends, and memory; its times are pinned."""

import pytest

import perfmodel as pm

ASKED = {"hardware": "h100", "tp": 4, "context": 8192, "gamma": 5, "draft": "llama-3.2-1b", "alpha": 0.75}


def compare(**more):
    return pm.compare("llama-3.1-70b", **(ASKED | {"draft_hardware": "a100"} | more))


def test_a_hit_rate_never_hurts_and_memory_is_counted_on_both_sides() -> None:
    rates = [compare(hit=hit).apart.while_verifying.tokens_per_s for hit in (0.0, 0.5, 1.0)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(compare().apart.before.tokens_per_s)
    assert compare().apart.while_verifying is None
    assert compare(draft_hardware="rtx-3060").apart.before.batch < compare().apart.before.batch
    assert compare(draft="llama-3.1-8b", draft_hardware="rtx-3060").apart.before is None


def test_the_throughput_is_of_all_devices_and_the_time_per_token_of_one_replica() -> None:
    apart = compare(hit=0.5).apart
    replicas = 1 + apart.draft_devices / 4
    for use in (apart.replicas, apart.together):
        assert use.tokens_per_s * use.tpot_s == pytest.approx(replicas * use.batch)
    for use in (apart.before, apart.while_verifying):
        assert use.tokens_per_s * use.tpot_s == pytest.approx(use.batch)
    assert apart.replicas.gamma == 0


def test_a_separate_drafter_leaves_the_target_no_more_room_than_its_devices_have() -> None:
    long = {"context": 65536, "tp": 4}
    room = pm.whatif("llama-3.1-70b", "h100", 1, gamma=0, **long).memory.max_batch
    assert compare(**long).apart.before.batch <= room


def test_a_draft_of_several_outcomes_takes_longer() -> None:
    one, many = (compare(hit=0.5, outcomes=outcomes).apart for outcomes in (1, 64))
    assert many.before.tokens_per_s < one.before.tokens_per_s
