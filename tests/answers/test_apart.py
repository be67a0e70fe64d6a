"""A drafter on devices of its own: times by hand, the hit rate at its ends, memory, refusals."""

import pytest

import perfmodel as pm
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError

ASKED = {"hardware": "h100", "tp": 4, "context": 8192, "gamma": 5, "draft": "llama-3.2-1b", "alpha": 0.75}


def compare(**more):
    return pm.compare("llama-3.1-70b", **(ASKED | {"draft_hardware": "a100"} | more))


def test_an_iteration_by_hand() -> None:
    """Batch and gamma that are chosen, timed from passes; replicas are 5/4 of the group's throughput."""
    for hit, outcomes in ((None, 1), (1.0, 3), (0.0, 3), (0.6, 2)):
        found = compare(hit=hit, outcomes=outcomes)
        apart = found.apart
        best = apart.before if hit is None else apart.while_verifying
        near, far = (
            resolve(
                Query("llama-3.1-70b", name, 1, 8192, tp=tp, draft_tp=1, draft="llama-3.2-1b", alpha=0.75)
            )
            for name, tp in (("h100", 4), ("a100", 1))
        )
        draft_s = best.gamma * float(far.draft_pass_s(best.batch, 8192.0, float(outcomes)))
        verify_s = float(near.target_pass_s(best.batch, 8192.0, best.gamma + 1.0))
        verify_s += float(near.overhead_s(best.batch, 8192.0))
        share = hit or 0.0
        iteration = share * max(draft_s, verify_s) + (1 - share) * (draft_s + verify_s)
        gained = float(near.acceptance.tokens_per_iteration(best.gamma))
        assert best.tpot_s == pytest.approx(iteration / gained, rel=1e-9)
        assert best.tokens_per_s == pytest.approx(best.batch / best.tpot_s, rel=1e-12)
        alone = pm.whatif("llama-3.1-70b", "h100", apart.replicas.batch, 8192, 0, tp=4)
        assert apart.replicas.tokens_per_s == pytest.approx(
            1.25 * alone.ar_throughput_tokens_per_s, rel=1e-12
        )


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
