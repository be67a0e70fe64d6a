"""Rules of the engines that choose what is drafted and verified."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.policies import Replica, confidence, policies
from perfmodel.queueing.policies.confidence import expected
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import prompt_times

ASKED = {"model": "qwen3-8b", "hardware": "h100", "input_len": 1000, "output_len": 500, "draft": "eagle3"}


@pytest.mark.parametrize(
    ("alpha", "table"),
    [
        (0.15, [(1, 1), (8, 0)]),
        (0.3, [(1, 3), (8, 0)]),
        (0.85, [(1, 3), (32, 1), (64, 0)]),
        (0.97, [(1, 7), (8, 3), (32, 1), (64, 0)]),
    ],
)
def test_adaptive_steps_settle_by_accepted_tokens_and_running_requests(alpha, table) -> None:
    """From 3 steps, of which 0.18, 0.42, 2.19 and 2.83 are accepted: up above 2.5 (and 4.5 of 5 steps), down
    at 0.25 below 8 requests and at 0.5 from there, to 1 step and then to none.
    """
    answer = pm.traffic(**ASKED, alpha=alpha, request_rate=1, gamma="adaptive")
    (limits,) = answer.drafts
    assert [(first, tokens) for first, _, tokens in limits.table] == table


def test_a_table_is_made_for_at_most_95_percent_of_the_lowest_saturation_rate() -> None:
    lengths, limits = Lengths(1000, 101), Limits()
    one = StepTimes(0, 1.0, np.array([0.1]), np.array([0.1]), 1, 0.0)
    passes = {0: one, 3: replace(one, gamma=3, tokens_per_iteration=2.0)}
    saturated = min(capacity(each, lengths, limits).requests_per_s for each in passes.values())
    anything: Any = None
    for load, rate in (
        (Load(lengths, clients=np.array([4.0])), 0.95 * saturated),
        (Load(lengths, rate=np.array([0.1, 2.0]) * saturated), 0.95 * saturated),
        (Load(lengths, rate=np.array([0.1, 0.5]) * saturated), 0.5 * saturated),
    ):
        replica = Replica(anything, limits, load, passes, 0.0)
        assert replica.sustained(passes) == pytest.approx(rate)


def test_a_table_that_ends_without_drafts_has_the_first_token_of_the_length_that_runs() -> None:
    def first_drafting(gamma: int | str) -> TrafficRow:
        rows = pm.traffic(**ASKED, alpha=0.6, request_rate="1,40", gamma=gamma).rows
        return next(row for row in rows if row.gamma)

    alone = first_drafting(3)
    table = first_drafting("adaptive")
    assert table.ttft_s.mean == pytest.approx(alone.ttft_s.mean, rel=1e-3)


def test_a_table_computes_again_what_its_draft_loses_as_far_as_prompts_still_hit() -> None:
    """Of 100 tokens at 90 % hits a draft adds 100, and at 45 % half as many to 500."""
    steps = StepTimes(0, 1.0, np.ones(2), np.ones(2), 2, 0.1)
    cached = SimpleNamespace
    read = np.array([100.0, 500.0])
    plain: Any = cached(read=read, hit_rate=np.array([0.9, 0.45]))
    drafted: Any = cached(read=np.array([200.0, 50.0]))
    priced = [replace(steps, cached=plain), replace(steps, gamma=3, cached=drafted)]
    np.testing.assert_allclose(prompt_times(priced, 2), [[2.0, 1.0], [1.1, 1.0]])


def test_a_budget_takes_the_surest_tokens() -> None:
    """Half of the first tokens and a quarter of the second are accepted; a draft that is surer of some
    requests than of others gains more from part of its tokens, and from all of them as much.
    """
    steps = StepTimes(2, 1.75, np.ones(1), np.ones(1), 1, 0.1)
    verified = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    alike = expected(steps, verified, 0.0)
    np.testing.assert_allclose(alike, [1.0, 1.25, 1.5, 1.625, 1.75])
    surer = expected(steps, verified, 0.3)
    np.testing.assert_allclose(surer[[0, -1]], [1.0, 1.75])
    inner = slice(1, -1)
    assert (surer[inner] > alike[inner] + 0.01).all()
    by_position = replace(steps, tokens_per_iteration=2.4, survival=np.array([1.0, 0.8, 0.6]))
    gained = expected(by_position, verified, 0.0)
    np.testing.assert_allclose(gained, [1.0, 1.4, 1.8, 2.1, 2.4])


def test_a_confidence_budget_gains_at_large_batches_where_confidence_differs() -> None:
    """Against one length that is verified in full; closed form and replay."""
    gains = []
    for std in (0.0, 0.3):
        question = {**ASKED, "alpha": 0.6, "acceptance_std": std, "request_rate": 11, "max_gamma": 3}
        question |= {"gamma": "confidence", "num_prompts": 4000, "input_len": 500}
        answer = pm.traffic(**question, closed_form=True)
        simulated = pm.traffic(**question, replay=True)
        predicted, met = ({row.gamma: row.tpot_s.mean for row in each.rows} for each in (answer, simulated))
        assert predicted["confidence"] == pytest.approx(met["confidence"], rel=0.04)
        gains.append(predicted[0] / predicted["confidence"])
        of_the_best = answer.drafts[0].over_best_fixed[0]
        assert of_the_best <= gains[-1] * (1 + 1e-9)
    assert gains[1] > gains[0] + 0.01


@pytest.mark.parametrize("clients", [63, 65, 80])
def test_clients_around_the_last_step_are_served_as_by_the_replay(clients) -> None:
    """Drafts stop at 64 requests: fewer are served than among 63. The number that decode varies."""
    question = {"output_std": 150, "draft": "eagle3", "alpha": 0.85, "engine": "sglang", "gamma": "adaptive"}
    question["max_num_seqs"] = 256
    load = ("mistral-small-3.2-24b", "h100", 100, 300)
    predicted = pm.traffic(*load, max_concurrency=clients, **question, closed_form=True).rows[1]
    met = pm.traffic(*load, max_concurrency=clients, **question, replay=True).rows[1]
    assert predicted.tpot_s.mean == pytest.approx(met.tpot_s.mean, rel=0.05)
    assert predicted.requests_per_s == pytest.approx(met.requests_per_s, rel=0.04)
    assert (Doubt.CHANGING_LENGTH in predicted.doubts) == (clients == 65)


def test_the_profiled_table_is_one_of_prompts_of_8k() -> None:
    assert policies()["profiled"].help.endswith("for 8K prompts")


def test_the_confidence_budget_drafts_the_number_with_the_lowest_tpot_over_all_loads(monkeypatch) -> None:
    """By the geometric mean, in which half the time at one load outweighs 1.9 times the time at another."""
    tpot_s = {"short": [1.0, 1.0], "long": [0.5, 1.9], "longest": [0.5, 2.1]}
    made = [SimpleNamespace(steps=name) for name in tpot_s]
    monkeypatch.setattr(confidence, "mean_tpot_s", lambda steps, load, limits: np.array(tpot_s[steps]))
    monkeypatch.setattr(confidence.Confidence, "_candidates", lambda self, replica: iter(made))
    (choice,) = confidence.Confidence().choices(SimpleNamespace(load=None, limits=None))
    assert choice.steps == "long"


def test_the_profiled_table_is_the_same_for_prompts_of_any_length() -> None:
    """The benchmark has prompts of one length. Those of the question are shorter, or vary."""

    def table(**lengths: int) -> tuple[tuple[int, int, int], ...]:
        question: dict[str, Any] = ASKED | {"alpha": 0.8, "request_rate": 4, "gamma": "profiled"} | lengths
        return pm.traffic(**question, max_num_seqs=64).drafts[0].table

    usual = table()
    assert len(usual) > 1
    assert table(input_len=4000) == usual
    assert table(input_len=4000, input_std=2300) == usual


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_confidence_budget_is_a_number_of_quarters_of_a_token_per_request(quarters: int) -> None:
    """A pass that verifies a fifth of a token more takes 0.9 s longer. Half of the drafted tokens are
    accepted. An iteration that verifies all of them takes 1.2 s.
    """

    def pass_s(batches, context, tokens):
        return np.where(tokens > 1.2 + quarters / 4, 1.0, 0.1) * np.ones_like(batches)

    scenario: Any = SimpleNamespace(with_context_std=lambda std: scenario, target_pass_s=pass_s)
    lengths = Lengths(100.0, 101.0)
    steps = StepTimes(1, 1.5, np.array([1.2]), np.array([0.1]), 1, 0.1)
    load = Load(lengths, rate=np.array([0.001]))
    (choice,) = confidence.Confidence().choices(Replica(scenario, Limits(), load, {1: steps}, 0.0))
    assert choice.steps.tokens_per_iteration == pytest.approx(1.0 + quarters / 8)
    assert choice.steps.decode_s == pytest.approx([1.2 - 0.9])
