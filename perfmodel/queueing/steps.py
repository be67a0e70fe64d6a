"""Times of a server's passes, by the number of decoding requests: the part of a `Scenario` that queueing
needs.

A pass over n decoding requests takes `decode_s[n-1]`. A prompt in the same pass adds `prompt_s[n-1]`: the
same roofline on the tokens of both, the prompt's own quadratic attention and the draft's prefill.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perfmodel.drafts.model import ModelDraft
from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths, Limits, whole_passes
from perfmodel.queueing.prefix import CachedPrompts, HitLaw, PrefixSettings, Reuse
from perfmodel.queueing.prompts import (
    engine_requests,
    layers_s,
    pass_order,
    prompt_attention_s,
    prompt_draft_s,
    prompt_experts_s,
    prompt_launches_s,
)
from perfmodel.specs.calibrations.by_engine import engine_of
from perfmodel.specs.engines.request_costs import EngineRequests
from perfmodel.specs.engines.serving import PassOrder, serving_engines
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.scenario import Scenario

KNOTS = 128
"""Number of pass sizes that are priced. Time is linear between them."""
RATE_ROUNDS = 3
"""Rounds between the prompts' times and the rate that these allow, for sessions that return after a while."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The time that prompts add to a pass. The layers cost by all tokens of the pass, attention and the draft
    by the prompts' own tokens.

    tokens, seconds: knots of the time of a pass without attention. token_s: attention and draft per prompt
    token. pass_s: additional time of a pass that reads prompts. cached_s: attention per prompt token and per
    cached token before it. order: whether prompts share passes with decoding requests. groups: data-parallel
    groups of attention that wait for each other's prompts; else 1. expert_seconds: the part of `seconds` that
    depends on the tokens of all groups; the rest, attention and the draft wait for the fullest group.
    """

    tokens: Array
    seconds: Array
    token_s: Array | float
    pass_s: float = 0.0
    cached_s: float = 0.0
    order: PassOrder = PassOrder.MIXED
    groups: int = 1
    expert_seconds: Array | float = 0.0

    @property
    def alone(self) -> bool:
        """Whether prompts have passes of their own."""
        return self.order is not PassOrder.MIXED

    def slowed(self, factor: float) -> "Reading":
        """All times multiplied by a factor."""
        times = ("seconds", "token_s", "pass_s", "cached_s", "expert_seconds")
        return replace(self, **{name: factor * getattr(self, name) for name in times})

    def __call__(self, decoding: Array, read: Array) -> Array:
        """Seconds that `read` prompt tokens, evenly spread over the groups, add to a pass that also runs
        `decoding` tokens.
        """
        if self.alone:
            added = np.interp(read, self.tokens, self.seconds)
        else:
            both = np.interp(decoding + read, self.tokens, self.seconds)
            without = np.interp(decoding, self.tokens, self.seconds)
            added = np.maximum(both - without, 0.0)
        return np.asarray(added + self.token_s * read + self.pass_s)

    def of_one(self) -> Callable[[float, float, float], float]:
        """The function of `__call__` for plain numbers instead of arrays, which is faster. Its third argument
        is the prompt tokens of the fullest group times the groups.
        """
        token_s = float(self.token_s)
        pass_s = self.pass_s
        if self.groups == 1:
            layers_s = self._added_of_one(self.seconds)
            return lambda decoding, read, _: layers_s(decoding, read) + token_s * read + pass_s
        waiting_s = self._added_of_one(self.seconds - self.expert_seconds)
        experts_s = self._added_of_one(np.asarray(self.expert_seconds))
        return lambda decoding, read, fullest: (
            waiting_s(decoding, fullest) + experts_s(decoding, read) + token_s * fullest + pass_s
        )

    def _added_of_one(self, seconds: Array) -> Callable[[float, float], float]:
        """`_added_s` for plain numbers."""
        knots = self.tokens.tolist()
        values = seconds.tolist()
        slopes = (np.diff(seconds) / np.diff(self.tokens)).tolist()
        last = len(knots) - 1

        def pass_s(tokens: float) -> float:
            knot = bisect(knots, tokens, 1, last) - 1
            return float(values[knot] + (tokens - knots[knot]) * slopes[knot])

        if self.alone:
            return lambda decoding, read: pass_s(read)
        return lambda decoding, read: max(pass_s(decoding + read) - pass_s(decoding), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """Passes that draft `gamma` tokens, by running batch 1 ... `seats`.

    tokens_per_iteration: gain of a request per pass, including the bonus token. seats: the most concurrent
    requests, by max_num_seqs, the KV room and the token budget of a pass (0: not one fits). kv_share: share
    of the room that one request takes. own_s: seconds of a request outside all passes. passes_ahead: passes
    that the device already has when a request arrives. reading: the time that several prompts in a pass add,
    of which `prompt_s` is the share of one; None if each adds that. survival: P(at least j drafted tokens are
    accepted), from j = 0; None for a constant acceptance. table: the passes at each n of a server that
    changes its length; the other fields then give the same times with a constant `tokens_per_iteration`.
    cached: the prompts with a prefix cache.
    """

    gamma: int
    tokens_per_iteration: float
    decode_s: Array
    prompt_s: Array
    seats: int
    kv_share: float
    own_s: float = 0.0
    passes_ahead: float = 0.0
    reading: Reading | None = None
    survival: Array | None = None
    table: "tuple[StepTimes, ...]" = ()
    cached: CachedPrompts | None = None

    @property
    def batches(self) -> Array:
        """1 ... seats; at least [1]."""
        return np.arange(1.0, self.decode_s.size + 1)

    def prompt_tokens(self, lengths: Lengths, batch: Floats) -> Floats:
        """Mean number of prompt tokens that are computed."""
        if self.cached is None:
            return lengths.input_mean
        return self.cached.at(self.cached.read, batch)

    def prompt_cv(self, lengths: Lengths) -> float:
        """Coefficient of variation of the computed prompt tokens, between prompts."""
        return lengths.input_cv if self.cached is None else self.cached.cv

    def alone_s(self, lengths: Lengths) -> float:
        """Seconds of decoding for an answer that runs alone."""
        return self.iterations(lengths) * float(self.decode_s[0])

    def iterations(self, lengths: Lengths) -> float:
        """Mean iterations of an answer. The last one gains more than the remaining tokens."""
        gained = self.tokens_per_iteration
        return max((lengths.decoded + excess(self.gamma, round(gained, 9))) / gained, 1.0)

    def slowed(self, factor: float) -> "StepTimes":
        """All times of passes multiplied by a factor."""
        slower = {steps: steps.slowed(factor) for steps in set(self.table)}
        return replace(
            self,
            decode_s=factor * self.decode_s,
            prompt_s=factor * self.prompt_s,
            reading=self.reading and self.reading.slowed(factor),
            table=tuple(slower[steps] for steps in self.table),
        )

    def decode_at(self, batch: Array) -> Array:
        """`decode_s`, interpolated between whole batches."""
        return np.interp(batch, self.batches, self.decode_s)

    @property
    def running_s(self) -> Array:
        """Seconds of a pass as it runs. In a table, `decode_s` is rescaled to equal gains instead."""
        return self.decode_s * (self.gains / self.tokens_per_iteration)

    @property
    def gains(self) -> Array:
        """`tokens_per_iteration` at each running batch."""
        if not self.table:
            return np.full(self.decode_s.size, self.tokens_per_iteration)
        return np.array([t.tokens_per_iteration for t in self.table])

    def prompt_at(self, batch: Array) -> Array:
        """`prompt_s`, interpolated between whole batches."""
        return np.interp(batch, self.batches, self.prompt_s)


def step_times(
    scenario: Scenario,
    lengths: Lengths,
    limits: Limits,
    gammas: Sequence[int],
    own: EngineRequests | None = None,
    reuse: Reuse | None = None,
    engines: Sequence[PrefixSettings] | None = None,
) -> list[StepTimes]:
    """The passes of each draft length.

    own: replaces the engine's own constants. reuse: shared parts of prompts. engines: the engine of the cache
    for each length, instead of that in `reuse`. Raises InputError for a length without a known acceptance.

    A pass at n meets n A / (D - 1) prompts. The time of one prompt is its share when that many are in the
    pass.
    """
    context = lengths.context
    drafted = np.asarray(gammas, np.int64)
    scenario = scenario.with_context_std(lengths.context_std)
    own = own or engine_requests(scenario)
    sequences = sequences_of(scenario, context, drafted, limits, own.reserved_bytes)
    laws = list[HitLaw]()
    if reuse is not None:
        caches = engines or [reuse.engine] * len(gammas)
        laws = [cache.law(scenario, gamma) for cache, gamma in zip(caches, gammas, strict=True)]
        if reuse.prefix:
            shared = np.array([reuse.shared(law) for law in laws])
            unshared = sequences_of(scenario, context - shared, drafted, limits, own.reserved_bytes)
            sequences = _with_prefix_once(sequences, unshared, reuse.share)
    largest = np.clip(sequences.max(), 1.0, limits.max_num_seqs)
    n = np.arange(1.0, largest + 1.0)[:, None]
    decode = _iteration_s(scenario, n, context, drafted)
    gained = scenario.tokens_per_iteration(drafted)
    survival = None
    known = scenario.acceptance
    if known is not None and known.alpha is None:
        survival = known.survival(int(drafted.max(initial=0)))
    readings = readings_of(scenario, lengths, limits, bool(drafted.any()), own)
    own_s = own.request_s + own.prompt_token_s * lengths.input_mean
    to_come = max(context - lengths.input_mean, 0.0)  # of a running request, as much as it has decoded
    reserved = 1.0 + limits.reserved_output * to_come / context
    times = []
    for at, gamma in enumerate(gammas):
        budget = (limits.max_num_batched_tokens - 1) // (gamma + 1)
        seats = max(int(min(sequences[at] / reserved, limits.seats(gamma > 0), budget)), 0)
        reading = readings[gamma > 0]
        batch = n[: max(seats, 1), 0]
        cached = None
        decoding = batch * (gamma + 1.0)
        ending = batch * gained[at] / lengths.decoded
        left = np.maximum(limits.max_num_batched_tokens - decoding, 1.0)
        alone = whole_passes(lengths.input_mean / left, lengths.input_cv)
        prompt_s = prompt_s_of(reading, left, decoding, ending, alone, lengths.input_mean)
        if reuse is not None:
            decoding_s = decode[: batch.size, at] / ending
            for _ in range(RATE_ROUNDS if reuse.think_s else 1):
                cached = reuse.cached(laws[at], float(sequences[at]), lengths, decoding_s + prompt_s)
                alone = cached.passes(left)
                prompt_s = prompt_s_of(reading, left, decoding, ending, alone, cached.read, cached.pairs)
        kv_share = 1.0 / sequences[at] if sequences[at] > 0 else np.inf
        handed_out = own.passes_ahead
        if gamma and isinstance(scenario.draft, ModelDraft):
            handed_out = 0.0
        times.append(
            StepTimes(
                gamma=gamma,
                tokens_per_iteration=float(gained[at]),
                decode_s=decode[: max(seats, 1), at],
                prompt_s=prompt_s,
                seats=seats,
                kv_share=kv_share,
                own_s=own_s,
                passes_ahead=handed_out,
                reading=reading,
                survival=survival[: gamma + 1] if survival is not None and gamma else None,
                cached=cached,
            )
        )
    return times


def _with_prefix_once(sequences: Array, unshared: Array, share: float) -> Array:
    """Sequences that fit where the prefix that a `share` of them begins with is cached once for all,
    ``[draft length]``.

    sequences: that fit with all of their contexts. unshared: that fit without the prefix.
    """
    prefix_room = (1.0 / sequences - 1.0 / unshared) / share
    return np.where(sequences > 0, np.maximum(sequences, unshared * (1.0 - prefix_room)), sequences)


def _iteration_s(scenario: Scenario, batch: Array, context: float, drafted: NDArray[np.int64]) -> Array:
    """Seconds of an iteration, a baseline step where none is drafted, ``[running batch, draft length]``."""
    verification = scenario.target_pass_s(batch, context, drafted.astype(np.float64) + 1.0)
    seconds = np.broadcast_to(verification, (batch.size, drafted.size))
    if not drafted.any():
        return seconds
    draft = scenario.draft_token_s(batch, np.asarray([context]), drafted)
    overhead = scenario.overhead_s(batch, context)
    return np.asarray(seconds + np.where(drafted > 0, drafted * draft + overhead, 0.0))


@cache
def excess(gamma: int, gained: float) -> float:
    """Mean number of tokens that the last iteration of an answer gains beyond the answer's end: E[X^2] / (2
    E[X]) - 1/2 (renewal theory). X: tokens of an iteration.
    """
    alpha = float(alpha_from_tokens_per_iteration(gained, float(gamma))) if gained > 1 else 0.0
    position = np.arange(gamma + 1.0)
    return float((2.0 * position + 1.0) @ alpha**position / (2.0 * gained) - 0.5)


def prompt_s_of(
    reading: Reading,
    left: Array,
    decoding: Array,
    ending: Array,
    alone: Array,
    tokens: Floats,
    pairs: Floats = 0.0,
) -> Array:
    """Seconds that a prompt adds to a pass, by running batch, given mean prompt tokens and pairs of a prompt
    token and a cached one.

    left: prompt tokens for which a pass has room. decoding: other tokens of the pass. ending: mean number of
    requests that end in it (Poisson). alone: passes in which a prompt is read that meets no other.
    """
    # passes with prompts are those in which any comes or goes on, and at least as many as these fill
    together = np.minimum(ending / -np.expm1(-alone * ending), left / tokens)
    return reading(decoding, together * tokens) / together + reading.cached_s * pairs


def sequences_of(
    scenario: Scenario, context: Floats, drafted: NDArray[np.int64], limits: Limits, reserved_bytes: float
) -> Array:
    """Requests whose caches fit in addition to the weights, not rounded, ``[draft length]``.

    reserved_bytes: for activations and CUDA graphs, where the engine's account leaves them out.
    """
    held = np.asarray(context) + _unused_tokens(scenario, drafted)
    room = memory_of(scenario, 1.0, held, drafted.astype(float), limits.memory_fraction)
    if scenario.account.complete:
        each = np.asarray(room.sequences)
    else:
        each = np.asarray((room.pool_bytes - reserved_bytes) / room.sequence_bytes)
    return scenario.target_shard.groups * np.broadcast_to(each, drafted.shape)


def _unused_tokens(scenario: Scenario, drafted: NDArray[np.int64]) -> Array:
    """Tokens of its cache that a running request holds and does not use, on average: half of its last
    block, and the room for drafted tokens of coming iterations, beside those that a pass verifies,
    ``[draft length]``.
    """
    calibration = scenario.machine.calibration
    engine = serving_engines().get(engine_of(calibration) or "")
    if engine is None:
        return np.zeros(drafted.shape)
    slots = engine.drafted_slots.of(calibration.version) if engine.drafted_slots else 2
    return (engine.prefix.block - 1.0) / 2.0 + (slots - 1.0) * drafted.astype(float)


def readings_of(
    scenario: Scenario, lengths: Lengths, limits: Limits, drafts: bool, of_engine: EngineRequests
) -> tuple[Reading, Reading]:
    """The time that prompts add to a pass, by the scenario's roofline and the engine, without and with a
    draft.
    """
    groups = scenario.target_shard.groups  # among which prompts are spread evenly
    prompt = lengths.input_mean
    most = float(limits.max_num_batched_tokens)
    tokens = np.unique(np.round(np.geomspace(1.0, most + prompt, KNOTS)))
    square = prompt * (1.0 + lengths.input_cv**2)  # quadratic attention weighs long prompts by their square
    token_s = prompt_attention_s(scenario, square) / square / groups
    draft = float(prompt_draft_s(scenario, prompt)) if drafts else 0.0
    prompt_s = np.asarray(layers_s(scenario, tokens, of_engine))
    read = min(prompt, most)
    without = Reading(
        tokens,
        prompt_s,
        token_s=token_s,
        pass_s=prompt_launches_s(scenario, of_engine, read, False),
        cached_s=float(token_s / square),
        order=limits.order or pass_order(scenario, of_engine),
        groups=groups if limits.balance_passes else 1,
        expert_seconds=prompt_experts_s(scenario, tokens, of_engine) if limits.balance_passes else 0.0,
    )
    drafting_s = prompt_launches_s(scenario, of_engine, read, True)
    return without, replace(without, token_s=token_s + draft / prompt / groups, pass_s=drafting_s)
