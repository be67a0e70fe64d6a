"""Two levels: the renewal recursion against a simulation, one level as its limit, and TriForce's published order."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.speculation.acceptance import Acceptance, tokens_per_iteration
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.two_levels import inner_rounds, memory_of_both, predict_two_levels


def scenario(**flags):
    asked = {"model": "llama-2-7b-32k", "hardware": "a100-sxm-80gb", "batch": 1, "context": 1}
    return resolve(Query(**(asked | flags)))


def levels(inner: float = 0.5, outer: float = 0.92, **flags):
    small = scenario(draft="llama-68m", draft_kv="streamingllm:256", alpha=inner, **flags)
    return small, scenario(draft_kv="retrieval:4096,every=1000", alpha=outer, **flags)


def test_rounds_by_hand() -> None:
    """gamma_1 = 3, alpha_1 = .8, gamma_2 = 4: a round gains 1, 2, 3, 4 tokens with .2, .16, .128, .512.

    E4 = 1 + .2 E3 + .16 E2 + .128 E1 with E1 = 1, E2 = 1.2, E3 = 1 + .2 x 1.2 + .16 = 1.4: 1.60; ceil(4/2.952) says 2.
    """
    found = inner_rounds(Acceptance.from_alpha(0.8), 3, 4)
    assert found.expected == pytest.approx(1 + 0.2 * 1.4 + 0.16 * 1.2 + 0.128, rel=1e-12)
    assert found.expected == pytest.approx(1.60, abs=1e-12)
    assert found.drafted.sum() == pytest.approx(1.0, rel=1e-12)
    assert found.expected_drafted == pytest.approx(1.6 * 2.952, rel=1e-12)  # Wald


@pytest.mark.parametrize(("gamma_1", "alpha", "gamma_2"), [(1, 0.3, 5), (2, 0.7, 6), (5, 0.9, 3)])
def test_rounds_against_a_simulation(gamma_1: int, alpha: float, gamma_2: int) -> None:
    rng = np.random.default_rng(7)
    runs = 200_000
    have, rounds = np.zeros(runs, int), np.zeros(runs, int)
    while np.any(open_ := have < gamma_2):
        accepted = np.cumprod(rng.random((runs, gamma_1)) < alpha, axis=1).sum(1)
        have += np.where(open_, accepted + 1, 0)
        rounds += open_
    found = inner_rounds(Acceptance.from_alpha(alpha), gamma_1, gamma_2)
    assert found.expected == pytest.approx(rounds.mean(), rel=5e-3)
    assert found.expected_drafted == pytest.approx(have.mean(), rel=5e-3)
    shares = np.bincount(have - gamma_2, minlength=gamma_1 + 1) / runs
    np.testing.assert_allclose(found.drafted, shares, atol=5e-3)


def test_one_iteration_from_its_parts() -> None:
    """gamma_1 = 1, gamma_2 = 1: one round of one small token and two sparse ones; m is 1 or 2."""
    small, sparse = levels(0.5, 0.9)
    p = predict_two_levels(small, sparse, 1.0, 65536.0, 1, 1)
    assert p.rounds == pytest.approx(1.0)
    drafting = float(small.draft_pass_s(1.0, 65536.0)) + float(sparse.draft_pass_s(1.0, 65536.0, 2.0))
    verify = 0.5 * float(sparse.target_pass_s(1.0, 65536.0, 2.0)) + 0.5 * float(sparse.target_pass_s(1.0, 65536.0, 3.0))
    gained = 0.5 * float(tokens_per_iteration(1, 0.9)) + 0.5 * float(tokens_per_iteration(2, 0.9))
    total = drafting + verify + float(sparse.overhead_s(1.0, 65536.0))
    assert float(p.speedup) == pytest.approx(gained * float(sparse.target_pass_s(1.0, 65536.0)) / total, rel=1e-12)


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


def test_a_useless_small_draft_is_worse_than_one_level_and_a_perfect_one_better() -> None:
    batch, context = 1.0, 122 * 1024.0
    small, sparse = levels(0.0)
    one = float(speedups(sparse, batch, context, np.array([6]))[..., 0])
    assert float(predict_two_levels(small, sparse, batch, context, 2, 6).speedup) < one
    perfect = replace(small, acceptance=Acceptance.from_alpha(0.99))
    assert float(predict_two_levels(perfect, sparse, batch, context, 2, 6).speedup) > one


def test_the_published_order_of_configurations() -> None:
    """TriForce Table 2 (one A100, 122 K): hierarchy 2.31 > no hierarchy 1.80 > naive small draft 1.56. A shape, no fit:
    the paper does not print gamma_1 or the naive gamma, so that every plausible one must keep the order.
    """
    context = 122 * 1024.0
    naive = scenario(draft="llama-68m", draft_kv="streamingllm:1024", alpha=0.4649)
    small, sparse = levels(0.4649, 0.9126)
    alone = float(speedups(sparse, 1.0, context, np.array([6]))[..., 0])
    for gamma_1 in (1, 2, 3):
        both = float(predict_two_levels(small, sparse, 1.0, context, gamma_1, 6).speedup)
        assert both > alone > float(speedups(naive, 1.0, context, np.array([gamma_1]))[..., 0]) > 1


def test_grid_equals_loop() -> None:
    small, sparse = levels()
    batch, context = np.array([[1.0], [4.0]]), np.array([8192.0, 65536.0])
    grid = predict_two_levels(small, sparse, batch, context, 2, 4)
    for b in range(2):
        for c in range(2):
            one = predict_two_levels(small, sparse, float(batch[b, 0]), float(context[c]), 2, 4)
            assert np.asarray(grid.speedup)[b, c] == pytest.approx(float(one.speedup), rel=1e-12)


def test_refusals() -> None:
    small, sparse = levels()
    with pytest.raises(InputError, match="--gamma-1"):
        inner_rounds(small.acceptance, 0, 4)
    with pytest.raises(InputError, match="--gamma-2"):
        inner_rounds(small.acceptance, 2, 1000)
    with pytest.raises(InputError, match="must be a self-draft"):
        predict_two_levels(small, small, 1.0, 1024.0, 2, 4)
    with pytest.raises(InputError, match="the same target"):
        predict_two_levels(levels(kv_dtype="fp8")[0], sparse, 1.0, 1024.0, 2, 4)
