"""A drafter on devices of its own: the hit rate at its ends, memory, refusals; its times are pinned."""

import pytest

import perfmodel as pm
from perfmodel.errors import InputError

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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"draft": "eagle3"}, "nothing of the target (hidden states, cache, host), given 'eagle3'"),
        ({"draft": "ngram"}, "a separate model"),
        ({"draft_devices": 0}, "draft_devices: must be a whole number from 1 to 64"),
        ({"outcomes": 65}, "outcomes: must be a whole number from 1 to 64"),
        ({"hit": 1.5}, "hit: must be"),
        ({"draft_hardware": None, "hit": 0.5}, "hit: needs draft_hardware"),
        ({"hit": None, "outcomes": 2}, "outcomes: needs hit"),
        ({"draft_hardware": None, "draft_devices": 2}, "draft_devices: needs draft_hardware"),
        ({"draft_hardware": "nope"}, "draft_hardware: no device named 'nope'"),
        ({"draft_devices": 3}, "draft_devices: must divide the"),
    ],
)
def test_refusals(more: dict, message: str) -> None:
    with pytest.raises(InputError) as refused:
        compare(**more)
    assert message in str(refused.value)
