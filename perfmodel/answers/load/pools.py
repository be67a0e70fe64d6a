"""Prefill and decode on separate pools of devices: rate, latency and the ratio of the pools, with and without
a draft.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.load.offload import Offload, offload_of
from perfmodel.answers.load.pool_question import Instances, transfer_of
from perfmodel.answers.load.tpot_errors import served_log_errors
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.two_pools import PoolRow, Prompts, TwoPools
from perfmodel.answers.question import Query, resolve, resolve_costs
from perfmodel.errors import InputError
from perfmodel.queueing.kv_room import sequences_of
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prefix import CachedPrompts, Reuse
from perfmodel.queueing.pricing import prefill_times, step_times
from perfmodel.queueing.prompts import engine_requests, prompt_alone_s
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import Z
from perfmodel.speculation import Scenario
from perfmodel.speculation.capacity import draft_size, draft_stored_bytes

LONGEST_DRAFT = 8
"""Draft length up to which the best one is searched."""
OUTPUTS_READ = (
    "the prefill pool does not cache outputs: each further turn reads the previous one again; the "
    "router sends a session to the instance that has its prompts"
)


@dataclass(frozen=True, slots=True)
class Pools:
    """Two pools. ratio: prefill devices for each decode device at which both are full, by draft length.
    transfer_bytes: cache of a prompt on one decode device. best_split: by draft length, the instances of both
    pools of these sizes that serve the highest rate on as many devices. prefix_hit_rate: share of prompt
    tokens that the caches of the prefill pool hold; None without any.
    """

    prefill: str
    decode: str
    prefill_gpus: int
    decode_gpus: int
    rows: tuple[PoolRow, ...]
    ratio: dict[int, float]
    best_split: dict[int, tuple[int, int]]
    transfer_bytes: float
    transfer_source: str
    prefix_hit_rate: float | None
    notes: tuple[str, ...]

    @property
    def best(self) -> PoolRow:
        """The row of the most output tokens per second at the last load; at equal rates that of the least
        time per token.
        """
        last = [row for row in self.rows if row.clients == self.rows[-1].clients]
        lengths = len(self.ratio)
        return max(last[-lengths:], key=lambda row: (round(row.output_tokens_per_s, 6), -row.tpot_s))

    @property
    def sentence(self) -> str:
        """The best row and the ratio of the pools in words."""
        row = self.best
        plain = self.ratio[0]
        drafted = self.ratio[row.gamma]
        drafting = f"gamma {row.gamma}" if row.gamma else "no draft"
        each = f"{row.output_tokens_per_s_per_gpu:.0f} tokens/s per GPU, limited by {row.limits}"
        needed = f"{plain:.2f} prefill GPUs per decode GPU"
        ratios = f"{needed} without a draft, {drafted:.2f} with it" if row.gamma else needed
        where = f"Prefill {self.prefill}, decode {self.decode}"
        return f"{where}: {drafting}, {each}; full pools need {ratios}"


def pools_of(question: TrafficQuery) -> Pools:
    """The two pools of a question. Raises InputError."""
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    decoder = decoder_of(question)
    with _of_pool("--decode"):
        decoding = scenario_of(decoder, decode)
    _check_drafts(question, decoding)
    gammas = lengths_of(decoder, decoding)
    steps = steps_of(decoder, decode, decoding, gammas)
    with _of_pool("--prefill"):
        prompting = prompting_of(question, prefill)
    _check_room(question, prefill, prompting, "--prefill", question.lengths.input_mean)
    _check_room(question, decode, decoding, "--decode", question.lengths.context)
    drafting = dict.fromkeys(gamma > 0 for gamma in gammas)
    read = {drafts: prompts_of(question, prefill, prompting, drafts) for drafts in drafting}
    both = [two_pools(question, prefill, decode, decoding, read[each.gamma > 0], each) for each in steps]
    drafts = bool(max(gammas))
    return Pools(
        prefill=question.prefill or "",
        decode=question.decode or "",
        prefill_gpus=prefill.devices,
        decode_gpus=decode.devices,
        rows=tuple(_rows(question, decoding, both)),
        ratio={each.steps.gamma: each.ratio for each in both},
        best_split={each.steps.gamma: each.best_split for each in both},
        transfer_bytes=_sent_bytes(question, decoding, drafts),
        transfer_source=transfer_of(question, decoding.machine.gpu).source,
        prefix_hit_rate=read[drafts].hit_rate,
        notes=_notes(question, both),
    )


def _rows(question: TrafficQuery, decoding: Scenario, both: Sequence[TwoPools]) -> Iterator[PoolRow]:
    """One row for each load and draft length. The error of TPOT is that at the batch of the first load."""
    loop = question.loop
    limits_s = question.limits_s

    def row(pools: TwoPools, load: float) -> PoolRow:
        if question.opens:
            return pools.at(load, limits_s)
        return pools.with_clients(load, loop.think_s, limits_s)

    loads = loop.values.tolist()
    batch = max(row(both[0], loads[0]).decode_batch, 1.0)
    gammas = [pools.steps.gamma for pools in both]
    log_off = served_log_errors(decoding, batch, question.lengths.context, gammas)
    for load in loads:
        for pools in both:
            error = log_off[pools.steps.gamma]
            interval = None
            if error is not None:
                factor = math.exp(Z * error)
                fast = row(pools.slowed(1.0 / factor), load)
                slow = row(pools.slowed(factor), load)
                interval = fast.tpot_s, slow.tpot_s
            yield replace(row(pools, load), tpot_interval=interval)


@contextmanager
def _of_pool(flag: str) -> Iterator[None]:
    """Names the flag of a pool in refusals of its layout, which the pool states and no other flag."""
    try:
        yield
    except InputError as error:
        message = error.as_flags
        if not message.startswith(("--tp: ", "--dp: ", "--ep: ")):
            raise
        raise InputError(f"{flag}: {message.removeprefix('--')}") from None


def decoder_of(question: TrafficQuery) -> TrafficQuery:
    """The question with the draft of the decode pool."""
    if question.decode_draft == "run":
        return question
    if question.decode_draft == "none":
        return replace(question, gamma=0, tokens_per_iteration=None)
    return replace(question, draft=question.decode_draft, decode_draft="run")


def _check_drafts(question: TrafficQuery, decoding: Scenario) -> None:
    """Refuse (InputError) a decode pool whose draft needs a prompt that another draft has read."""
    other = question.decode_draft not in ("run", "none", question.draft)
    if other and question.prefill_draft == "run" and needs_prompt(decoding):
        raise InputError(
            f"--decode-draft: no measurement is published of {decoding.draft.name} after prompts that "
            f"{question.draft} has read; give --prefill-draft none, or the same draft to both pools"
        )


def _check_room(
    question: TrafficQuery, instances: Instances, scenario: Scenario, flag: str, tokens: float
) -> None:
    """Refuse (InputError) instances whose memory does not hold one request of so many tokens."""
    limits = limits_of(question, instances)
    if sequences_of(scenario, tokens, np.array([0]), limits, 0.0)[0] < 1.0:
        weights = f"the weights of {scenario.target.name} on {instances.gpus} {scenario.machine.gpu.name}"
        raise InputError(
            f"{flag}: no request of {tokens:.0f} tokens fits next to {weights}: use more GPUs of an instance "
            "or smaller formats"
        )


def needs_prompt(decoding: Scenario) -> bool:
    """Whether the draft of a decode pool starts from what it has computed of the prompt; one that looks up
    tokens needs only these.
    """
    return draft_size(decoding.draft) != "lookup"


def runs_draft(question: TrafficQuery, drafts: bool) -> bool:
    """Whether the prefill pool runs the draft on prompts. drafts: whether the decode pool drafts."""
    return question.prefill_draft == "run" and (drafts or question.decode_draft == "none")


def _notes(question: TrafficQuery, both: Sequence[TwoPools]) -> tuple[str, ...]:
    """What the rows assume."""
    notes = ["batches and tokens per GPU follow from the rate (Little's law), not from the number of clients"]
    if any(each.first_alone for each in both):
        notes.append("the prefill pool does not run the draft: the first decode step drafts nothing")
    if runs_draft(question, False):
        notes.append(
            "the decode pool does not draft: the prefill pool runs it in vain (--prefill-draft none)"
        )
    if question.turns > 1:
        notes.append(OUTPUTS_READ)
    return tuple(notes)


def lengths_of(question: TrafficQuery, scenario: Scenario) -> list[int]:
    """0, and the draft lengths of the question; all up to the longest one if it leaves them open."""
    stated = question.stated_lengths
    if stated is not None:
        return sorted({0, *stated})
    return list(range(scenario.longest(min(question.max_gamma, LONGEST_DRAFT)) + 1))


def scenario_of(question: TrafficQuery, instances: Instances) -> Scenario:
    """One instance that decodes."""
    return resolve(_query(question, instances))


def prompting_of(question: TrafficQuery, instances: Instances) -> Scenario:
    """One instance that reads prompts, at which no draft is accepted."""
    return resolve_costs(_query(question, instances))


def _query(question: TrafficQuery, instances: Instances) -> Query:
    context = max(round(question.lengths.context), 1)
    stated = question.stated_lengths
    gamma = None if stated is None else max(stated)
    return question.query(batch=1, context=context, gamma=gamma, **instances.layout)


def steps_of(
    question: TrafficQuery, decode: Instances, decoding: Scenario, gammas: Sequence[int]
) -> list[StepTimes]:
    """The passes of one decode instance at each draft length."""
    return step_times(decoding, question.lengths, limits_of(question, decode), gammas)


def prompts_of(question: TrafficQuery, prefill: Instances, prompting: Scenario, drafts: bool) -> Prompts:
    """Prompts on one prefill instance. drafts: whether the decode pool drafts."""
    lengths = question.lengths
    reads_too = runs_draft(question, drafts)
    limits = limits_of(question, prefill)
    costs = engine_requests(prompting)
    prefilling = prefill_times(prompting, lengths, limits, reads_too, costs)[reads_too]
    budget = float(limits.max_num_batched_tokens)
    own = costs.request_s + costs.prompt_token_s * lengths.input_mean

    def full_s(computed: float) -> float:
        """Seconds of one prompt among as many as fill a pass."""
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
    """Prompts of a prefill instance with a prefix cache. It never has the answers, so a further turn reads
    the last one with its new tokens.
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
    """Both pools at one draft length."""
    drafts = steps.gamma > 0
    transfer = transfer_of(question, decoding.machine.gpu)
    return TwoPools(
        prefill,
        decode,
        question.lengths,
        steps,
        prompts,
        transfer.seconds(_sent_bytes(question, decoding, drafts)),
        drafts and needs_prompt(decoding) and not runs_draft(question, drafts),
        1.0 / question.loop.burstiness if question.opens else 1.0,
        question.spread,
    )


def one_server(question: TrafficQuery) -> TrafficQuery:
    """The question about one server of the decode layout, with its share of the load on the same devices."""
    question = decoder_of(question)
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    share = decode.gpus / (prefill.devices + decode.devices)
    rates = question.request_rate and tuple(rate * share for rate in question.request_rate)
    clients = question.max_concurrency
    if clients is not None:
        clients = tuple(max(round(each * share), 1) for each in clients)
    alone: dict[str, Any] = {
        "prefill": None,
        "decode": None,
        "kv_link": None,
        "prefill_draft": "run",
        "decode_draft": "run",
    }
    layout: dict[str, Any] = {"tp": decode.gpus, "dp": decode.dp, "ep": decode.ep}
    return replace(question, request_rate=rates, max_concurrency=clients, **alone, **layout)


def tier_of_prefill(question: TrafficQuery, gamma: int) -> Offload:
    """Caches of earlier prompts on another tier of a prefill instance. gamma: the longest draft."""
    prefill = Instances.of(question.prefill or "", "--prefill")
    reads_too = runs_draft(question, gamma > 0)
    return offload_of(replace(question, dp=prefill.dp), prompting_of(question, prefill), int(reads_too))


def limits_of(question: TrafficQuery, instances: Instances) -> Limits:
    """The limits of one instance."""
    return replace(question, dp=instances.dp).limits


def _sent_bytes(question: TrafficQuery, decoding: Scenario, drafts: bool) -> float:
    """Cache of a prompt on one decode device, with that of the draft if both pools have it."""
    tokens = question.lengths.input_mean
    kept = float(decoding.target_shard.stored_kv_bytes(tokens))
    same = question.decode_draft in ("run", "none", question.draft)
    if same and runs_draft(question, drafts):
        kept += float(draft_stored_bytes(decoding.draft_shard, decoding.draft, tokens))
    return kept
