"""Predicts the passes of the servers (*instances*) of a prefill pool and a decode pool."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfmodel.answers.load.pool_question import Instances, transfer_of
from perfmodel.answers.load.pool_state import Prompts
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.answers.question import Query, resolve, resolve_costs
from perfmodel.queueing.kv_room import sequences_of
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prefix import CachedPrompts, Reuse
from perfmodel.queueing.pricing import prefill_times, step_times
from perfmodel.queueing.prompts import engine_requests, prompt_alone_s
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation import Scenario
from perfmodel.speculation.capacity import draft_size, draft_stored_bytes

LONGEST_DRAFT = 8
"""The largest draft length in the search for the best draft length."""


def decoder_of(question: TrafficQuery) -> TrafficQuery:
    """The question with the draft of the decode pool."""
    if question.decode_draft == "run":
        return question
    if question.decode_draft == "none":
        return replace(question, gamma=0, tokens_per_iteration=None)
    return replace(question, draft=question.decode_draft, decode_draft="run")


def lengths_of(question: TrafficQuery, scenario: Scenario) -> list[int]:
    """The draft lengths to predict: 0 and the lengths that the question states. If the question states no
    length, all lengths up to `LONGEST_DRAFT` are predicted.
    """
    stated = question.stated_lengths
    if stated is not None:
        return sorted({0, *stated})
    return list(range(scenario.longest(min(question.max_gamma, LONGEST_DRAFT)) + 1))


def scenario_of(question: TrafficQuery, instances: Instances) -> Scenario:
    """The scenario of one decode instance."""
    return resolve(_query(question, instances))


def prompting_of(question: TrafficQuery, instances: Instances) -> Scenario:
    """The scenario of one prefill instance. The scenario has no acceptance, because prefill needs none."""
    return resolve_costs(_query(question, instances))


def _query(question: TrafficQuery, instances: Instances) -> Query:
    """The question in the form of `whatif`, about one instance at batch 1."""
    context = max(round(question.lengths.context), 1)
    stated = question.stated_lengths
    gamma = None if stated is None else max(stated)
    return question.query(batch=1, context=context, gamma=gamma, **instances.layout)


def steps_of(
    question: TrafficQuery, decode: Instances, decoding: Scenario, gammas: Sequence[int]
) -> list[StepTimes]:
    """The times of the passes of one decode instance at each draft length."""
    return step_times(decoding, question.lengths, limits_of(question, decode), gammas)


def prompts_of(question: TrafficQuery, prefill: Instances, prompting: Scenario, drafts: bool) -> Prompts:
    """The times of prompts on one prefill instance.

    - drafts: whether the decode pool uses a draft.
    """
    lengths = question.lengths
    reads_too = runs_draft(question, drafts)
    limits = limits_of(question, prefill)
    costs = engine_requests(prompting)
    prefilling = prefill_times(prompting, lengths, limits, reads_too, costs).where(reads_too)
    budget = float(limits.max_num_batched_tokens)
    own = costs.request_s + costs.prompt_token_s * lengths.input_mean

    def full_s(computed: float) -> float:
        """Time per prompt in seconds if passes are full of prompts.

        - computed: number of tokens per prompt that are not cached.
        """
        tokens = max(budget, computed)
        return float(prefilling(np.zeros(1), np.array([tokens]))[0]) * computed / tokens

    each_s = full_s(lengths.input_mean)
    if question.reuse is None:
        alone_s = prompt_alone_s(prompting, lengths.input_mean, costs, budget, reads_too)
        return Prompts(alone_s + own, each_s, lengths.input_cv)
    gamma = int(reads_too)
    sequences = float(sequences_of(prompting, lengths.input_mean, np.array([gamma]), limits, 0.0)[0])
    cached = _cached(question.reuse, prompting, gamma, sequences, lengths, each_s)
    computed = float(cached.read[0])
    # attention of the new tokens to the cached ones
    before_s = prefilling.cached_s * float(cached.pairs[0])
    alone_s = prompt_alone_s(prompting, computed, costs, budget, reads_too)
    alone_s += 2.0 * prompting.target_shard.groups * before_s
    return Prompts(alone_s + own, full_s(computed) + before_s, cached.cv, float(cached.hit_rate[0]))


def _cached(
    reuse: Reuse, prompting: Scenario, gamma: int, sequences: float, lengths: Lengths, each_s: float
) -> CachedPrompts:
    """The prompts of a prefill instance with a prefix cache. The cache never contains outputs, so each
    further turn computes the previous output together with the new tokens.
    """
    first = replace(reuse.first, output_mean=0.0)
    of_prompts = replace(reuse, first=first, turn_tokens=reuse.turn_tokens + reuse.first.output_mean)
    law = reuse.engine.law(prompting, gamma)
    return of_prompts.cached(law, sequences, lengths, np.array([each_s]))


def two_pools(
    question: TrafficQuery,
    prefill: Instances,
    decode: Instances,
    decoding: Scenario,
    prompts: Prompts,
    steps: StepTimes,
) -> TwoPools:
    """The prediction of both pools at the draft length of `steps`."""
    drafts = steps.gamma > 0
    transfer = transfer_of(question, decoding.machine.gpu)
    return TwoPools(
        prefill,
        decode,
        question.lengths,
        steps,
        prompts,
        transfer.seconds(sent_bytes(question, decoding, drafts)),
        drafts and needs_prompt(decoding) and not runs_draft(question, drafts),
        1.0 / question.loop.burstiness if question.opens else 1.0,
        question.spread,
    )


def needs_prompt(decoding: Scenario) -> bool:
    """Whether the draft of a decode pool must process the prompt itself. Only drafts that look up tokens,
    such as n-gram drafts, need not do so.
    """
    return draft_size(decoding.draft) != "lookup"


def runs_draft(question: TrafficQuery, drafts: bool) -> bool:
    """Whether the prefill pool also runs the draft on the prompts.

    - drafts: whether the decode pool uses a draft.
    """
    return question.prefill_draft == "run" and (drafts or question.decode_draft == "none")


def limits_of(question: TrafficQuery, instances: Instances) -> Limits:
    """The scheduler's limits of one instance."""
    return replace(question, dp=instances.dp).limits


def sent_bytes(question: TrafficQuery, decoding: Scenario, drafts: bool) -> float:
    """Bytes that one decode device receives for a prompt of mean length: the target's cache and, if the
    prefill pool runs the draft, the draft's cache.
    """
    tokens = question.lengths.input_mean
    kept = float(decoding.target_shard.stored_kv_bytes(tokens))
    if runs_draft(question, drafts):
        kept += float(draft_stored_bytes(decoding.draft_shard, decoding.draft, tokens))
    return kept
