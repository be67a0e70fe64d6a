"""The discrete-event server, request by request: traces short enough to work through by hand, and what is
drawn.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from perfmodel.queueing import iterations as drawing
from perfmodel.queueing.acceptance_spread import possible_spread
from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.queueing.replay import replay
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.serving import PassOrder

LENGTHS = Lengths(100.0, 60.0)
"""A prompt of 100 tokens; a context of 130."""


def server(decode_ms, prompt_ms=(50.0,), gamma=0, gained=1.0, room=13_000, **more) -> StepTimes:
    """Passes of these milliseconds by running batch, prompts of 100 tokens too, and KV room for so many
    tokens.
    """
    decode = np.asarray(decode_ms, float) / 1000
    prompt = np.resize(np.asarray(prompt_ms, float) / 1000, decode.size)
    return StepTimes(gamma, gained, decode, prompt, decode.size, 130 / room, **more)


TWO = {"gamma": 3, "gained": 2.0, "survival": np.array([1.0, 1.0, 0.0, 0.0])}
"""Four tokens verified and two gained, in every iteration."""
PLAIN = server([10, 12, 14])
DRAFTS = server([20, 24, 30], **TWO)
BY_BATCH = replace(server([15, 30], **TWO), table=(server([15, 30], **TWO), server([10, 12])))
PREFILL = PrefillTime(np.array([1.0, 100.0, 200.0]), np.array([1.0, 1.0, 2.0]), 0.001)
"""Up to 100 tokens a pass takes 1 s, then 10 ms a token; 1 ms for the attention of each prompt token."""


@dataclass(frozen=True)
class Trace:
    """A server, its requests, and what is worked out by hand.

    prompts: tokens of each request; None is 100 each. first_ms, last_ms: to the first and to the last token.
    decoding_ms: request-milliseconds of decoding. preempted: preemptions.
    """

    server: StepTimes
    arrive_ms: list[float]
    outputs: list[int]
    first_ms: list[float]
    last_ms: list[float]
    decoding_ms: float
    prompts: list[int] | None = None
    seats: int = 256
    budget: int = 8192
    clients: int | None = None
    preempted: int = 0


TRACES = {
    # 60 prompt tokens in 40 ms | 40 + 20 | 59 beside the first's second token, in 39.5 | 21 in 20.5
    # | a token more
    "cut prompts": Trace(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[2, 2],
        first_ms=[80, 140],
        last_ms=[119.5, 150],
        decoding_ms=39.5 + 10,
        budget=60,
    ),
    # 100 prompt tokens | 99 beside the first's second token, in 59.5 | 1 in 10.5 | a token more
    "a full budget": Trace(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[2, 2],
        first_ms=[60, 130],
        last_ms=[119.5, 140],
        decoding_ms=59.5 + 10,
        budget=100,
    ),
    # a token of each | two more beside the first's, 0.5 ms each | both 12
    "a token left": Trace(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[4, 2],
        first_ms=[11, 32],
        last_ms=[44, 44],
        decoding_ms=21 + 24,
        budget=2,
        prompts=[1, 3],
    ),
    # two prompts in 10 + 100 ms | both 12 | the third's prompt beside the first's last token
    "a free seat": Trace(
        PLAIN,
        arrive_ms=[0, 0, 0],
        outputs=[3, 2, 1],
        first_ms=[110, 110, 182],
        last_ms=[182, 122, 182],
        decoding_ms=2 * 12 + 60,
        seats=2,
    ),
    # the third's prompt in 12 + 60 beside two | the fourth's in 14 + 70 beside three | four take no
    # longer | one
    "more than seats": Trace(
        server([10, 12, 14], [50, 60, 70]),
        arrive_ms=[0, 0, 0.5, 111],
        outputs=[4, 4, 4, 2],
        first_ms=[110, 110, 181.5, 155],
        last_ms=[280, 280, 289.5, 169],
        decoding_ms=2 * 72 + 3 * 84 + 4 * 14 + 10,
    ),
    # 200 tokens of cache are room for both prompts, 199 are not
    "just room": Trace(
        server([10, 12], room=200),
        arrive_ms=[0, 0],
        outputs=[1, 3],
        first_ms=[110, 110],
        last_ms=[110, 130],
        decoding_ms=20,
    ),
    "no room": Trace(
        server([10, 12], room=199),
        arrive_ms=[0, 0],
        outputs=[1, 3],
        first_ms=[60, 120],
        last_ms=[60, 140],
        decoding_ms=20,
    ),
    # arrives within the fourth of 19 passes: its prompt is in the next one
    "in between": Trace(
        PLAIN,
        arrive_ms=[0, 95],
        outputs=[20, 2],
        first_ms=[60, 65],
        last_ms=[302, 77],
        decoding_ms=40 + 60 + 2 * 12 + 130,
    ),
    # 1 ms on the way in; when the second comes, at 56, a pass is handed out already
    "a pass ahead": Trace(
        server([10, 12], own_s=0.001, passes_ahead=1.0),
        arrive_ms=[0, 55],
        outputs=[4, 2],
        first_ms=[61, 76],
        last_ms=[143, 88],
        decoding_ms=94,
    ),
    # sent as the first are answered: at 124 while a pass that begins without it runs, and at 134
    # when none does
    "two clients": Trace(
        server([10, 12], own_s=0.002),
        arrive_ms=[0, 0, 0, 0],
        outputs=[3, 2, 2, 2],
        first_ms=[112, 112, 70, 120],
        last_ms=[134, 124, 130, 130],
        decoding_ms=2 * 12 + 10 + 60 + 10,
        clients=2,
    ),
    "five clients": Trace(
        PLAIN,
        arrive_ms=[0, 100],
        outputs=[2, 2],
        first_ms=[60, 60],
        last_ms=[70, 70],
        decoding_ms=20,
        clients=5,
    ),
    # 100 prompt tokens | 96 beside the 4 that the first verifies | 4 | both 24 | the second's last
    # two
    "drafts": Trace(
        DRAFTS,
        arrive_ms=[0, 0],
        outputs=[7, 5],
        first_ms=[70, 160],
        last_ms=[184, 204],
        decoding_ms=68 + 22 + 2 * 24 + 20,
        budget=100,
    ),
    # together a token in 12 ms: two for the second's; then alone the first's six of eight in 3 x 15
    "by batch": Trace(
        BY_BATCH,
        arrive_ms=[0, 0],
        outputs=[9, 3],
        first_ms=[115, 115],
        last_ms=[184, 139],
        decoding_ms=2 * 24 + 45,
    ),
    # a billion tokens, one every 10 ms, are one step of the model
    "no end": Trace(
        server([10], room=2e9),
        arrive_ms=[0],
        outputs=[10**9 + 1],
        first_ms=[60],
        last_ms=[60 + 10**10],
        decoding_ms=10**10,
    ),
    # after 26 tokens each has 126 of 250: the second goes, and reads them when the first has left
    # after 59
    "preempted": Trace(
        server([10], room=250),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[700, 1103],
        decoding_ms=520 + 660,
        preempted=1,
    ),
    "not preempted": Trace(
        server([10], room=318),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[700, 700],
        decoding_ms=2 * 590,
    ),
    # a short one came last and left after 9 passes
    "the youngest left": Trace(
        server([10], room=250),
        arrive_ms=[0, 0, 0],
        outputs=[60, 60, 10],
        first_ms=[115, 115, 115],
        last_ms=[705, 1108, 205],
        decoding_ms=3 * 90 + 2 * 170 + 330 + 330,
        preempted=1,
        prompts=[100, 100, 10],
    ),
    # the same two tokens a pass, after 13 passes
    "two at a time": Trace(
        server([10], room=250, **TWO),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[410, 653],
        decoding_ms=600,
        preempted=1,
    ),
    # 75 tokens hide; 99 beside the 2 that the first verifies are one too many: 1 + 0.01 + 0.099 s
    "all tokens": Trace(
        server([1000, 1000], gamma=1, gained=2.0, prefill=PREFILL),
        arrive_ms=[0, 500],
        outputs=[4, 2],
        first_ms=[1075, 1684],
        last_ms=[3184, 2684],
        decoding_ms=1109 + 2 * 1000,
        prompts=[75, 99],
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_by_hand(name: str) -> None:
    trace = TRACES[name]
    arrive_s = np.array(trace.arrive_ms) / 1000
    prompts = trace.prompts or [100] * len(arrive_s)
    requests = Arrivals(arrive_s, np.array(prompts), np.array(trace.outputs))
    met = replay(trace.server, LENGTHS, Limits(trace.seats, trace.budget), requests, trace.clients)
    np.testing.assert_allclose(met.ttft_s * 1000, trace.first_ms, rtol=1e-9)
    np.testing.assert_allclose(met.e2e_s * 1000, trace.last_ms, rtol=1e-9)
    assert met.running * met.duration_s * 1000 == pytest.approx(trace.decoding_ms)
    assert met.preemptions == trace.preempted
    assert met.output_tokens.tolist() == trace.outputs
    decoded = np.maximum(np.array(trace.outputs) - 1, 1)
    np.testing.assert_allclose(met.tpot_s, (met.e2e_s - met.ttft_s) / decoded)


@pytest.mark.parametrize(
    ("order", "budget", "at", "first", "last"),
    [  # the first's second token beside the other's prompt, or its third after both prompts
        (PassOrder.ALTERNATING, 101, [0, 105], [110, 220], [232, 232]),
        (PassOrder.PROMPTS_FIRST, 100, [0, 105, 105], [100, 210, 310], [324, 324, 324]),
    ],
)
def test_prompts_are_read_between_decoding_passes_or_before_them(order, budget, at, first, last) -> None:
    """Prompts of 100 ms, one in a pass; a pass that only reads prompts decodes nothing."""
    seconds = np.array([0.0, 1.0])
    prefill = PrefillTime(np.array([0.0, 1000.0]), seconds, 0.0, order=order)
    steps = replace(server([10, 12, 14]), prefill=prefill)
    outputs = np.array([3, 2, 2][: len(at)])
    at_s = np.array(at) / 1000
    requests = Arrivals(at_s, np.full(len(at), 100), outputs)
    met = replay(steps, LENGTHS, Limits(256, budget), requests)
    np.testing.assert_allclose(met.ttft_s * 1000 + at, first)
    np.testing.assert_allclose(met.e2e_s * 1000 + at, last)


def test_a_part_of_a_prompt_lets_a_shorter_one_pass() -> None:
    """Of 100 tokens 40 in a pass: the second's 30 are read beside the first 40 of the other."""
    prompts = np.array([100, 30])
    requests = Arrivals(np.zeros(2), prompts, np.array([1, 1]))
    limits = Limits(256, 8192, max_prompt_part=40)
    met = replay(server([10, 12]), LENGTHS, limits, requests)
    first_ms = 45 + 30 + 20
    np.testing.assert_allclose(met.ttft_s * 1000, [first_ms, 45])


def test_a_server_that_looks_for_requests_every_few_passes_lets_them_wait() -> None:
    """Passes of 10 ms: it looks at 60 ms, after the first prompt, and at 90 ms."""
    at_s = np.array([0.0, 0.065])
    requests = Arrivals(at_s, np.full(2, 100), np.array([20, 1]))
    steps = server([10, 10])
    often = replay(steps, LENGTHS, Limits(256, 8192, poll_passes=1), requests)
    rarely = replay(steps, LENGTHS, Limits(256, 8192, poll_passes=3), requests)
    np.testing.assert_allclose(rarely.ttft_s[0], often.ttft_s[0])
    later_ms = (rarely.ttft_s[1] - often.ttft_s[1]) * 1000
    np.testing.assert_allclose(later_ms, 20)


@pytest.mark.parametrize(("share", "room", "first_ms"), [(0.0, 319, 110), (1.0, 319, 110), (1.0, 318, 710)])
def test_a_request_enters_with_room_for_tokens_still_to_come(share, room, first_ms) -> None:
    """A running one has 59 tokens still to come, and the new one has 100 of its prompt and 60 of its answer.
    Else it enters when the other has left, 590 ms after its first token at 60 ms.
    """
    requests = Arrivals(np.zeros(2), np.full(2, 100), np.full(2, 60))
    limits = Limits(256, 8192, reserved_output=share)
    met = replay(server([10], room=room), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s[1] * 1000, first_ms)
    assert not met.preemptions


BY_BATCH_AND_GAIN = replace(
    server([15, 30], room=500.5, **TWO), table=(server([15, 30], **TWO), server([10, 12], gained=1.5))
)


OF_TWO_GROUPS = replace(
    server([10, 12, 14], room=500.5),
    prefill=PrefillTime(
        tokens=np.array([0.0, 1000.0]),
        seconds=np.array([0.0, 0.1]),
        token_s=0.0,
        groups=2,
        expert_seconds=np.zeros(2),
    ),
)


@pytest.mark.parametrize(
    ("steps", "share", "preempts"),
    [
        (server([10, 12, 14], room=500.5), 0.1, True),
        (BY_BATCH_AND_GAIN, 1.0, False),
        (OF_TWO_GROUPS, 0.1, True),
    ],
)
def test_an_empty_server_serves_as_a_new_one(steps, share, preempts) -> None:
    """The same 200 requests twice, long after each other: the room that was left for tokens to come is
    free again, whether requests ended within a pass or were preempted, and so are the groups.
    """
    at_s = 0.0007 + 0.0513 * np.arange(200.0)
    outputs = 20 + 7 * np.arange(200) % 41
    twice = Arrivals(np.append(at_s, at_s + 1000.0), np.full(400, 100), np.append(outputs, outputs))
    limits = Limits(256, 8192, reserved_output=share, balance_passes=4)
    met = replay(steps, LENGTHS, limits, twice)
    first, second = np.split(met.ttft_s, 2)
    assert bool(met.preemptions) == preempts
    np.testing.assert_allclose(first, second, atol=1e-9)


@pytest.mark.parametrize(("share", "first_ms"), [(0.01, 65), (0.02, 65 + 30)])
def test_prompts_wait_for_a_fuller_pass_but_not_for_ever(share, first_ms) -> None:
    """The second's 100 tokens beside the first's one are more than 1 % of the budget, and less than 2 %:
    three passes of 10 ms go by. It comes 5 ms before a pass ends, and its own pass takes 60 ms. The third
    waits as long again.
    """
    requests = Arrivals(np.array([0.0, 0.065, 0.165]), np.full(3, 100), np.array([30, 1, 1]))
    limits = Limits(256, 8192, batch_wait_passes=3, batch_wait_share=share)
    met = replay(server([10, 10]), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s * 1000, [60, first_ms, first_ms])


def test_the_rest_of_a_prompt_fills_a_pass_too() -> None:
    """Of the second's 100 tokens 60 are read in a pass. The other 40 beside the first's one are 0.5 % of the
    budget, at which prompts no longer wait.
    """
    requests = Arrivals(np.array([0.0, 0.065]), np.full(2, 100), np.array([30, 1]))
    limits = Limits(256, 8192, max_prompt_part=60, batch_wait_passes=9, batch_wait_share=0.005)
    met = replay(server([10, 10]), LENGTHS, limits, requests)
    both_parts_ms = (10 + 30) + (10 + 20)
    np.testing.assert_allclose(met.ttft_s[0] * 1000, both_parts_ms)
    np.testing.assert_allclose(met.ttft_s[1] * 1000, 5 + both_parts_ms)


def test_a_request_alone_waits_for_no_group() -> None:
    """Four requests, each long after the one before: 10 ms of a pass, and 200 tokens of 0.1 ms."""
    requests = Arrivals(10.0 * np.arange(4), np.full(4, 100), np.full(4, 5))
    met = replay(OF_TWO_GROUPS, LENGTHS, Limits(256, 8192, balance_passes=3), requests)
    np.testing.assert_allclose(met.ttft_s * 1000, 30)


def test_a_short_prompt_of_another_group_does_not_overtake_one_without_room() -> None:
    """The second needs 145 of 250 tokens. The third would fit, and waits until the first has left."""
    at_s = np.array([0.0, 0.1, 0.11])
    requests = Arrivals(at_s, np.array([100, 145, 10]), np.array([60, 1, 1]))
    steps = replace(OF_TWO_GROUPS, kv_share=130 / 250)
    met = replay(steps, LENGTHS, Limits(256, 8192, balance_passes=1), requests)
    _, second, third = met.ttft_s + at_s
    assert second == third
    assert second > met.e2e_s[0]


@pytest.mark.parametrize(("at_s", "ttft_ms"), [((0.415,), [325]), ((0.415, 0.415), [415, 415])])
def test_prompts_wait_for_those_of_all_groups_but_not_for_ever(at_s, ttft_ms) -> None:
    """Of two groups; a token takes 1 ms in experts, and another one if both groups have as many as the
    fuller.

    The first two are read at once, to 410 ms. The third comes within the second pass, and waits for the next
    third pass: 5 ms, a pass, and 10 + 2 * 100 + 100 ms. With a fourth of the other group both are read before
    that.
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 0.0, groups=2, expert_seconds=knots / 1000)
    count = len(at_s)
    outputs = np.array([30, 30, *([1] * count)])
    requests = Arrivals(np.array([0.0, 0.0, *at_s]), np.full(2 + count, 100), outputs)
    limits = Limits(256, 8192, balance_passes=3)
    met = replay(server([10, 10, 10, 10], prefill=prefill), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s * 1000, [410, 410, *ttft_ms])


@pytest.mark.parametrize(
    ("prefill", "seconds"),
    [
        (PREFILL, [0.05, 0.5 + 0.1]),
        (replace(PREFILL, order=PassOrder.ALTERNATING), [1.05, 1.1]),
    ],
)
def test_prompts_hide_behind_what_a_pass_loads(prefill, seconds):
    """Beside 50 tokens a prompt of 50 hides, but for its own attention; two take 50 tokens too many.

    In a pass of their own nothing hides: both load the weights in 1 s.
    """
    prompts = np.array([50.0, 100.0])
    np.testing.assert_allclose(prefill(50.0, prompts), seconds)
    alone = prefill.for_numbers()
    np.testing.assert_allclose([alone(50.0, 50.0, 50.0), alone(50.0, 100.0, 100.0)], seconds)


def test_prompts_take_no_time_off_a_pass() -> None:
    """A kernel of 200 tokens may run faster than one of 100."""
    prefill = PrefillTime(np.array([1.0, 100.0, 200.0]), np.array([0.0, 0.02, 0.01]), 0.0)
    assert float(prefill(np.array(100.0), np.array(100.0))) == 0.0
    assert prefill.for_numbers()(100.0, 100.0, 100.0) == 0.0


def test_a_pass_waits_for_the_fullest_group_but_experts_have_the_tokens_of_all() -> None:
    """100 tokens, of which one of two groups has all: it takes 1 ms and 0.5 ms of each as if both had as many
    (experts 1 ms of those that there are).
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 0.0005, groups=2, expert_seconds=knots / 1000)
    assert prefill.for_numbers()(0.0, 100.0, 200.0) == pytest.approx(0.2 + 0.1 + 0.1)


@pytest.mark.parametrize(("alpha", "spread", "possible"), [(0.5, 0.1, 0.1), (0.99, 0.2, 0.0179)])
def test_acceptance_differs_as_much_as_stated_or_as_it_can(alpha, spread, possible) -> None:
    assert possible_spread(alpha, spread) == pytest.approx(possible, rel=0.01)


@pytest.mark.parametrize(
    ("gamma", "gained", "spread", "deviation"),
    [(3, 2.2, 0.0, 7.4), (3, 2.2, 0.15, 42.0), (16, 15.706, 0.0179, 26.7), (16, 15.706, 0.2, 26.7)],
)
def test_drawn_iterations_gain_what_was_stated(gamma, gained, spread, deviation):
    """2.2 at alpha 0.61: a variance of 1.44 in each of 182; 0.15 of alpha is 0.5 tokens, or 41 iterations
    more. Around 0.99 they cannot differ by 0.2, but by 0.0179, the deviation of Beta(29.7, 0.3).
    """
    tokens = np.full(4000, round(182 * gained))
    drafting = server([10], gamma=gamma, gained=gained)
    passes = drawing.iterations(drafting, tokens, spread, seed=2)
    assert tokens.sum() / passes.sum() == pytest.approx(gained, rel=0.004)
    assert passes.std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("at_once", [1, 1000, 2_000_000])
def test_acceptance_by_position_is_drawn_by_position(at_once, monkeypatch):
    """The first token always, no other: 2 tokens in every iteration, however many requests are drawn
    together.
    """
    monkeypatch.setattr(drawing, "DRAWN_AT_ONCE", at_once)
    lengths = np.array([1, 2, 3, 4, 401, 401])
    alike = drawing.iterations(DRAFTS, lengths, 0.0, seed=1)
    assert alike.tolist() == [1, 1, 2, 2, 201, 201]
    outputs = np.array([1, 2, 7])
    plain = drawing.iterations(server([10]), outputs, 0.1, seed=1)
    assert plain.tolist() == [1, 2, 7]
    perfect = server([10], gamma=3, gained=4.0)
    certain = drawing.iterations(perfect, outputs, 0.1, seed=1)
    assert certain.tolist() == [1, 1, 2]


def test_arrivals_are_as_they_are_asked_for():
    """Uniform lengths, whole and at least 1; gamma gaps of shape 1/4, whose deviation is twice the mean; one
    rate.
    """
    lengths = Lengths(500.5, 2.0, 100.0, 9.0)
    drawn = arrivals(lengths, 50_000, 8.0, 0.25, seed=1, start=3.0)
    gaps = np.diff(drawn.at_s, prepend=3.0)
    end_s = 3.0 + 50_000 / 8.0
    assert drawn.at_s[-1] == pytest.approx(end_s)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.03)
    assert drawn.input_tokens.mean() == pytest.approx(500.5, rel=2e-3)
    assert drawn.input_tokens.std() == pytest.approx(100.0, rel=5e-3)
    assert drawn.input_tokens.min() == 327
    assert drawn.input_tokens.max() == 674
    # no wider than from 1 to twice the mean less 1
    assert set(drawn.output_tokens.tolist()) == {1, 2, 3}
    assert drawn.output_tokens.mean() == pytest.approx(2.0, rel=5e-3)
    together = arrivals(Lengths(5.0, 2.0), 3, None, 1.0, seed=1)
    assert together.at_s.tolist() == [0, 0, 0]
    assert together.input_tokens.tolist() == [5, 5, 5]
    later = arrivals(Lengths(5.0, 2.0), 3, None, 1.0, seed=1, start=7.0)
    assert later.at_s.tolist() == [7, 7, 7]
