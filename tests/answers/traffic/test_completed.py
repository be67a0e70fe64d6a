"""What `traffic` fills in, with its source, and the requests that are too long for a model."""

import pytest

from perfmodel.answers.load.completed import check_positions, completed
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.specs import load_model
from tests.refusals import refused

LOAD = {"hardware": "h100", "request_rate": 1, "input_len": 1000, "output_len": 100}
MODEL = load_model("llama-3.1-8b")
POSITIONS = MODEL.max_position_embeddings


@pytest.mark.parametrize(
    ("model", "stated", "used", "source"),
    [
        ("llama-3.1-8b", None, None, "assumed"),
        ("llama-3.1-8b", 0.2, 0.2, "as given"),
        ("gpt-oss-120b", 0.2, 0.2, "as given"),
        ("gpt-oss-120b", None, 0.15, "p99 of TPOT in traffic.csv (inferencex-profiling@237385bf, "),
    ],
)
def test_the_spread_of_acceptance_has_its_source(model, stated, used, source) -> None:
    question, stated_source = completed(TrafficQuery(model=model, acceptance_std=stated, **LOAD))
    assert question.acceptance_std == used
    assert stated_source.startswith(source)


def test_the_last_position_of_a_model_may_be_used() -> None:
    check_positions(POSITIONS, "the request", MODEL)
    refused(f"at most the {POSITIONS} positions", check_positions, POSITIONS + 1, "the request", MODEL)


def test_a_session_that_is_too_long_names_its_turns() -> None:
    session = LOAD | {"input_len": 30_000, "turns": 5, "turn_input_len": 30_000}
    refused(r"in 5 turns \(150\d+ tokens\)", traffic, MODEL.name, **session)
