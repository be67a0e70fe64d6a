"""Trees in `advise`: their figures are those of `tree`, and they are weighed where the engine has them."""

from dataclasses import replace
from typing import Any

import pytest

from perfmodel import cli
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.tree_drafts import shapes_to_search
from perfmodel.answers.trees.tree import tree
from tests.refusals import refused

RATES = "0.7,0.12,0.05,0.03"
QUESTION: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "hardware": "h100",
    "engine": "sglang",
    "context": 8192,
    "tree_rate": {"eagle3": RATES},
}


@pytest.mark.parametrize(
    ("objective", "batch", "wins"), [("latency", (1,), True), ("throughput", None, False)]
)
def test_the_best_tree_costs_what_tree_says(objective: str, batch: Any, wins: bool) -> None:
    """The same time, tokens and speedup; and no shape of the search is better by the objective."""
    answer = advise(**QUESTION, objective=objective, batch=batch)
    best = answer.trees[0]
    assert (best.wins, best.over_choice > 1) == (wins, wins)
    common = {key: QUESTION[key] for key in ("model", "hardware", "engine", "context")}
    common |= {"rates": RATES, "draft": "eagle3"}
    shape = f"{best.steps}x{best.candidates}x{best.verified_tokens}"
    same = tree(**common, batch=best.batch, given=shape)
    assert best.tpot_s == pytest.approx(same.tpot_s, rel=1e-12)
    assert best.speedup == pytest.approx(same.speedup, rel=1e-12)
    assert best.tokens_per_iteration == pytest.approx(same.tokens_per_iteration, rel=1e-12)
    if objective == "latency":
        assert best.over_choice == pytest.approx(answer.chosen.tpot_s / best.tpot_s)
        others = [tree(**common, batch=1, given=f"{steps}x4x16").tpot_s for steps in (3, 4, 5)]
        assert best.tpot_s <= min(others)
    else:
        per_gpu = answer.chosen.throughput_tokens_per_s_per_device
        assert best.over_choice == pytest.approx(best.throughput_tokens_per_s / per_gpu)


def test_a_tree_wins_while_few_sequences_run() -> None:
    best = advise(**QUESTION, batch=(1, 4, 16, 256)).trees[0]
    assert best.best_at is not None
    assert (best.best_at[0], best.best_at[1] < 256) == (1, True)
    assert advise(**QUESTION | {"tree_rate": {"eagle3": "0.7"}}, batch=(1,)).trees[0].over_choice < 1


@pytest.mark.parametrize("drafts", [("eagle3", "eagle"), ("eagle", "eagle3")])
def test_the_best_draft_comes_first(drafts: tuple[str, ...]) -> None:
    rates = {"eagle3": RATES, "eagle": "0.45,0.1"}
    asked = {draft: rates[draft] for draft in drafts}
    trees = advise(**QUESTION | {"tree_rate": asked}, batch=(1,), objective="latency").trees
    assert [tree.draft for tree in trees] == ["eagle3", "eagle"]
    assert trees[0].tpot_s < trees[1].tpot_s


def test_a_chain_has_the_rate_of_a_first_child_or_its_own() -> None:
    assert advise(**QUESTION, batch=(1,)).robustness.alpha == pytest.approx(0.7)
    stated = advise(**QUESTION, rate={"eagle3": "0.6"}, batch=(1,))
    assert stated.robustness.alpha == pytest.approx(0.6)
    assert stated.trees[0].tpot_s == advise(**QUESTION, batch=(1,)).trees[0].tpot_s


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine": "vllm"}, "trees of eagle3: vLLM verifies chains only"),
        ({"engine": "sglang@0.4.5"}, "SGLang >= 0.4.6, not in 0.4.5"),
        ({"tree_rate": {"ngram": RATES}}, "trees of ngram: SGLang verifies chains only"),
        ({"max_tpot_ms": 0.01, "rate": {"eagle3": "0.7"}}, "no shape fits, or meets the bound"),
    ],
)
def test_trees_that_the_engine_does_not_run_are_named(changes: dict[str, Any], reason: str) -> None:
    answer = advise(**QUESTION | changes, batch=(1,))
    assert answer.trees == ()
    assert [reason in skip.reason for skip in answer.trees_skipped] == [True]


def test_a_tree_that_alone_keeps_the_bound_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """No chain and no baseline is as fast as the bound, but a tree is; the command line succeeds."""
    fastest = advise(**QUESTION, batch=(1,), objective="latency")
    between_ms = 1e3 * (fastest.chosen.tpot_s + fastest.trees[0].tpot_s) / 2
    bounded = advise(**QUESTION, batch=(1,), max_tpot_ms=between_ms)
    assert bounded.verdict == "infeasible"
    assert not bounded.failed
    assert "the lowest TPOT without a tree is" in bounded.reason
    assert bounded.trees[0].tpot_s == fastest.trees[0].tpot_s
    assert bounded.trees[0].over_choice is None
    words = "advise -m llama-3.1-8b --gpu h100 --engine sglang --context 8k --batch 1"
    bound = ["--tree-rate", f"eagle3={RATES}", "--max-tpot-ms", str(between_ms)]
    assert cli.run((*words.split(), *bound)) == 0
    printed = capsys.readouterr().out
    assert "Only a tree is feasible" in printed
    assert "A tree meets the bound: eagle3" in printed
    assert cli.run((*words.split(), *bound[:-1], "0.1")) == 1


def test_a_tree_that_is_as_good_as_the_choice_does_not_win() -> None:
    best = advise(**QUESTION, batch=(1,)).trees[0]
    assert best.wins
    assert not best.close
    for over_choice, close, wins in ((0.974, False, False), (1.024, True, False), (1.026, False, True)):
        near = replace(best, over_choice=over_choice)
        assert (near.close, near.wins) == (close, wins)


def test_a_search_has_trees_and_no_chains() -> None:
    shapes = list(shapes_to_search(4))
    assert all(shape.steps + 1 < shape.verified <= shape.proposed for shape in shapes)
    assert {shape.candidates for shape in shapes} == {2, 4, 8}


def test_what_is_printed_and_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = "advise -m llama-3.1-8b --gpu h100 --engine sglang --context 8k --batch 1 --objective latency"
    assert cli.run((*words.split(), "--tree-rate", f"eagle3={RATES}")) == 0
    printed = capsys.readouterr().out
    assert "A tree wins" in printed
    assert "--speculative-eagle-topk" in printed
    assert "The times of trees have no interval." in printed
    wrong = {
        "eagle3=0.7,0.6": "tree_rate eagle3: .* at most 1 in sum",
        "0.7": "tree_rate: must be DRAFT=RATE",
    }
    for rates, says in wrong.items():
        refused(says, advise, **QUESTION | {"tree_rate": [rates]})
    refused("tree_rate", advise, **QUESTION, request_rate=2, input_len=100, output_len=100)
