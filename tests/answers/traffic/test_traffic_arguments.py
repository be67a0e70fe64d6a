"""Arguments of a question about a server that only mean something together.

Limits of single arguments are in `tests/answers/test_answers_refuse.py`. Python's messages
name arguments; commands name flags.
"""

from typing import Any

import pytest

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import InputError

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 200, "gamma": 3}


def refusal(**changes: Any) -> str:
    """Why a question is refused."""
    with pytest.raises(InputError) as refused:
        TrafficQuery(**ASKED | changes)
    return str(refused.value)


def accepted(**changes: Any) -> TrafficQuery:
    return TrafficQuery(**ASKED | changes)


@pytest.mark.parametrize("name", ["input_len", "output_len"])
def test_lengths_are_given_or_come_from_a_file(name: str) -> None:
    assert refusal(request_rate=1, **{name: None}) == f"{name}: must be given, or trace"
    assert getattr(accepted(**{name: None}, trace="requests.csv"), name) is None
    assert getattr(accepted(**{name: None}, mix="classes.yaml"), name) is None


def test_a_load_is_a_rate_clients_both_or_a_rollout() -> None:
    assert refusal() == "request_rate, max_concurrency: one of them must be given, or both"
    assert accepted(request_rate=[1, 2]).opens
    assert not accepted(max_concurrency=[8, 16]).opens
    assert not accepted(rollout=64).opens


def test_a_limit_on_the_requests_of_a_rate_is_one_number() -> None:
    assert accepted(request_rate=[1, 2], max_concurrency=8).capped
    assert not accepted(max_concurrency=8).capped
    several = refusal(request_rate=1, max_concurrency=[8, 16])
    assert several == "max_concurrency: must be one number with request_rate"


def test_every_load_has_a_row_of_every_length() -> None:
    accepted(request_rate=[1.0] * 500, gamma="1,2")
    rows = refusal(request_rate=[1.0] * 501, gamma="1,2")
    assert rows == "gamma, request_rate, max_concurrency: must be at most 1000 rows, given 1002"


def test_a_deviation_above_the_mean_over_the_root_of_three_is_refused_but_of_a_rollout() -> None:
    """Uniform lengths from 0 have that deviation; outputs of a rollout are log-normal."""
    assert "output_std: must be from 0 to the mean / sqrt(3) = 115" in refusal(request_rate=1, output_std=116)
    assert accepted(rollout=64, output_std=300).output_std == 300
    assert "input_std: must be from 0 to" in refusal(rollout=64, input_std=600)


@pytest.mark.parametrize("gamma", ["1,3", "auto", 0])
def test_tokens_per_iteration_were_measured_at_one_draft_length(gamma: Any) -> None:
    needs_one = refusal(request_rate=1, tokens_per_iteration=2.5, gamma=gamma)
    assert needs_one == "tokens_per_iteration: needs one gamma of 1 or more, at which it was measured"


def test_the_baseline_beside_that_length_does_not_count() -> None:
    assert accepted(request_rate=1, tokens_per_iteration=2.5, gamma="0,3").stated_lengths == (0, 3)


def test_a_deviation_of_the_context_belongs_to_other_verbs() -> None:
    said = refusal(request_rate=1, context_std=100)
    assert said == "context_std: must be left out of traffic; use input_std and output_std"


@pytest.mark.parametrize(
    "of_one_server",
    [{"trace": "a.csv"}, {"mix": "b.yaml"}, {"rollout": 2}, {"nodes": "2x8"}, {"draft_tp": 2}],
)
def test_pools_leave_out_what_is_of_one_server(of_one_server: dict[str, Any]) -> None:
    load = {} if "rollout" in of_one_server else {"request_rate": 1}
    said = refusal(**load, prefill="1x1", decode="1x1", **of_one_server)
    assert said == (
        "prefill: must be left out with trace, mix, rollout, nodes or draft_tp, which are of one server"
    )
