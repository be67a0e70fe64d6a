"""The joint search finds the best of all points, and more room never makes its answer worse."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import parse_rate
from perfmodel.specs import files
from tests.answers.advise.questions import RATES, question_with


@cache
def every_answer() -> dict[tuple[int, int, str | None, int], tuple[float, bool]]:
    """(tp, batch, draft or None, gamma) -> seconds per token at the draft's own rate, and whether it fits."""
    answers = {}
    for tp, batch, (key, text) in itertools.product((1, 2), (1, 4, 16, 27), RATES.items()):
        draft, _, kv = key.partition("@")
        rate = parse_rate(text, "")
        at = {"batch": batch, "context": 16384, "tp": tp, "draft": draft, "draft_kv": kv or "full"}
        for gamma in range((rate.max_gamma or 5) + 1):
            a = whatif("llama-3.1-8b", "h100-sxm-80gb", **at, gamma=gamma, alpha=0.5)
            iteration_s = a.tpot_s * a.acceptance.tokens_per_iteration
            tpot = iteration_s / float(rate.tokens_per_iteration(gamma))
            answers[tp, batch, draft if gamma else None, gamma] = tpot, a.memory.fits
    return answers


OBJECTIVES = {
    "throughput": lambda tp, batch, tpot: batch / tpot / tp,
    "latency": lambda tp, batch, tpot: -tpot,
    "cost": lambda tp, batch, tpot: -2.5 * tp / 3600 * 1e6 * tpot / batch,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("bound_s", [None, 0.012])
def test_the_choice_is_the_best_of_all_points_asked_one_by_one(objective: str, bound_s: float | None) -> None:
    """Of points that are nearly as good as the best one it takes the best on as few devices."""
    value_of = OBJECTIVES[objective]
    values = {
        (tp, batch, draft, gamma): value_of(tp, batch, tpot_s)
        for (tp, batch, draft, gamma), (tpot_s, fits) in every_answer().items()
        if fits and (bound_s is None or tpot_s <= bound_s)
    }
    bound_ms = None if bound_s is None else bound_s * 1e3
    question = question_with(tp=(1, 2), objective=objective, max_tpot_ms=bound_ms, price=2.5, max_gamma=5)
    answer = advise(question)
    chosen = answer.chosen
    chosen_value = values[chosen.tp, chosen.batch, chosen.draft, chosen.gamma]
    assert abs(chosen.objective) == pytest.approx(abs(chosen_value), rel=1e-9)
    best = max(values.values())
    assert max(best / chosen_value, chosen_value / best) <= 1 + ALIKE
    on_fewer = [value for (tp, *_), value in values.items() if tp <= chosen.tp]
    assert chosen_value == pytest.approx(max(on_fewer), rel=1e-12)
    for front in (answer.pareto.baseline, answer.pareto.speculating):  # no point of them is beaten
        points = np.array([(p.tpot_s, p.throughput_tokens_per_s_per_device) for p in front])
        assert np.all(np.diff(points, axis=0) > 0)


@settings(max_examples=6, deadline=None)
@given(
    model=st.sampled_from(files.bundled_names("models")),
    objective=st.sampled_from(["throughput", "latency", "cost"]),
    context=st.sampled_from([500, 4000, 40000]),
    alpha=st.floats(0.2, 0.98),
    bound=st.floats(2, 200),
)
def test_a_larger_device_or_more_to_choose_from_never_gives_a_worse_choice(
    model, objective, context, alpha, bound
) -> None:
    """A larger device, more batches, lengths, degrees, time per token and budgets: never a worse optimum. It
    may be an option, since a gain may be doubtful on the larger device alone.
    """
    rates = {"self@streamingllm:512": f"{alpha}", "eagle": "0.7/0.6/0.5"}
    base = {
        "model": model,
        "rate": rates,
        "context": context,
        "objective": objective,
        "price": 2.0,
        "hardware": "h100-sxm-80gb",
        "calibration": "h100-sxm-80gb.vllm",
        "batch": (1, 8, 64),
        "max_tpot_ms": bound,
        "max_gamma": 1,
        "tp": (1,),
    }
    sign = 1 if objective == "throughput" else -1

    def best(**changes) -> float:
        a = advise(question_with(**base | changes))
        assert (a.chosen is None) is (a.verdict == "infeasible") is (a.reason in a.headline())
        if a.chosen is None:
            return -np.inf
        return sign * (a.option or a.chosen).objective

    now = best()
    now -= 1e-12 * abs(now)  # sums over another number of batches round differently
    larger = {
        "hardware": "h200-sxm-141gb",
        "batch": (1, 2, 8, 32, 64, 128),
        "max_gamma": 8,
        "tp": (1, 2),
        "max_tpot_ms": 2 * bound,
    }
    for name, value in larger.items():
        assert best(**{name: value}) >= now, name
    budgets = {f"self@streamingllm:{budget}": f"{alpha}" for budget in (256, 1024, 4096)}
    assert best(rate=rates | budgets) >= now
