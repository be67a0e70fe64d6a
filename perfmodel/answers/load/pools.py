"""Prefill and decode on separate pools of devices: rate, latency and the ratio of the pools, with and without
a draft.

A pool of n instances serves a share 1/n of the requests on each. Decode instances hold b = rate x time of an
answer requests (Little's law), a prefill instance is an M/D/1 queue. TTFT = queue + prompt + transfer of the
caches + first decode step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from perfmodel.answers.load.pool_question import Instances, Transfer, transfer_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import resolve
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prompts import engine_requests, prompt_alone_s
from perfmodel.queueing.steps import StepTimes, readings_of, step_times
from perfmodel.speculation import Scenario
from perfmodel.speculation.capacity import draft_stored_bytes

HALVINGS = 60
MOST_USED = 0.999
"""Share of a pool's capacity up to which a queue has a length."""
LONGEST_DRAFT = 8
"""Draft length up to which the best one is searched."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One load and draft length. Rates are of all devices; batches of one decode instance.

    queue_s, prefill_s, transfer_s, first_step_s: parts of the mean TTFT. prefill_used, decode_used: load over
    capacity. limits: the pool with the smaller capacity. saturated: more requests arrive than a pool serves;
    the rate is then the capacity.
    """

    request_rate: float
    clients: float | None
    gamma: int
    decode_batch: float
    decode_batch_per_gpu: float
    tpot_s: float
    ttft_s: float
    queue_s: float
    prefill_s: float
    transfer_s: float
    first_step_s: float
    prefill_used: float
    decode_used: float
    limits: str
    saturated: bool
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float


@dataclass(frozen=True, slots=True)
class Pools:
    """Two pools. ratio: prefill devices for each decode device at which both are full, by draft length.
    transfer_bytes: cache of a prompt on one decode device. best_split: by draft length, the instances of both
    pools of these sizes that serve the highest rate on as many devices.
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
        ratios = f"{plain:.2f} prefill GPUs for each of decode without a draft, {drafted:.2f} with it"
        where = f"Prefill {self.prefill}, decode {self.decode}"
        return f"{where}: {drafting}, {each}; full pools need {ratios}"


@dataclass(frozen=True)
class TwoPools:
    """The two pools at one draft length. prompt_s: of one prompt alone. each_s: of a prompt in full passes.
    first_alone: whether the first step drafts nothing, because the prefill pool does not run the draft.
    """

    prefill: Instances
    decode: Instances
    lengths: Lengths
    steps: StepTimes
    prompt_s: float
    each_s: float
    transfer_s: float
    first_alone: bool

    @cached_property
    def iterations(self) -> float:
        """Mean iterations of an answer."""
        gained = self.steps.tokens_per_iteration
        return self.steps.iterations(self.lengths) + (1.0 - 1.0 / gained) * self.first_alone

    @cached_property
    def rates(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Requests per second of all decode instances, by the batch of one."""
        return self.decode.count * self.steps.batches / (self.iterations * self.steps.decode_s)

    @property
    def decode_rate(self) -> float:
        """The most requests per second that decoding serves; 0 if not one request fits."""
        return float(self.rates.max()) if self.steps.seats else 0.0

    @property
    def prefill_rate(self) -> float:
        """The most requests per second that prefill serves."""
        return self.prefill.count / self.each_s

    @property
    def ratio(self) -> float:
        """Prefill devices for each decode device at which both pools are full."""
        if not self.decode_rate:
            return float("nan")
        prefill = self.prefill.devices / self.prefill_rate
        return prefill / (self.decode.devices / self.decode_rate)

    @property
    def best_split(self) -> tuple[int, int]:
        """Instances of both pools that serve the highest rate on as many devices; on a tie, of the smallest
        prefill pool.
        """
        devices = self.prefill.devices + self.decode.devices
        each_prefill = self.prefill_rate / self.prefill.count
        each_decode = self.decode_rate / self.decode.count
        splits = [
            (count, (devices - count * self.prefill.gpus) // self.decode.gpus)
            for count in range(1, devices // self.prefill.gpus + 1)
        ]
        return max(
            splits, key=lambda split: (min(split[0] * each_prefill, split[1] * each_decode), -split[0])
        )

    def at(self, rate: float, clients: float | None = None) -> PoolRow:
        """The pools at a rate of all requests."""
        most = MOST_USED * min(self.prefill_rate, self.decode_rate)
        saturated = rate > most
        rate = min(rate, most)
        rising = np.maximum.accumulate(self.rates)
        batch = float(np.interp(rate, rising, self.steps.batches)) if rate > rising[0] else rate / rising[0]
        step = float(self.steps.decode_at(np.asarray(max(batch, 1.0))))
        used = rate / self.prefill_rate
        queue = used / (1.0 - used) * self.each_s / 2.0
        tpot = self.iterations * step / self.lengths.decoded
        gpus = self.prefill.devices + self.decode.devices
        tokens = rate * self.lengths.output_mean
        return PoolRow(
            request_rate=rate,
            clients=clients,
            gamma=self.steps.gamma,
            decode_batch=batch,
            decode_batch_per_gpu=batch / self.decode.gpus,
            tpot_s=tpot,
            ttft_s=queue + self.prompt_s + self.transfer_s + step,
            queue_s=queue,
            prefill_s=self.prompt_s,
            transfer_s=self.transfer_s,
            first_step_s=step,
            prefill_used=used,
            decode_used=rate / self.decode_rate if self.decode_rate else float("inf"),
            limits="prefill" if self.prefill_rate < self.decode_rate else "decode",
            saturated=saturated and clients is None,
            output_tokens_per_s=tokens,
            output_tokens_per_s_per_gpu=tokens / gpus,
        )

    def with_clients(self, clients: float) -> PoolRow:
        """The pools with clients that each wait for their answer: clients = rate x time of a request."""
        low = 0.0
        high = MOST_USED * min(self.prefill_rate, self.decode_rate)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            row = self.at(middle)
            inside = middle * (row.ttft_s + self.lengths.decoded * row.tpot_s)
            if inside < clients:
                low = middle
            else:
                high = middle
        row = self.at(low, clients)
        waiting = clients - low * (row.ttft_s + self.lengths.decoded * row.tpot_s)
        if waiting <= 1e-6 * clients:
            return row
        # a full pool: all other clients wait in front of it
        queue = row.queue_s + waiting / low
        return replace(row, queue_s=queue, ttft_s=row.ttft_s + waiting / low)


def pools_of(question: TrafficQuery) -> Pools:
    """The two pools of a question. Raises InputError."""
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    decoding = _scenario(question, decode)
    prompting = _scenario(question, prefill)
    transfer = transfer_of(question, decoding.machine.gpu)
    lengths = question.lengths
    gammas = _lengths_of(question, decoding)
    steps = step_times(decoding, lengths, _limits(question, decode), gammas)
    both = [_pools(question, prefill, decode, prompting, decoding, transfer, each) for each in steps]
    rows = []
    for load in question.loop.values.tolist():
        rows += [each.at(load) if question.opens else each.with_clients(load) for each in both]
    sent = _sent_bytes(decoding, lengths.input_mean, bool(max(gammas)))
    return Pools(
        prefill=question.prefill or "",
        decode=question.decode or "",
        prefill_gpus=prefill.devices,
        decode_gpus=decode.devices,
        rows=tuple(rows),
        ratio={each.steps.gamma: each.ratio for each in both},
        best_split={each.steps.gamma: each.best_split for each in both},
        transfer_bytes=sent,
        transfer_source=transfer.source,
        notes=_notes(question, both),
    )


def _notes(question: TrafficQuery, both: Sequence[TwoPools]) -> tuple[str, ...]:
    """What the rows assume."""
    notes = ["batches and tokens per GPU follow from the rate (Little's law), not from the number of clients"]
    if question.prefill_draft == "none" and any(each.steps.gamma for each in both):
        notes.append("the prefill pool does not run the draft: the first decode step drafts nothing")
    return tuple(notes)


def _lengths_of(question: TrafficQuery, scenario: Scenario) -> list[int]:
    """0, and the draft lengths of the question; all up to the longest one if it leaves them open."""
    stated = [policy.tokens for policy in question.gamma if policy.tokens is not None]
    if len(stated) == len(question.gamma):
        return sorted({0, *stated})
    return list(range(scenario.longest(min(question.max_gamma, LONGEST_DRAFT)) + 1))


def _scenario(question: TrafficQuery, instances: Instances) -> Scenario:
    """One instance of a pool."""
    context = max(round(question.lengths.context), 1)
    numbers = [policy.tokens for policy in question.gamma if policy.tokens is not None]
    gamma = max(numbers) if len(numbers) == len(question.gamma) else None
    layout = {"tp": instances.gpus, "dp": instances.dp, "ep": instances.ep, "nodes": None}
    return resolve(question.query(batch=1, context=context, gamma=gamma, draft_tp=None, **layout))


def _limits(question: TrafficQuery, instances: Instances) -> Limits:
    """The limits of one instance."""
    return replace(question, dp=instances.dp).limits


def one_server(question: TrafficQuery) -> TrafficQuery:
    """The question about one server of the decode layout, with its share of the load on the same devices."""
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    share = decode.gpus / (prefill.devices + decode.devices)
    rates = question.request_rate and tuple(rate * share for rate in question.request_rate)
    clients = question.max_concurrency
    if clients is not None:
        clients = tuple(max(round(each * share), 1) for each in clients)
    alone: dict[str, Any] = {"prefill": None, "decode": None, "kv_link": None, "prefill_draft": "run"}
    layout: dict[str, Any] = {"tp": decode.gpus, "dp": decode.dp, "ep": decode.ep}
    return replace(question, request_rate=rates, max_concurrency=clients, **alone, **layout)


def _pools(
    question: TrafficQuery,
    prefill: Instances,
    decode: Instances,
    prompting: Scenario,
    decoding: Scenario,
    transfer: Transfer,
    steps: StepTimes,
) -> TwoPools:
    """Both pools at one draft length."""
    lengths = question.lengths
    drafts = steps.gamma > 0
    runs_draft = drafts and question.prefill_draft != "none"
    limits = _limits(question, prefill)
    costs = engine_requests(prompting)
    reading = readings_of(prompting, lengths, limits, runs_draft, costs)[runs_draft]
    computed = lengths.input_mean
    tokens = max(float(limits.max_num_batched_tokens), computed)
    nothing = np.zeros(1)
    full = float(reading(nothing, np.array([tokens]))[0]) / (tokens / computed)
    budget = float(limits.max_num_batched_tokens)
    alone = prompt_alone_s(prompting, computed, costs, budget, runs_draft)
    own = costs.request_s + costs.prompt_token_s * lengths.input_mean
    sent = transfer.seconds(_sent_bytes(decoding, lengths.input_mean, runs_draft))
    return TwoPools(prefill, decode, lengths, steps, alone + own, full, sent, drafts and not runs_draft)


def _sent_bytes(scenario: Scenario, tokens: float, drafts: bool) -> float:
    """Cache of a prompt on one device, with the draft's."""
    kept = float(scenario.target_shard.stored_kv_bytes(tokens))
    if drafts:
        kept += float(draft_stored_bytes(scenario.draft_shard, scenario.draft, tokens))
    return kept
