"""Two levels: the renewal recursion by hand, one level as its limit, and TriForce's published order."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.speculation import Acceptance, memory_of, speedups, tokens_per_iteration
from perfmodel.speculation.two_levels import best_two_levels, inner_rounds, memory_of_both, predict_two_levels
from tests.speculation import asked

scenario = partial(asked.scenario, model="llama-2-7b-32k")


def levels(inner: float = 0.5, outer: float = 0.92, **flags):
    small = scenario(draft="llama-68m", draft_kv="streamingllm:256", alpha=inner, **flags)
    return small, scenario(draft_kv="retrieval:4096,every=1000", alpha=outer, **flags)


def test_rounds_by_hand() -> None:
    """gamma_1 = 3, alpha_1 = .8, gamma_2 = 4: a round gains 1, 2, 3, 4 tokens with .2, .16, .128, .512.

    E4 = 1 + .2 E3 + .16 E2 + .128 E1 with E1 = 1, E2 = 1.2, E3 = 1 + .2 x 1.2 + .16 = 1.4: 1.60;
    ceil(4/2.952) says 2.
    """
    found = inner_rounds(Acceptance.from_alpha(0.8), 3, 4)
    assert found.expected == pytest.approx(1 + 0.2 * 1.4 + 0.16 * 1.2 + 0.128, rel=1e-12)
    assert found.expected == pytest.approx(1.60, abs=1e-12)
    assert found.drafted.sum() == pytest.approx(1.0, rel=1e-12)
    assert found.drafted @ np.arange(4, 8) == pytest.approx(1.6 * 2.952, rel=1e-12)  # Wald


def test_one_iteration_from_its_parts() -> None:
    """gamma_1 = 1, gamma_2 = 1: a round of one small token and two sparse ones; m is 1 or 2. Both have an
    end.
    """
    small, sparse = levels(0.5, 0.9)
    p = predict_two_levels(small, sparse, 1.0, 65536.0, 1, 1)
    assert p.rounds == pytest.approx(1.0)
    drafting = float(small.draft_pass_s(1.0, 65536.0)) + float(sparse.draft_pass_s(1.0, 65536.0, 2.0))
    verify = 0.5 * float(sparse.target_pass_s(1.0, 65536.0, 2.0)) + 0.5 * float(
        sparse.target_pass_s(1.0, 65536.0, 3.0)
    )
    gained = 0.5 * float(tokens_per_iteration(1, 0.9)) + 0.5 * float(tokens_per_iteration(2, 0.9))
    end = sparse.machine.calibration.iteration_fixed_s.value
    total = drafting + end + verify + float(sparse.overhead_s(1.0, 65536.0))
    assert float(p.speedup) == pytest.approx(
        gained * float(sparse.target_pass_s(1.0, 65536.0)) / total, rel=1e-12
    )


def test_memory_holds_both_drafts() -> None:
    small, sparse = levels(batch=4, context=65536)
    both = memory_of_both(small, sparse, 4.0, 65536.0, 9, 0.9)
    middle, inner = (memory_of(level, 4.0, 65536.0, 9, 0.9) for level in (sparse, small))
    assert both.draft_weight_bytes == inner.draft_weight_bytes > 0
    assert both.draft_kv_bytes == middle.draft_kv_bytes + inner.draft_kv_bytes
    room = 0.9 * 80e9 - both.weight_bytes - both.draft_weight_bytes
    each = (both.kv_bytes + both.draft_kv_bytes) / 4  # of one sequence
    assert both.max_batch == np.floor(room / each) >= 1
    assert memory_of_both(small, sparse, float(both.max_batch), 65536.0, 9, 0.9).fits
    assert not memory_of_both(small, sparse, float(both.max_batch) + 1, 65536.0, 9, 0.9).fits


def test_the_published_order_of_configurations() -> None:
    """TriForce Table 2 (one A100, 122 K): hierarchy 2.31 > no hierarchy 1.80 > naive small draft 1.56. A
    shape, no fit: the paper does not print gamma_1 or the naive gamma, so that every plausible one must keep
    the order.
    """
    context, split = (
        122 * 1024.0,
        {"attention_backend": "flashinfer"},
    )  # its kernels cut the cache up to verify
    naive = scenario(draft="llama-68m", draft_kv="streamingllm:1024", alpha=0.4649, **split)
    small, sparse = levels(0.4649, 0.9126, **split)
    alone = float(speedups(sparse, 1.0, context, np.array([6]))[..., 0])
    for gamma_1 in (1, 2, 3):
        both = float(predict_two_levels(small, sparse, 1.0, context, gamma_1, 6).speedup)
        assert both > alone > float(speedups(naive, 1.0, context, np.array([gamma_1]))[..., 0]) > 1


@pytest.mark.parametrize(
    ("ones", "twos", "known", "tried"),
    [
        (None, None, None, {(g1, g2) for g1 in range(1, 7) for g2 in range(1, 13)}),
        (None, None, 4, {(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)}),
        ([3, 2], None, 4, {(3, 1), (2, 1), (2, 2)}),
        (None, [3], 4, {(1, 3)}),
        ([2, 4], [1, 5], None, {(2, 1), (2, 5), (4, 1), (4, 5)}),
        ([5], None, 4, "at most 4"),  # no length fits beside it, which is said
        ([2], [2, 5], 4, "at most 4"),  # what is given is not left out
    ],
)
def test_the_best_pair_is_the_best_of_those_that_may_be_tried(ones, twos, known, tried) -> None:
    small, sparse = levels()
    if known:
        sparse = replace(sparse, acceptance=Acceptance.from_positions((0.92,) * known))
    if isinstance(tried, str):
        with pytest.raises(InputError, match=tried):
            best_two_levels(small, sparse, 1.0, 65536.0, ones, twos)
        return
    found = best_two_levels(small, sparse, 1.0, 65536.0, ones, twos)
    fastest = max(float(predict_two_levels(small, sparse, 1.0, 65536.0, *pair).speedup) for pair in tried)
    assert (found.gamma_1, found.gamma_2) in tried
    assert float(found.speedup) == fastest
