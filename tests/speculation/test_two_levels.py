"""Two levels: the renewal recursion by hand, one iteration from its passes, and the memory of both drafts."""

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.speculation import Acceptance, Scenario, memory_of, tokens_per_iteration
from perfmodel.speculation.two_levels import best_two_levels, inner_rounds, memory_of_both, predict_two_levels

ASK = Query("llama-3.1-8b", "a100", 4, 65536, draft="self", draft_kv="streamingllm:2048", alpha=0.9)
CONTEXT = 65536.0


def levels() -> tuple[Scenario, Scenario]:
    small = Query(
        "llama-3.1-8b", "a100", 4, 65536, draft="llama-3.2-1b", draft_kv="streamingllm:256", alpha=0.5
    )
    return resolve(small), resolve(ASK)


def test_rounds_by_hand() -> None:
    """gamma_1 = 3, alpha_1 = .8, gamma_2 = 4: a round gains 1, 2, 3, 4 tokens with .2, .16, .128, .512.

    E4 = 1 + .2 E3 + .16 E2 + .128 E1 with E1 = 1, E2 = 1.2, E3 = 1 + .2 x 1.2 + .16 = 1.4: 1.60 rounds, where
    ceil(4 / 2.952) says 2.
    """
    rounds = inner_rounds(Acceptance.from_alpha(0.8), 3, 4)
    expected = 1 + 0.2 * 1.4 + 0.16 * 1.2 + 0.128 * 1
    assert rounds.expected == pytest.approx(expected, rel=1e-12)
    assert rounds.expected == pytest.approx(1.60, abs=1e-12)
    assert rounds.drafted.sum() == pytest.approx(1.0, rel=1e-12)
    assert rounds.drafted @ np.arange(4, 8) == pytest.approx(1.6 * 2.952, rel=1e-12)  # Wald's identity


def test_one_iteration_from_its_passes() -> None:
    """gamma_1 = gamma_2 = 1: one round of a small pass and a sparse pass over two tokens; m is 1 or 2."""
    small, middle = levels()
    prediction = predict_two_levels(small, middle, 4.0, CONTEXT, 1, 1)
    assert prediction.rounds == pytest.approx(1.0)
    c = middle.machine.calibration
    end = c.iteration_fixed_s.value + c.iteration_sequence_s.value * 4
    drafting = float(small.draft_pass_s(4.0, CONTEXT)) + float(middle.draft_pass_s(4.0, CONTEXT, 2.0)) + end
    verify = np.mean([float(middle.target_pass_s(4.0, CONTEXT, tokens)) for tokens in (2.0, 3.0)])
    gained = np.mean([float(tokens_per_iteration(m, 0.9)) for m in (1, 2)])
    total = drafting + verify + float(middle.overhead_s(4.0, CONTEXT))
    assert prediction.tpot_s == pytest.approx(total / gained, rel=1e-12)
    expected = float(middle.target_pass_s(4.0, CONTEXT)) * gained / total
    assert prediction.speedup == pytest.approx(expected, rel=1e-12)


def test_memory_holds_both_drafts() -> None:
    small, middle = levels()
    both = memory_of_both(small, middle, 4.0, CONTEXT, 9, 0.9)
    lower = memory_of(small, 4.0, CONTEXT, 9, 0.9)
    upper = memory_of(middle, 4.0, CONTEXT, 9, 0.9)
    assert both.draft_weight_bytes == lower.draft_weight_bytes > 0
    assert both.draft_kv_bytes == pytest.approx(lower.draft_kv_bytes + upper.draft_kv_bytes)
    assert memory_of_both(small, middle, float(both.max_batch), CONTEXT, 9, 0.9).fits
    assert not memory_of_both(small, middle, float(both.max_batch) + 1, CONTEXT, 9, 0.9).fits


def test_the_best_pair_is_the_fastest() -> None:
    small, middle = levels()
    best = best_two_levels(small, middle, 4.0, CONTEXT, [1, 3], [2, 5])
    pairs = [(one, two) for one in (1, 3) for two in (2, 5)]
    speedups = [predict_two_levels(small, middle, 4.0, CONTEXT, *pair).speedup for pair in pairs]
    assert best.speedup == max(speedups)
    with pytest.raises(InputError, match="gamma-1: must be a whole number from 1 to"):
        best_two_levels(small, middle, 4.0, CONTEXT, [0], [2])


def test_lengths_that_are_not_given_are_searched_from_one() -> None:
    """A middle draft that is rejected always is worth one token at most."""
    small, middle = levels()
    rejected = middle.with_acceptance(Acceptance.from_alpha(0.0))
    assert best_two_levels(small, rejected, 4.0, CONTEXT, [1], None).gamma_2 == 1


def test_the_search_ends_where_the_acceptance_is_known() -> None:
    small, middle = levels()
    known = middle.with_acceptance(Acceptance.from_positions((0.99, 0.99, 0.99)))
    for ones in (None, [1]):
        best = best_two_levels(small, known, 4.0, CONTEXT, ones, None)
        assert best.gamma_1 + best.gamma_2 <= 3


def test_the_verb_has_the_best_pair() -> None:
    answer = pm.hierarchy(
        "llama-3.1-8b",
        "a100",
        4,
        65536,
        draft_kv="streamingllm:2048",
        alpha=0.9,
        small="llama-3.2-1b",
        small_rate=0.5,
    )
    best = best_two_levels(*levels(), 4.0, CONTEXT, None, None)
    assert answer.gamma_1 == best.gamma_1
    assert answer.gamma_2 == best.gamma_2
    assert answer.speedup == pytest.approx(best.speedup)


def test_lengths_up_to_six_and_twelve_are_tried() -> None:
    """Almost every token is accepted, so longer drafts are always faster."""
    small, middle = levels()
    sure = Acceptance.from_alpha(0.9999)
    best = best_two_levels(
        small.with_acceptance(sure), middle.with_acceptance(sure), 4.0, CONTEXT, None, None
    )
    assert (best.gamma_1, best.gamma_2) == (6, 12)


def test_each_group_holds_whole_sequences_of_both_drafts() -> None:
    """Two data-parallel groups hold an even number of sequences, although their pools have room for half a
    sequence more each.
    """
    parts = {"model": "qwen3-30b-a3b", "hardware": "h200", "tp": 2, "dp": 2, "alpha": 0.5}
    small = resolve(Query(batch=4, context=24_000, draft="qwen3-0.6b", **parts))
    middle = resolve(Query(batch=4, context=24_000, draft="self", draft_kv="snapkv:512", **parts))
    both = memory_of_both(small, middle, 4.0, 24_000.0, 9, 0.9)
    per_group = both.pool_bytes / both.sequence_bytes
    assert per_group % 1 > 0.5
    assert both.max_batch == 2 * int(per_group)
