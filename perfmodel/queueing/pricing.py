"""Computes the pass times of a server (`StepTimes`) from a scenario."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.drafts.model import ModelDraft
from perfmodel.operations import Array
from perfmodel.queueing.kv_room import sequences_of, with_prefix_once
from perfmodel.queueing.load import Lengths, Limits, whole_passes
from perfmodel.queueing.prefill_time import PrefillTime, prompt_s_of
from perfmodel.queueing.prefix import HitLaw, PrefixSettings, Reuse
from perfmodel.queueing.prompts import (
    engine_requests,
    layers_s,
    pass_order,
    prompt_attention_s,
    prompt_draft_s,
    prompt_experts_s,
    prompt_launches_s,
)
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.request_costs import EngineRequests
from perfmodel.speculation.scenario import Scenario

KNOTS = 128
"""Number of pass sizes whose times are computed. Times are interpolated linearly between them."""
RATE_ROUNDS = 3
"""Number of rounds if sessions have think times. Each round computes the times of prompts, and then the
request rate that follows from these times.
"""


class PrefillTimes(NamedTuple):
    """The time that prompts add to a pass, without a draft and with a draft that also reads the prompts."""

    without: PrefillTime
    drafting: PrefillTime

    def where(self, drafts: bool) -> PrefillTime:
        """The time with a draft if `drafts` is true, otherwise the time without a draft."""
        return self.drafting if drafts else self.without


def step_times(
    scenario: Scenario,
    lengths: Lengths,
    limits: Limits,
    gammas: Sequence[int],
    own: EngineRequests | None = None,
    reuse: Reuse | None = None,
    engines: Sequence[PrefixSettings] | None = None,
) -> list[StepTimes]:
    """The pass times of a server for each draft length.

    - own: request costs that replace the engine's own costs.
    - reuse: shared parts of prompts.
    - engines: settings of the prefix cache for each draft length. They replace the settings in `reuse`.

    Raises InputError for a length without a known acceptance.
    """
    drafted = np.asarray(gammas, np.int64)
    scenario = scenario.with_context_std(lengths.context_std)
    own = own or engine_requests(scenario)
    laws: Sequence[HitLaw | None] = [None] * len(gammas)
    if reuse is not None:
        caches = engines or [reuse.engine] * len(gammas)
        laws = [cache.law(scenario, gamma) for cache, gamma in zip(caches, gammas, strict=True)]
    sequences = _sequences(scenario, lengths.context, drafted, limits, own.reserved_bytes, reuse, laws)
    largest = np.clip(sequences.max(), 1.0, limits.max_num_seqs)
    batches = np.arange(1.0, largest + 1.0)
    decode_s = _iteration_s(scenario, batches[:, None], lengths.context, drafted)
    gained = scenario.tokens_per_iteration(drafted)
    survival = _survival(scenario, drafted)
    prefill = prefill_times(scenario, lengths, limits, bool(drafted.any()), own)
    own_s = own.request_s + own.prompt_token_s * lengths.input_mean
    times = []
    for at, gamma in enumerate(gammas):
        fitting = float(sequences[at])
        seats = _seats(fitting, gamma, lengths, limits)
        priced = max(seats, 1)  # a server without a seat has the times of one request
        own_survival = survival[: gamma + 1] if survival is not None and gamma else None
        passes = StepTimes(
            gamma=gamma,
            tokens_per_iteration=float(gained[at]),
            decode_s=decode_s[:priced, at],
            prompt_s=np.zeros(priced),  # see `_with_prompts`
            seats=seats,
            kv_share=1.0 / fitting if fitting > 0 else np.inf,
            own_s=own_s,
            passes_ahead=_passes_ahead(scenario, own, gamma),
            prefill=prefill.where(gamma > 0),
            survival=own_survival,
        )
        times.append(_with_prompts(passes, lengths, limits, fitting, reuse, laws[at]))
    return times


def _sequences(
    scenario: Scenario,
    context: float,
    drafted: NDArray[np.int64],
    limits: Limits,
    reserved_bytes: float,
    reuse: Reuse | None,
    laws: Sequence[HitLaw | None],
) -> Array:
    """Number of requests whose caches fit, ``[draft length]``, if a common prefix is cached only once."""
    sequences = sequences_of(scenario, context, drafted, limits, reserved_bytes)
    if reuse is None or not reuse.prefix:
        return sequences
    shared = np.array([reuse.shared(law) for law in laws if law is not None])
    unshared = sequences_of(scenario, context - shared, drafted, limits, reserved_bytes)
    return with_prefix_once(sequences, unshared, reuse.share)


def _seats(fitting: float, gamma: int, lengths: Lengths, limits: Limits) -> int:
    """The largest number of concurrent requests. Three things limit it: the seats of the server, the tokens
    that a pass verifies, and the memory. A part of the memory may be reserved for output that is still to be
    decoded. On average, a running request still has to decode as many tokens as it has decoded.
    """
    to_come = max(lengths.context - lengths.input_mean, 0.0)
    reserved = 1.0 + limits.reserved_output * to_come / lengths.context
    budget = (limits.max_num_batched_tokens - 1) // (gamma + 1)
    return max(int(min(fitting / reserved, limits.seats(gamma > 0), budget)), 0)


def _survival(scenario: Scenario, drafted: NDArray[np.int64]) -> Array | None:
    """P(at least j drafted tokens are accepted), from j = 0. The result is None for a constant acceptance, or
    without an acceptance.
    """
    known = scenario.acceptance
    if known is None or known.alpha is not None:
        return None
    return known.survival(int(drafted.max(initial=0)))


def _passes_ahead(scenario: Scenario, own: EngineRequests, gamma: int) -> float:
    """Number of passes that are already queued on the device when a request arrives. It is 0 with a draft
    model, because the host starts the passes of such a draft one by one.
    """
    if gamma and isinstance(scenario.draft, ModelDraft):
        return 0.0
    return own.passes_ahead


def _with_prompts(
    passes: StepTimes,
    lengths: Lengths,
    limits: Limits,
    fitting: float,
    reuse: Reuse | None,
    law: HitLaw | None,
) -> StepTimes:
    """The passes with the time that a prompt adds.

    - fitting: number of requests whose caches fit.

    On average, a pass over n requests reads n A / (D - 1) prompts. The time of one prompt is its share of the
    time that these prompts add.
    """
    assert passes.prefill is not None
    decoding = passes.batches * (passes.gamma + 1.0)
    ending = passes.batches * passes.tokens_per_iteration / lengths.decoded
    left = np.maximum(limits.max_num_batched_tokens - decoding, 1.0)
    left_each = left / passes.uneven_groups
    alone = whole_passes(lengths.input_mean / left_each, lengths.input_cv)
    prompt_s = prompt_s_of(passes.prefill, left, decoding, ending, alone, lengths.input_mean)
    if reuse is None or law is None:
        return replace(passes, prompt_s=prompt_s)
    between_ends_s = passes.decode_s / ending
    for _ in range(RATE_ROUNDS if reuse.think_s else 1):
        cached = reuse.cached(law, fitting, lengths, between_ends_s + prompt_s)
        alone = cached.passes(left_each)
        prompt_s = prompt_s_of(passes.prefill, left, decoding, ending, alone, cached.read, cached.pairs)
    return replace(passes, prompt_s=prompt_s, cached=cached)


def _iteration_s(scenario: Scenario, batch: Array, context: float, drafted: NDArray[np.int64]) -> Array:
    """Seconds of an iteration (of a baseline step if the length is 0), over ``[running batch, draft
    length]``.
    """
    verification = scenario.target_pass_s(batch, context, drafted.astype(np.float64) + 1.0)
    seconds = np.broadcast_to(verification, (batch.size, drafted.size))
    if not drafted.any():
        return seconds
    draft = scenario.draft_token_s(batch, np.asarray([context]), drafted)
    overhead = scenario.overhead_s(batch, context)
    return np.asarray(seconds + np.where(drafted > 0, drafted * draft + overhead, 0.0))


def prefill_times(
    scenario: Scenario, lengths: Lengths, limits: Limits, drafts: bool, of_engine: EngineRequests
) -> PrefillTimes:
    """The times that prompts add to a pass, without a draft and with a draft. The times follow from the
    roofline of the scenario and the request costs of the engine.

    - drafts: whether a draft also reads prompts. If not, both times are those of the target alone.
    """
    groups = scenario.target_shard.groups
    prompt = lengths.input_mean
    most = float(limits.max_num_batched_tokens)
    tokens = np.unique(np.round(np.geomspace(1.0, most + prompt, KNOTS)))
    square = prompt * (1.0 + lengths.input_cv**2)  # attention is quadratic in the length of a prompt
    token_s = prompt_attention_s(scenario, square) / square / groups
    prompt_s = np.asarray(layers_s(scenario, tokens, of_engine))
    read = min(prompt, most)
    without = PrefillTime(
        tokens,
        prompt_s,
        token_s=token_s,
        pass_s=prompt_launches_s(scenario, of_engine, read, False),
        cached_s=float(token_s / square),
        order=limits.order or pass_order(scenario, of_engine),
        groups=groups,
        expert_seconds=prompt_experts_s(scenario, tokens, of_engine) if groups > 1 else 0.0,
        balanced=limits.balance_passes > 0,
    )
    if not drafts:
        return PrefillTimes(without, without)
    draft_s = float(prompt_draft_s(scenario, prompt))
    drafting = replace(
        without,
        token_s=token_s + draft_s / prompt / groups,
        pass_s=prompt_launches_s(scenario, of_engine, read, True),
    )
    return PrefillTimes(without, drafting)
