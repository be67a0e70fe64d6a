"""Decides at which loads the closed form (the queueing formulas) is accurate. At all other loads, a replay (a
simulation) computes the prediction.

The limits come from comparisons of the closed form with replays of the same requests, for random servers and
loads (tests/queueing/test_closed_form_and_replay.py and tests/attack/loads.py). Within the limits, closed
form and replay differ by at most 3 % in mean TPOT and throughput. The mean TTFT differs by at most 10 % at a
request rate, and by at most 15 % with clients.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.load.loop import Loop
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.operations import Array
from perfmodel.queueing.chain import TINY
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prefix import CachedPrompts
from perfmodel.queueing.saturation import prompts_per_pass
from perfmodel.queueing.served_load import ServedLoad
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.served_requests import PassOrder

Mask = NDArray[np.bool_]
"""Whether a statement holds at each load: ``[load]``."""


class Doubt(StrEnum):
    """A reason why the closed form may be inaccurate at a load."""

    NEAR_SATURATION = "the load is near saturation"
    CROWDED = "seats or caches are often full"
    SPLIT_PROMPTS = "prompts share passes and are split over several passes"
    NOT_POISSON = "arrivals are not Poisson"
    SHORT_ANSWERS = "a request decodes in less time than a few prefills take"
    FEW_ITERATIONS = "a request takes few iterations"
    CHANGING_LENGTH = "the draft length changes near this number of clients"
    SWINGING = "the number of running requests varies for a long time"
    TIGHT_MEMORY = "the caches of few requests fill the memory"
    LOCKSTEP = "clients with equal output lengths stay in step"
    BUNCHED = "clients' next requests arrive in bunches"
    EVICTED = "the running batch leaves little room for the prefix cache"
    IDLE_SESSIONS = "few requests run, and sessions lose less of their contexts"
    CUT_PROMPTS = "a pass takes a part of each prompt"
    RARE_POLLS = "the server looks for new requests every few passes"
    BATCH_WAITS = "prompts wait for a fuller pass"
    GROUP_WAITS = "data-parallel groups wait for each other's prompts"
    PROMPTS_FIRST = "nothing decodes while prompts wait"
    UNLIKE_PROMPTS = "prompts with and without hits share passes"


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Limits of the closed form that differ between open loops (request rates) and closed loops (clients).

    - saturation: share of the saturation rate above which TTFT may be wrong by 20 %.
    - hits: a share of the prefix hits of an idle server. With fewer hits, sessions or waiting clients lose
      their cached contexts.
    """

    saturation: float
    hits: float


OPEN = LoopLimits(saturation=0.9, hits=2.0 / 3.0)
CLOSED = LoopLimits(saturation=0.97, hits=0.97)
MOST_CROWDED = 0.05
"""If the server runs its largest number of requests for more than this share of the time, TTFT may be wrong
by 50 %.
"""
LEAST_BUSY = 0.5
"""Share of the saturation rate above which split prompts, and arrivals that are not Poisson, matter."""
LEAST_PROMPTS = 1.05
"""From this number of prompts per pass on, TTFT may be 30 % too low on a busy server."""
MOST_PROMPTS = 3.0
"""From this number of prompts per pass on, the TTFT of the closed form is accurate again."""
LEAST_PREFILLS = 8
"""If a request decodes for less time than this number of prefills takes, TPOT may be wrong by 3 %."""
LEAST_SPLIT_PREFILLS = 12
"""The same limit for prompts that take several passes."""
LEAST_ITERATIONS = 10
"""If a request has fewer iterations with a draft than this, TPOT may be wrong by 10 %, because the last
iteration matters.
"""
MOST_AT_OTHER_LENGTHS = 0.1
"""If a server with clients spends more than this share of the time at other draft lengths, latencies may be
wrong by 15 %.
"""
MOST_ENDS = 1.0
"""Largest mean number of outputs that may end while a client's next request is on its way
(`ends_on_the_way`). With more, TTFT may be 40 % too low and TPOT 5 % too high. The reason is that no output
ends during the long passes that process prompts. The next prompts then arrive together and share passes.
"""
MOST_DISPERSION = 4.0
"""Variance of the number of running requests divided by its mean (1 for a Poisson distribution). Above this
value, even a replay of thousands of requests does not show the whole variation.
"""
FEW_SEATS = 4
"""If memory holds at most this many requests, requests with longer caches than the mean leave no room for
others.
"""
MOST_PROMPT_SPREAD = 0.5
"""Largest coefficient of variation of the computed tokens per prompt, for engines with separate passes for
prompts. Above it, TPOT may be wrong by 15 %, because a short prompt takes more time than its share of the
tokens.
"""


def doubts(
    question: TrafficQuery, loop: Loop, steps: StepTimes, served: ServedLoad, loads: Array
) -> list[tuple[Doubt, ...]]:
    """The reasons why the closed form may be inaccurate, for each load. There are none at a rate that
    saturates the server, because a replay has no steady state there either.
    """
    limits = OPEN if loop.opens else CLOSED
    where = {
        **_of_load(question, loop, steps, served, limits),
        **_of_requests(question, loop, steps, loads),
        **_of_hits(question, loop, steps, served, limits),
    }
    return [
        () if served.saturated[load] else tuple(doubt for doubt, holds in where.items() if holds[load])
        for load in range(loads.size)
    ]


def _of_load(
    question: TrafficQuery, loop: Loop, steps: StepTimes, served: ServedLoad, limits: LoopLimits
) -> dict[Doubt, Mask]:
    """Doubts about how full the server is, and how much this varies."""
    load_share = served.requests_per_s / served.saturation_rate
    full_share = served.share[:, -1]
    crowded = full_share > MOST_CROWDED
    opens = np.full(load_share.shape, loop.opens)
    busy = opens & (load_share > LEAST_BUSY)
    changing = _at_other_lengths(steps, served) > MOST_AT_OTHER_LENGTHS
    swinging = _dispersion(served) > MOST_DISPERSION
    bunched = ends_on_the_way(steps, loop.lengths, served.running) > MOST_ENDS
    return {
        Doubt.NEAR_SATURATION: load_share > limits.saturation,
        Doubt.CROWDED: opens & crowded,
        Doubt.SPLIT_PROMPTS: busy & _splits(steps, loop, question.limits, served),
        Doubt.NOT_POISSON: _uneven(loop, busy),
        Doubt.CHANGING_LENGTH: ~opens & changing,
        Doubt.SWINGING: opens & swinging,
        Doubt.BUNCHED: ~opens & bunched,
        Doubt.TIGHT_MEMORY: crowded & _tight(steps, question.limits),
    }


def _of_requests(question: TrafficQuery, loop: Loop, steps: StepTimes, loads: Array) -> dict[Doubt, Mask]:
    """Doubts about the requests and the order of passes, which are the same at every load."""
    in_step = question.in_lockstep and not loop.opens
    everywhere = {
        Doubt.SHORT_ANSWERS: _short(steps, loop, question.limits),
        Doubt.FEW_ITERATIONS: _few_iterations(steps, loop),
        Doubt.CUT_PROMPTS: question.limits.max_prompt_part is not None,
        Doubt.RARE_POLLS: question.limits.poll_passes > 1,
        Doubt.BATCH_WAITS: question.limits.batch_wait_passes > 0,
        Doubt.GROUP_WAITS: question.limits.balance_passes > 0,
        Doubt.PROMPTS_FIRST: _prompts_first(steps),
    }
    masks = {doubt: np.full(loads.shape, holds) for doubt, holds in everywhere.items()}
    masks[Doubt.LOCKSTEP] = in_step & (loads > 1.0)
    return masks


def _splits(steps: StepTimes, loop: Loop, limits: Limits, served: ServedLoad) -> Mask:
    """Whether a pass has room for one to three prompts."""
    prompts = prompts_per_pass(steps, loop.lengths, limits, served.running)
    return np.asarray((prompts > LEAST_PROMPTS) & (prompts < MOST_PROMPTS))


def ends_on_the_way(steps: StepTimes, lengths: Lengths, running: Array) -> Array:
    """The mean number of outputs that end while the next request of a client is on its way to the server, for
    each number of running requests. A request is on its way for `own_s` seconds. The formula assumes that
    passes in this time only decode.
    """
    passes = steps.own_s / steps.decode_at(running)
    ends_per_pass = running / steps.iterations(lengths)
    return np.asarray(passes * ends_per_pass)


def _uneven(loop: Loop, busy: Mask) -> Mask:
    """Whether arrivals that are not Poisson matter. Bursts always matter. More regular arrivals only matter
    on a busy server.
    """
    if not loop.opens or loop.burstiness == 1:
        return np.zeros_like(busy)
    return busy if loop.burstiness > 1 else np.ones_like(busy)


def _short(steps: StepTimes, loop: Loop, limits: Limits) -> bool:
    """Whether a request decodes in less time than a few prefills."""
    splits = loop.lengths.input_mean > limits.max_num_batched_tokens
    prefills = LEAST_SPLIT_PREFILLS if splits else LEAST_PREFILLS
    return steps.alone_s(loop.lengths) < prefills * float(steps.prompt_s[0])


def _few_iterations(steps: StepTimes, loop: Loop) -> bool:
    return steps.gamma > 0 and steps.iterations(loop.lengths) < LEAST_ITERATIONS


def _tight(steps: StepTimes, limits: Limits) -> bool:
    """Whether memory, and not the engine's setting, limits the server to a few seats."""
    return steps.seats <= FEW_SEATS and steps.seats < limits.seats(steps.gamma > 0)


def _prompts_first(steps: StepTimes) -> bool:
    return steps.prefill is not None and steps.prefill.order is PassOrder.PROMPTS_FIRST


def _dispersion(served: ServedLoad) -> Array:
    """Variance over mean of the number of running requests, by load."""
    n = np.arange(float(served.share.shape[1]))
    mean = served.share @ n
    square = served.share @ n**2
    return np.asarray(square / np.maximum(mean, TINY) - mean)


def _at_other_lengths(steps: StepTimes, served: ServedLoad) -> Array:
    """Share of time at other draft lengths than the most usual one, by load."""
    if not steps.table:
        return np.zeros(served.running.shape)
    drafted = np.array([t.gamma for t in steps.table])
    decoding = served.share[:, 1:]
    by_length = [decoding @ (drafted == gamma) for gamma in np.unique(drafted)]
    return np.asarray(decoding.sum(1) - np.max(by_length, 0))


def _of_hits(
    question: TrafficQuery, loop: Loop, steps: StepTimes, served: ServedLoad, limits: LoopLimits
) -> dict[Doubt, Mask]:
    """Doubts about the hits in the prefix cache; none without a prefix cache."""
    cached = steps.cached
    if cached is None:
        return {}
    evicted = _evicted(loop, cached, served, limits)
    return {
        Doubt.EVICTED: evicted,
        Doubt.IDLE_SESSIONS: _idle_sessions(question, loop, cached, served) & ~evicted,
        Doubt.UNLIKE_PROMPTS: np.full(evicted.shape, _unlike_prompts(question, steps, cached)),
    }


def _evicted(loop: Loop, cached: CachedPrompts, served: ServedLoad, limits: LoopLimits) -> Mask:
    """Whether a full server evicts the contexts of clients that wait for a seat, or of sessions that return
    after a while. Requests that arrive at a rate, and never return, have no such contexts.
    """
    if loop.opens and not loop.think_s:
        return np.zeros(served.running.shape, np.bool_)
    hits_of_idle = cached.hit_rate[0]
    kept_share = cached.found(served.share) / max(hits_of_idle, TINY)
    return np.asarray(kept_share < limits.hits)


def _idle_sessions(question: TrafficQuery, loop: Loop, cached: CachedPrompts, served: ServedLoad) -> Mask:
    """Whether an almost idle server evicts fewer contexts of sessions than the closed form predicts. This
    needs sessions that return after a while, and a cache that even an idle server does not keep for all.
    """
    all_returning = 1.0 - 1.0 / question.turns  # every turn of a session except the first
    forgets = cached.returning < CLOSED.hits * all_returning
    return np.asarray((served.running < 1) & (loop.think_s > 0) & forgets)


def _unlike_prompts(question: TrafficQuery, steps: StepTimes, cached: CachedPrompts) -> bool:
    """Whether the predicted time of prompts with hits is too long, because they share separate passes with
    prompts without hits.
    """
    separate_passes = steps.prefill is not None and steps.prefill.alone
    return question.dp > 1 and separate_passes and cached.cv > MOST_PROMPT_SPREAD
