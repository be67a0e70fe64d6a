"""Trees: Sequoia's golden values, brute force over every small tree, the chain, cost and the best tree."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.speculation import speedups, with_calibration, with_values
from perfmodel.speculation.tree import Growth, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_cost import (
    ServerShape,
    as_given,
    choose,
    first_order_size,
    iteration_s,
    levels_within,
    speedup,
    surface,
)
from tests.refusals import refused
from tests.speculation import scenarios

SEQUOIA = (
    0.63418, 0.10795, 0.05697, 0.02249, 0.01949, 0.01499, 0.0045, 0.003, 0.01199, 0.0045, 0.0075, 0.0045,
    0.006, 0.003, 0.0015, 0.003, 0.0015, 0.003,
)  # fmt: skip
GOLDEN = {
    (4, 4): 2.2914,
    (8, 6): 2.7322,
    (16, 8): 3.1303,
    (32, 8): 3.4896,
    (64, 6): 3.7017,
    (64, 10): 3.8523,
    (128, 6): 3.9577,
    (128, 8): 4.1512,
    (128, 10): 4.1921,
}


scenario = partial(scenarios.scenario, hardware="h100-sxm-80gb", alpha=0.7, draft="llama-3.2-1b")


@pytest.fixture(scope="module")
def recovered() -> Growth:
    return Growth(TreeAcceptance.of(SEQUOIA, "arXiv 2402.12374, released vector"), 128, 10)


@pytest.mark.parametrize(("size", "levels"), GOLDEN)
def test_the_recovered_tree_is_worth_its_value(recovered: Growth, size: int, levels: int) -> None:
    """As printed; and the tree that is handed out, weighed node by node from the definition."""
    tokens = recovered.tokens[levels - 1, size - 1]
    assert tokens == pytest.approx(GOLDEN[size, levels], abs=1e-4)
    tree = recovered.best(size, levels)
    assert tree.size <= size
    assert tree.levels <= levels
    assert sum(tree.widths) == tree.size
    widths = recovered.widths[levels - 1, size - 1]
    assert tree.widths == tuple(width for width in widths if width)
    weighed = expected_tokens(tree.parents, recovered.acceptance)
    assert weighed == pytest.approx(tree.tokens_per_iteration, rel=1e-12)


def _every_tree(size: int, levels: int):
    """Parents of every tree with `size` nodes, parents before children, at most `levels` levels."""
    for parents in itertools.product(*(range(i) for i in range(1, size))):
        depth = [1]
        for parent in parents:
            depth.append(depth[parent] + 1)
        if max(depth) <= levels:
            yield (-1, *parents)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=3), st.integers(1, 6), st.integers(1, 4))
def test_no_tree_is_better(rates: list[float], size: int, levels: int) -> None:
    """Brute force over every tree, also with rates that rise with the rank."""
    acceptance = TreeAcceptance.of(rates)
    trees = (parents for n in range(1, size + 1) for parents in _every_tree(n, levels))
    best = max(expected_tokens(parents, acceptance) for parents in trees)
    grown = Growth(acceptance, size, levels)
    assert grown.tokens[-1, -1] == pytest.approx(best, rel=1e-12)
    tree = grown.best(size, levels)
    assert expected_tokens(tree.parents, acceptance) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("flags", [{}, {"draft": "self", "draft_kv": "snapkv:1024"}, {"draft": "eagle"}])
def test_a_chains_speedup_is_the_chain_engines(flags: dict) -> None:
    s = scenario(**flags)
    batch = np.array([[1.0], [32.0]])
    context = np.array([2048.0, 32768.0])
    for gamma in (1, 4):
        grown = Growth(TreeAcceptance.of([0.7]), gamma + 1, gamma + 1)
        tree = grown.best(gamma + 1, gamma + 1)
        of_the_chain = speedups(s, batch, context, np.array([gamma]))[..., 0]
        np.testing.assert_allclose(speedup(s, batch, context, tree), of_the_chain, rtol=1e-12)


def test_the_surface_prices_the_tree_that_is_recovered() -> None:
    s = scenario()
    table = Growth(TreeAcceptance.of(SEQUOIA), 48, 7)
    priced = surface(s, 4.0, 8192.0, table)
    for size, levels in ((48, 7), (17, 3), (5, 7), (2, 2), (1, 4)):
        tree = table.best(size, levels)
        assert tree.size == size  # no rate is zero, so that every node is used
        of_tree_s = float(iteration_s(s, 4.0, 8192.0, tree))
        of_tree = float(speedup(s, 4.0, 8192.0, tree))
        place = (levels - 1, size - 1)
        assert priced.iteration_s[place] == pytest.approx(of_tree_s, rel=1e-12)
        assert priced.speedup[place] == pytest.approx(of_tree, rel=1e-12)
    assert np.all(priced.speedup[:, 0] == 1.0)
    assert np.all(priced.iteration_s[:, 0] == priced.target_s)


def test_the_choice_beats_every_tree_and_the_rule() -> None:
    s = scenario()
    acceptance = TreeAcceptance.of(SEQUOIA)
    rules = set()
    for batch, context in itertools.product((1.0, 8.0, 64.0), (1024.0, 65536.0)):
        choice = choose(s, acceptance, batch, context, 64, 8)
        speedups_of_trees = surface(s, batch, context, Growth(acceptance, 64, 8)).speedup
        assert choice.speedup == speedups_of_trees.max() >= max(choice.rule_speedup, 1.0)
        assert choice.rule_speedup == speedups_of_trees[:, choice.rule_size - 1].max()
        expected = float(speedup(s, batch, context, choice.tree))
        assert choice.speedup == pytest.approx(expected)
        rate = choice.tree.tokens_per_iteration / choice.iteration_s
        assert rate * choice.target_s == pytest.approx(choice.speedup, rel=1e-12)
        rules.add(choice.rule_size)
    assert len(rules) > 1


def test_a_given_tree_is_priced_as_it_runs() -> None:
    """A chain of three steps as a tree of four tokens; its numbers are those of tests/pinned/tree.txt."""
    s = scenario(draft="eagle3")
    rates = TreeAcceptance.of(SEQUOIA)
    chain = as_given(s, rates, 4.0, 4096.0, ServerShape(3, 1, 4))
    of_first_children = TreeAcceptance.of(SEQUOIA[:1])
    same = Growth(of_first_children, 4, 4).best(4, 4)
    expected_s = float(iteration_s(s, 4.0, 4096.0, same))
    assert chain.iteration_s == pytest.approx(expected_s, rel=1e-12)
    assert chain.tree == same
    assert chain.speedup == pytest.approx(float(speedup(s, 4.0, 4096.0, same)), rel=1e-12)
    refused(
        "at most 7 tokens of 2 steps of 2",
        as_given,
        s,
        TreeAcceptance.of(SEQUOIA),
        4.0,
        4096.0,
        ServerShape(2, 2, 8),
    )


def test_a_server_has_as_many_children_per_node_as_its_steps_have_candidates() -> None:
    """Of four tokens, 1 + 0.4 + 0.3 + 0.4 x 0.4 beats any other tree. A third child would add 0.3."""
    tree = ServerShape(steps=2, candidates=2, verified=4).best_tree(TreeAcceptance.of([0.4, 0.3, 0.3]))
    assert tree.parents == (-1, 0, 0, 1)
    assert tree.tokens_per_iteration == pytest.approx(1.86)


@pytest.mark.parametrize(
    ("draft", "steps", "says"),
    [
        ("mtp:modules=2", 2, None),
        ("mtp:modules=2", 3, "at most 3 with mtp, the root included"),
        ("dflash:block=8", 7, None),
        ("dflash:block=8", 8, "at most 8 with dflash, the root included"),
        ("ngram", 1, "a draft that runs once per level of a tree"),
    ],
)
def test_a_given_tree_has_a_level_below_the_root_per_step_of_the_draft(draft, steps, says) -> None:
    given = scenario(draft=draft), TreeAcceptance.of([0.4]), 1.0, 1024.0, ServerShape(steps, 1, steps + 1)
    if says:
        refused(says, as_given, *given)
    else:
        assert as_given(*given).tree.levels == steps + 1


@pytest.mark.parametrize(("batch", "size"), [(4.0, 73), (8.0, 36), (16.0, 18), (400.0, 1)])
def test_the_rule_verifies_as_many_tokens_as_are_computed_while_the_weights_load(batch, size) -> None:
    """An H100 computes 989e12 / 3.35e12 = 295 tokens with a bf16 weight in the time in which it loads it."""
    assert first_order_size(scenario(calibration="ideal"), batch, 1.0, 300) == size == max(295 // batch, 1)


def test_every_level_but_the_last_chooses_its_children() -> None:
    """Three levels are proposed in two passes; the constant's seconds come on top of each."""
    plain = scenario()
    grown = Growth(TreeAcceptance.of((0.6, 0.2)), 8, 3)
    tree = grown.best(8, 3)
    priced = with_calibration(plain, with_values(plain.machine.calibration, {"tree_level_s": 1e-3}))
    longer_s = iteration_s(priced, 4.0, 8000.0, tree) - iteration_s(plain, 4.0, 8000.0, tree)
    assert longer_s == pytest.approx(2e-3)
    table = Growth(TreeAcceptance.of((0.6, 0.2)), 8, 3)
    total = surface(priced, 4.0, 8000.0, table).iteration_s
    expected_s = iteration_s(priced, 4.0, 8000.0, tree)
    assert total[2, tree.size - 1] == pytest.approx(expected_s)


def test_a_tree_over_a_block_takes_one_draft_pass() -> None:
    """Of as many levels as the block has positions; the search and the definition agree."""
    s = scenario(draft="dflash:block=8")
    rates = TreeAcceptance.of(SEQUOIA)
    choice = choose(s, rates, 4.0, 4096.0, 64)
    once = s.draft_pass_s(4.0, 4096.0, s.draft.query(choice.tree.levels - 1.0))
    verify = s.target_pass_s(4.0, 4096.0, float(choice.tree.size))
    assert 1 < choice.tree.levels <= 8
    expected_s = float(once + verify + s.overhead_s(4.0, 4096.0))
    assert choice.iteration_s == pytest.approx(expected_s, rel=1e-12)
    expected = float(speedup(s, 4.0, 4096.0, choice.tree))
    assert choice.speedup == pytest.approx(expected, rel=1e-12)


def test_levels_are_as_many_as_the_draft_makes_and_twelve_at_most() -> None:
    for draft, most in (
        ("mtp:modules=2", 3),
        ("mtp:modules=10", 11),
        ("mtp:modules=14", 12),
        ("llama-3.2-1b", 12),
    ):
        assert levels_within(scenario(draft=draft), 64, None) == most, draft
    assert levels_within(scenario(), 5, None) == levels_within(scenario(), 64, 5) == 5
    assert levels_within(scenario(draft="ngram"), 64, 1) == 1  # a root alone drafts nothing
