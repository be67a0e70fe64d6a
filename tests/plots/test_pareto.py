"""Pareto fronts: those of `advise`, with a caption of the question."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.errors import InputError
from tests.plots.figures import CHOICE, title_of, words_around

UNDER_LOAD = AdviseQuery(
    "llama-3.1-8b",
    "a100",
    request_rate=1,
    input_len="1k",
    output_len=100,
    draft=("eagle",),
    rate={"eagle": "0.7"},
)


def test_the_fronts_are_those_of_advise() -> None:
    answer = advise(CHOICE)
    figure = plots.pareto(answer)
    baseline, speculating, chosen, bound = figure.axes[0].lines
    fronts = ((baseline, answer.pareto.baseline), (speculating, answer.pareto.speculating))
    for line, front in fronts:
        assert len(front) > 1
        tpot_ms = [1e3 * point.tpot_s for point in front]
        throughput = [point.throughput_tokens_per_s_per_device for point in front]
        np.testing.assert_allclose(line.get_xdata(), tpot_ms)
        np.testing.assert_allclose(line.get_ydata(), throughput)
    assert answer.chosen is not None
    np.testing.assert_allclose(chosen.get_xdata(), [1e3 * answer.chosen.tpot_s])
    assert list(bound.get_xdata()) == [20, 20]


@pytest.mark.parametrize(
    "change", [{"rate": {"self@streamingllm:512": "0.7"}}, {"kv_dtype": "fp8"}, {"batch": (1, 8)}], ids=str
)
def test_the_caption_of_fronts_says_what_was_asked(change: dict[str, Any]) -> None:
    caption = words_around(plots.pareto(advise(CHOICE)))
    assert words_around(plots.pareto(advise(replace(CHOICE, **change)))) != caption


def test_the_title_states_the_gain_and_the_caption_has_no_flags() -> None:
    answer = advise(replace(CHOICE, rate={"self@streamingllm:512": "0.95"}, max_tpot_ms=None))
    assert answer.chosen is not None
    assert answer.chosen.draft == "self"
    figure = plots.pareto(answer)
    best = f"{answer.gain(answer.chosen):.2f}× the throughput per device of the best baseline"
    assert title_of(figure) == f"A sparse self-draft is predicted to give {best}"
    close = plots.pareto(replace(answer, verdict="too_close_to_call"))
    assert title_of(close).startswith("Too close to call: a sparse self-draft is predicted to give ")
    assert title_of(plots.pareto(advise(CHOICE))) == "The best configuration does not speculate"
    words = words_around(figure)
    assert "GPUs of a server: 1, 8; acceptance: self@streamingllm:512 0.95" in words
    assert answer.robustness is not None
    assert answer.robustness.gain_over_baseline_interval is not None
    low, high = answer.robustness.gain_over_baseline_interval
    assert f"90 % interval of the gain: {low:.2f}× to {high:.2f}×" in words
    assert "=" not in words


def test_a_caption_of_a_question_with_defaults_has_no_gaps() -> None:
    caption = words_around(plots.pareto(advise(AdviseQuery("llama-3.1-8b", "h100", 8192)))).splitlines()[-1]
    assert all(part.strip() for part in caption.split(";"))


def test_the_label_beside_the_star_is_that_of_the_choice() -> None:
    answer = advise(AdviseQuery("llama-3.1-8b", "h100", 8192))
    assert answer.chosen is not None
    assert answer.chosen.batch < answer.pareto.speculating[-1].batch
    labels = [text.get_text() for text in plots.pareto(answer).axes[0].texts]
    assert str(answer.chosen.batch) in labels
    assert str(answer.pareto.speculating[-1].batch) not in labels


def test_an_answer_without_fronts_draws_none() -> None:
    with pytest.raises(InputError, match="without a load"):
        plots.pareto(advise(UNDER_LOAD))
