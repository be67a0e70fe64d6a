"""How many requests and prompts a pass has room for, by hand on both sides of each limit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import resolve
from perfmodel.queueing.kv_room import sequences_of
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.occupancy import occupancy
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.saturation import capacity, prompts_per_pass
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.request_costs import EngineRequests
from perfmodel.speculation import Acceptance, memory_of
from tests.plots.figures import ASK

LENGTHS = Lengths(input_mean=1000.0, output_mean=101.0)
SELF = resolve(ASK)
DRAFT_MODEL = resolve(replace(ASK, draft="llama-3.2-1b", draft_kv="full"))


def single_seat(pass_s: float) -> StepTimes:
    return StepTimes(0, 1.0, np.array([pass_s]), np.zeros(1), 1, 0.01)


@pytest.mark.parametrize(("budget", "seats"), [(40, 9), (41, 10), (45, 11)])
def test_a_pass_verifies_four_tokens_a_request_and_keeps_one_for_a_prompt(budget: int, seats: int) -> None:
    (steps,) = step_times(SELF, LENGTHS, Limits(max_num_batched_tokens=budget), [3])
    assert steps.seats == seats


def test_a_server_that_drafts_has_seats_of_its_own() -> None:
    limits = Limits(max_num_seqs=32, drafting_seats=8)
    plain, drafting = step_times(SELF, LENGTHS, limits, [0, 3])
    assert (plain.seats, drafting.seats) == (32, 8)


@pytest.mark.parametrize(
    ("engine", "gamma", "more"),
    [("sglang", 0, 0.0), ("sglang", 3, 3.0), ("trtllm", 0, 15.5), ("trtllm", 3, 15.5 + 3.0)],
)
def test_a_request_holds_half_a_block_and_the_tokens_of_the_next_draft(engine, gamma, more) -> None:
    """Beside its context, its drafted tokens and the token after them. Blocks have 1 token in SGLang and 32
    in TensorRT-LLM.
    """
    fitting = requests_that_fit(engine, gamma)
    few, many = (fitting(context) for context in (1000.0, 9000.0))
    held = (1000.0 * few - 9000.0 * many) / (many - few)
    assert held == pytest.approx(1.0 + gamma + more, rel=1e-6)


def test_asynchronous_scheduling_holds_the_drafted_tokens_once_more() -> None:
    """vLLM does so by default from 0.14 on. A request holds a share of the cache, and one more token of
    context is the unit.
    """
    held = []
    for version in ("vllm@0.13", "vllm@0.14"):
        plain, drafting = (1.0 / requests_that_fit(version, gamma)(1000.0) for gamma in (0, 3))
        longer = 1.0 / requests_that_fit(version, 0)(1001.0)
        held.append((drafting - plain) / (longer - plain))
    assert held == pytest.approx([2 * 3, 3 * 3], rel=1e-6)


@pytest.mark.parametrize(("engine", "halved"), [("trtllm", True), ("sglang", False)])
def test_what_activations_take_is_no_room_unless_the_engine_counted_it_itself(engine, halved) -> None:
    """SGLang's share of the memory has its activations in it, and TensorRT-LLM's has not."""
    alone = requests_that_fit(engine, 0)(4096.0)
    bytes_each = 4096 * 32 * 2 * 8 * 128 * 2  # layers, keys and values, heads, width, bytes
    fewer = requests_that_fit(engine, 0, reserved_bytes=alone / 2 * bytes_each)(4096.0)
    assert fewer == pytest.approx(alone / 2 if halved else alone, rel=0.01)


def test_each_attention_group_has_a_cache_of_its_own() -> None:
    asked = {"model": "qwen3-30b-a3b", "tp": 2, "ep": 2, "dp": 2}
    of_two = requests_that_fit("sglang", 0, **asked)(4096.0)
    scenario = resolve(TrafficQuery(**asked, **SERVED, engine="sglang").query(batch=1, context=9, gamma=0))
    one = memory_of(scenario, 1.0, 4096.0, 0.0).single().sequences
    assert of_two == pytest.approx(2 * one)


SERVED = {"hardware": "h200", "input_len": 8, "output_len": 8, "request_rate": 1, "draft": "ngram"}


def requests_that_fit(
    engine: str, gamma: int, reserved_bytes: float = 0.0, **asked: Any
) -> Callable[[float], float]:
    """Context -> the number of requests that fit on a server with an n-gram draft."""
    ask = TrafficQuery(**{"model": "llama-3.1-8b", "engine": engine} | SERVED | asked)
    scenario = resolve(ask.query(batch=1, context=9, gamma=3), Acceptance.from_alpha(0.6))
    drafted = np.array([gamma])
    return lambda context: float(sequences_of(scenario, context, drafted, ask.limits, reserved_bytes)[0])


def test_the_host_of_a_draft_model_hands_over_no_pass_ahead() -> None:
    own = EngineRequests(passes_ahead=1.0)
    for scenario, ahead in ((SELF, [1.0, 1.0]), (DRAFT_MODEL, [1.0, 0.0])):
        steps = step_times(scenario, LENGTHS, Limits(), [0, 3], own)
        assert [each.passes_ahead for each in steps] == ahead


def test_an_engine_takes_time_for_each_request_and_each_token_of_its_prompt() -> None:
    """2 ms, and 1,000 tokens of 1 us."""
    own = EngineRequests(request_s=0.002, prompt_token_s=1e-6)
    (steps,) = step_times(SELF, LENGTHS, Limits(), [0], own)
    assert steps.own_s == pytest.approx(0.003)


def test_prompts_take_what_decoding_leaves_of_a_pass() -> None:
    """96 requests decode 2 tokens each: 8,000 of 8,192 are left for prompts of 1,000. At least one is."""
    steps = StepTimes(1, 1.0, np.full(8192, 0.01), np.zeros(8192), 8192, 0.01)
    prompts = prompts_per_pass(steps, LENGTHS, Limits(), np.array([96.0, 4095.0, 4096.0, 8000.0]))
    assert prompts == pytest.approx([8.0, 0.002, 0.001, 0.001])


def test_a_batch_that_ends_exactly_as_many_requests_as_prompts_fit_is_served() -> None:
    """One token after each prompt: n requests end in a pass, in which (budget - n) / 1,000 prompts fit.

    With 2,002 tokens that is 2 at a batch of 2, and less than 3 at one of 3.
    """
    steps = StepTimes(0, 1.0, np.full(3, 0.01), np.full(3, 0.05), 3, 0.01)
    most = capacity(steps, Lengths(1000.0, 2.0), Limits(max_num_batched_tokens=2002))
    assert most == pytest.approx((1 / (0.01 / 2 + 0.05), 2))


def test_one_seat_is_a_queue_with_one_server() -> None:
    """A request decodes 100 tokens in 1 s. At 0.5 per second the seat is taken half of the time, and 0.5
    squared / (1 - 0.5) requests wait (M/M/1). A saturated server states no mean queue.
    """
    o = occupancy(single_seat(0.01), LENGTHS, np.array([0.5, 1.0]), 1.0, 1.0)
    queue = o.queue()
    assert o.share[0] == pytest.approx([0.5, 0.5])
    assert queue.full[0] == pytest.approx(0.5)
    assert queue.requests == pytest.approx([0.5, 0.0])
    assert o.saturated.tolist() == [False, True]


def test_a_server_that_leaves_fewer_with_all_seats_taken_is_metastable() -> None:
    """100 tokens in passes of 10 ms and, for two, 50 ms: one request leaves per second, or 0.4."""
    steps = StepTimes(0, 1.0, np.array([0.01, 0.05]), np.zeros(2), 2, 0.01)
    o = occupancy(steps, LENGTHS, np.array([0.39, 0.41, 0.99, 1.0]), 1.0, 1.0)
    assert o.metastable.tolist() == [False, True, True, False]
    assert o.load[0] == pytest.approx([0.39, 0.39 / 0.4])
