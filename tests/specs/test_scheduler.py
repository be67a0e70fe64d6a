"""How prompts and decoding share the passes of an engine, by its version."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.prompts import engine_requests, prompt_launches_s
from perfmodel.specs.engines.served_requests import CapturedGraphs

QUESTION = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "input_len": 500, "output_len": 300}


@pytest.mark.parametrize(
    ("engine", "first"), [("vllm@0.7.3", True), ("vllm@0.8", False), ("vllm", False), ("sglang", False)]
)
def test_vllm_before_v1_answers_prompts_before_it_decodes(engine, first) -> None:
    (row,) = pm.traffic(**QUESTION, engine=engine, request_rate=1, gamma=0, output_std=100).rows
    assert (Doubt.PROMPTS_FIRST in row.doubts) == first
    assert (row.made_by == "replay") == first


def test_prompts_first_is_slower_per_token() -> None:
    question = QUESTION | {"request_rate": 5, "gamma": 0, "output_std": 100, "replay": True}
    mixed, first = (
        pm.traffic(**question, engine="vllm", schedule=order).rows[0] for order in ("mixed", "prompts_first")
    )
    assert first.tpot_s.mean > 1.03 * mixed.tpot_s.mean


@pytest.mark.parametrize(
    ("engine", "hardware", "tokens"),
    [
        ("vllm", "a100-sxm-80gb", 2048),
        ("vllm", "h100", 8192),
        ("sglang", "l40s", 4096),
        ("sglang", "h100", 8192),
        ("sglang", "b200", 16384),
        ("trtllm", "h100", 8192),
    ],
)
def test_a_pass_has_the_budget_of_the_engine_and_the_device(engine, hardware, tokens) -> None:
    question = QUESTION | {"hardware": hardware, "request_rate": 1, "engine": engine}
    assert TrafficQuery(**question).limits.max_num_batched_tokens == tokens
    assert TrafficQuery(**question, max_num_batched_tokens=512).limits.max_num_batched_tokens == 512


@pytest.mark.parametrize(
    ("engine", "model", "hardware", "draft", "graphs"),
    [
        ("sglang@0.5.9", "qwen3-8b", "h100", False, False),
        ("sglang@0.5.10", "qwen3-8b", "h100", False, True),
        ("sglang@0.5.10", "qwen3-8b", "h100", True, False),
        ("sglang@0.5.12", "qwen3-8b", "h100", True, True),
        ("sglang@0.5.12", "qwen3-8b", "mi300x", False, False),
        ("sglang@0.5.12", "deepseek-r1", "h200", False, True),
        ("sglang@0.5.12", "deepseek-r1", "b200", False, False),
        ("sglang@0.5.15", "qwen3.5-35b-a3b", "b200", False, False),
    ],
)
def test_sglang_runs_prompts_as_graphs_where_its_rules_allow_it(engine, model, hardware, draft, graphs):
    """Against a version before these graphs: the host launches a fraction of the kernels."""

    def launches_s(version: str) -> float:
        scenario = resolve_costs(Query(model, hardware, 1, 500, tp=8, engine=version, gamma=0, draft="self"))
        return prompt_launches_s(scenario, engine_requests(scenario), 500.0, draft)

    share = launches_s(engine) / launches_s("sglang@0.5.9")
    assert share < 0.5 if graphs else share == pytest.approx(1.0)


def test_a_graph_of_a_latent_model_reads_up_to_2048_tokens() -> None:
    query = Query("deepseek-r1", "h200", 1, 500, tp=8, engine="sglang@0.5.12", gamma=0, draft="self")
    scenario = resolve_costs(query)
    of_engine = engine_requests(scenario)
    short, longer = (prompt_launches_s(scenario, of_engine, tokens, False) for tokens in (2048.0, 2049.0))
    assert short < 0.5 * longer


@pytest.mark.parametrize(
    ("engine", "conservativeness", "share"),
    [
        ("vllm", 1, 0.0),
        ("sglang", 1, 0.7 * 0.14),
        ("sglang", 0.5, 0.35 * 0.14),
        ("sglang", 2, 0.14),
        ("trtllm", 2, 1),
        ("trtllm", 1, 1),
    ],
)
def test_a_new_request_leaves_room_for_tokens_to_come(engine, conservativeness, share) -> None:
    question = QUESTION | {"engine": engine, "request_rate": 1}
    limits = TrafficQuery(**question, schedule_conservativeness=conservativeness).limits
    assert limits.reserved_output == pytest.approx(share)


def test_fewer_requests_run_where_room_is_left_for_tokens_to_come() -> None:
    """Of a context of 3,000 tokens on average, 1,000 have been decoded and as many are to come."""
    scenario = resolve_costs(Query("llama-3.1-8b", "a100-sxm-80gb", 1, 500, gamma=0, draft="self"))
    lengths = Lengths(2000.0, 2000.0)
    free, half, whole = (
        step_times(scenario, lengths, Limits(10**6, 10**7, reserved_output=share), [0])[0].seats
        for share in (0.0, 0.5, 1.0)
    )
    assert half / free == pytest.approx(1 / (1 + 0.5 / 3), rel=0.02)
    assert whole / free == pytest.approx(1 / (1 + 1 / 3), rel=0.02)


def test_the_recurrent_states_of_sglang_limit_the_requests_that_run() -> None:
    """Half of its caches' memory is for states, and from 0.5.14 on a running request keeps five of them."""
    question = {"model": "qwen3.5-35b-a3b", "hardware": "b200", "input_len": 8192, "output_len": 1024}
    question |= {"max_concurrency": 1024, "gamma": 0, "closed_form": True, "output_std": 100}
    old, new = (
        pm.traffic(**question, engine=f"sglang@{version}").rows[0].running_mean
        for version in ("0.5.12", "0.5.15")
    )
    assert old / new == pytest.approx(5 / 3, rel=0.05)


def test_a_running_request_holds_cache_for_the_tokens_it_drafts() -> None:
    """In vLLM two tokens for each, and three with asynchronous scheduling, from 0.14 on."""

    def grown(engine: str) -> float:
        """Share of the room that nine more drafted tokens take, without a cache of the draft."""
        query = Query(
            "llama-3.1-8b", "a100-sxm-80gb", 1, 500, gamma=10, draft="ngram", alpha=0.5, engine=engine
        )
        passes = step_times(resolve_costs(query), Lengths(500.0, 2.0), Limits(10**6, 10**8), [1, 10])
        one, ten = (steps.kv_share for steps in passes)
        return ten - one

    assert grown("vllm@0.14") / grown("vllm@0.13") == pytest.approx(3 / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("seats", "tokens", "grows", "largest"),
    [(8, 4, False, 16), (8, 4, True, 64), (256, 1, False, 512), (300, 1, False, 512)],
)
def test_the_largest_graph_has_two_tokens_per_seat(
    seats: int, tokens: int, grows: bool, largest: int
) -> None:
    rule = CapturedGraphs(since="0.1", times_tokens=grows, most=512)
    assert rule.largest(seats, tokens) == largest
