"""Pictures of a load: the title and the caption say what was asked."""

from dataclasses import replace
from functools import cache

from perfmodel import plots
from perfmodel.answers.load.traffic import Traffic, traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from tests.plots.figures import legend_of, title_of, words_around

ASK = TrafficQuery(
    "llama-3.1-8b",
    "h100",
    input_len="2k",
    output_len=128,
    max_concurrency=(1, 8, 130),
    draft="eagle",
    gamma=(2,),
    alpha=0.7,
    closed_form=True,
)


@cache
def answer() -> Traffic:
    return traffic(ASK)


def test_the_caption_states_lengths_and_acceptance_and_the_title_whole_clients() -> None:
    figure = plots.traffic(answer(), ASK)
    assert "prompt tokens: 2k; output tokens: 128; acceptance α: 0.7" in words_around(figure)
    assert "max concurrency" not in words_around(figure)
    assert title_of(figure).endswith("at 130 clients")


def test_the_slo_is_that_of_the_question_or_the_given_one() -> None:
    asked = replace(ASK, slo="ttft:900")
    assert "SLO: TTFT 900 ms" in legend_of(plots.traffic(answer(), asked).axes[0])
    assert "SLO: TPOT 30 ms" in legend_of(plots.traffic(answer(), ASK, slo={"tpot": 30}).axes[0])
