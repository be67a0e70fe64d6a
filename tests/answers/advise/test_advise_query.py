"""What follows from a question to `advise`: batches, rates, limits, and the question of one load."""

from typing import Any

import pytest

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.question import RunsIn

LOAD = {"request_rate": 5, "input_len": 1000, "output_len": 200}


def question(**changes: Any) -> AdviseQuery:
    return AdviseQuery(**{"model": "llama-3.1-8b", "hardware": "h100"} | changes)


def server_of(gpus: int) -> Layout:
    return Layout(gpus=gpus, replicas=1, server_gpus=gpus)


def test_every_batch_of_one_device_is_searched() -> None:
    assert question().batches(server_of(1)).tolist() == [*range(1, 257)]


def test_larger_batches_of_more_devices_are_searched_in_rising_steps() -> None:
    """To 512 in steps of 16, a 32nd of it; to 1024 in steps of 32."""
    batches = question().batches(server_of(4)).tolist()
    assert batches[256:] == [*range(272, 513, 16), *range(544, 1025, 32)]


def test_stated_batches_are_searched_once_in_rising_order() -> None:
    assert question(batch=(8, 1, 8)).batches(server_of(4)).tolist() == [1, 8]


def test_the_first_child_of_a_tree_is_the_rate_of_a_chain_unless_one_is_given() -> None:
    trees = {"eagle": (0.7, 0.15), "medusa": (0.5, 0.2)}
    asked = question(tree_rate=trees, rate={"medusa": 0.6})
    assert asked.chain_rates == {"eagle": "0.7", "medusa": "0.6"}


@pytest.mark.parametrize(
    ("changes", "searches"),
    [
        (LOAD | {"gpus": 16}, True),
        (LOAD | {"gpus": 8}, False),
        (LOAD, False),
        ({"gpus": 16}, False),
    ],
)
def test_pools_are_searched_for_a_load_on_more_than_a_box(changes: dict[str, Any], searches: bool) -> None:
    assert question(**changes).searches_pools is searches


def test_bounds_and_an_slo_limit_the_same_times_and_the_slo_decides() -> None:
    asked = question(**LOAD, max_ttft_ms=1500, max_tpot_ms=30, slo="tpot:20,e2e:9000")
    assert asked.latency_limits_ms == {"ttft": 1500, "tpot": 20, "e2e": 9000}
    assert question().latency_limits_ms == {}


def test_an_engine_of_one_person_is_asked_about_one_fast_sequence() -> None:
    asked = question(hardware="rtx-4090", engine="llamacpp", price=1)
    assert asked.for_its_users.batch == (1,)
    assert asked.for_its_users.objective == "latency"
    cheap = question(hardware="rtx-4090", engine="llamacpp", price=1, objective="cost")
    assert cheap.for_its_users.objective == "cost"


@pytest.mark.parametrize("changes", [{"engine": "vllm"}, {"engine": "llamacpp", "batch": (4,)}])
def test_other_engines_and_stated_batches_are_asked_as_given(changes: dict[str, Any]) -> None:
    asked = question(hardware="rtx-4090", **changes)
    assert asked.for_its_users is asked


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [({}, True), ({"max_tpot_ms": 50}, False), ({"batch": (8,)}, False), ({"objective": "latency"}, False)],
)
def test_the_pace_is_open_unless_the_question_settles_it(changes: dict[str, Any], is_open: bool) -> None:
    assert question(**changes).leaves_pace_open is is_open


def test_only_drafts_that_the_engine_runs_are_recommended_unless_any_may_be() -> None:
    refused = RunsIn(runs=False, text="no engine yet (vLLM: no such draft)")
    runs = RunsIn(runs=True, text="vLLM >= 0.9")
    assert question().may_choose(runs)
    assert question().may_choose(None), "a research stack has no list of drafts"
    assert not question().may_choose(refused)
    assert question(any_draft=True).may_choose(refused)


def test_the_question_of_one_load_has_the_limits_and_the_prefix() -> None:
    asked = question(**LOAD, max_tpot_ms=30, prefix_len=500, prefix_hits=0.5, max_gamma=4, kv_dtype="fp8")
    served = asked.traffic(request_rate=2)
    assert (served.input_len, served.output_len, served.request_rate) == (1000, 200, (2,))
    assert served.slo == {"tpot": 30}
    assert (served.prefix_len, served.prefix_hits) == (500, 0.5)
    assert (served.max_gamma, served.kv_dtype) == (4, "fp8")
    assert question(**LOAD).traffic(request_rate=2).slo is None


def test_an_answer_names_the_ends_of_the_stated_batches() -> None:
    assert question(batch=(4, 1, 16)).as_dict()["batch"] == [1, 16]
    assert question().as_dict()["batch"] is None


def test_a_bound_on_the_time_per_token_is_in_seconds() -> None:
    assert question(max_tpot_ms=30).max_tpot_s == pytest.approx(0.03)
    assert question().max_tpot_s is None
