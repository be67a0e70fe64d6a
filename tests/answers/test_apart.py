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
