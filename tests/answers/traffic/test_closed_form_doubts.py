"""Where the closed form may be off: each doubt begins at its limit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perfmodel.answers.load.closed_form_range import Doubt, doubts
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.served_requests import PassOrder


def found_doubts(met, asked, cached=None):
    """The doubts of a server that is saturated at 1/s; it has one seat, which is taken for a share of the
    time.
    """
    met = {"rate": 0.1, "full": 0.0, "running": 0.9, "over": False, "output_len": 1000} | met
    served = SimpleNamespace(
        saturated=np.array([met["over"]]),
        requests_per_s=np.array([met["rate"]]),
        saturation_rate=1.0,
        share=np.array([[1.0 - met["full"], met["full"]]]),
        running=np.array([met["running"]]),
    )
    ask = {"input_len": 1000, "output_len": met["output_len"], "output_std": 1.0, "request_rate": 1}
    ask |= asked
    if "max_concurrency" in asked:
        ask["request_rate"] = None
    question = TrafficQuery(**{"model": "llama-3.1-8b", "hardware": "h100", "max_num_seqs": 1} | ask)
    steps = StepTimes(0, 1.0, np.array([0.01]), np.array([0.1]), 1, 0.1, cached=cached)
    steps = replace(steps, prefill=SimpleNamespace(alone=True, order=PassOrder.ALTERNATING))
    (doubt,) = doubts(question, question.loop, steps, served, question.loop.values)
    return doubt


CLIENTS = {"max_concurrency": 4}


@pytest.mark.parametrize(
    ("met", "asked", "said"),
    [
        ({}, {}, None),
        ({"over": True, "rate": 1.0, "full": 1.0}, {}, None),
        ({"rate": 0.9}, {}, None),
        ({"rate": 0.901}, {}, Doubt.NEAR_SATURATION),
        ({"rate": 0.97}, CLIENTS, None),
        ({"rate": 0.971}, CLIENTS, Doubt.NEAR_SATURATION),
        ({"full": 0.05}, {}, None),
        ({"full": 0.0501}, {}, Doubt.CROWDED),
        ({"full": 0.9}, CLIENTS, None),
        ({"rate": 0.5}, {"max_num_batched_tokens": 2500}, None),
        ({"rate": 0.501}, {"max_num_batched_tokens": 2500}, Doubt.SPLIT_PROMPTS),
        ({"rate": 0.501}, {"max_num_batched_tokens": 2500} | CLIENTS, None),
        ({"rate": 0.501}, {}, None),
        ({}, {"burstiness": 0.99}, Doubt.NOT_POISSON),
        ({"rate": 0.5}, {"burstiness": 1.01}, None),
        ({"rate": 0.501}, {"burstiness": 1.01}, Doubt.NOT_POISSON),
        ({"output_len": 82}, {}, None),
        ({"output_len": 80}, {}, Doubt.SHORT_ANSWERS),
        ({}, {"output_std": 0.0} | CLIENTS, Doubt.LOCKSTEP),
        ({}, {"output_std": 0.0, "max_concurrency": 1}, None),
        ({}, {"output_std": 0.0}, None),
    ],
)
def test_a_doubt_begins_at_its_limit(met, asked, said) -> None:
    assert found_doubts(met, asked) == ((said,) if said else ())


@pytest.mark.parametrize(
    ("met", "question", "said"),
    [
        ({}, {"think_time": 9}, None),
        ({"hits": 0.66}, {"think_time": 9}, Doubt.EVICTED),
        ({"hits": 0.66}, {}, None),
        ({"hits": 0.97}, CLIENTS, None),
        ({"hits": 0.96}, CLIENTS, Doubt.EVICTED),
        ({"returns": 0.7275}, {"think_time": 9}, None),
        ({"returns": 0.7274}, {"think_time": 9}, Doubt.IDLE_SESSIONS),
        ({"returns": 0.7274}, {}, None),
        ({"returns": 0.7274, "running": 1.0}, {"think_time": 9}, None),
        ({"cv": 0.6}, {"model": "deepseek-r1", "dp": 2}, Doubt.UNLIKE_PROMPTS),
        ({"cv": 0.5}, {"model": "deepseek-r1", "dp": 2}, None),
        ({"cv": 0.6}, {}, None),
    ],
)
def test_a_doubt_of_hits_begins_at_its_limit(met, question, said) -> None:
    """Of sessions of four turns, three of which return. An idle server finds all of what is kept."""
    met = {"hits": 1.0, "returns": 0.75, "cv": 0.0} | met
    cached = SimpleNamespace(
        hit_rate=np.ones(2),
        returning=met["returns"],
        cv=met["cv"],
        found=lambda _: np.array([met["hits"]]),
        at=lambda values, _: values,
        read=np.array([1000.0]),
    )
    question = {"turns": 4, "turn_input_len": 100, "tp": 8, "hardware": "h200"} | question
    assert found_doubts(met, question, cached) == ((said,) if said else ())
