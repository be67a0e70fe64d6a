"""Computes whether a workload fits in memory, and the largest batch that fits, with and without speculation
(`memory_of`). `kv_cache_of` computes the size of the KV cache that a server logs when it starts.
"""

from bisect import bisect_left
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np

from perfmodel.costs import Shard
from perfmodel.drafts.base import Draft
from perfmodel.operations import Floats
from perfmodel.speculation.accounts import Drafts
from perfmodel.speculation.remembered import once
from perfmodel.speculation.scenario import Scenario

Number = TypeVar("Number", bound=Floats)


@dataclass(frozen=True, slots=True)
class Memory(Generic[Number]):
    """The memory use of the device that holds the most, in bytes. The fields are arrays, or plain numbers for
    a single point.

    - max_batch, ar_max_batch: largest number of sequences that fit with the draft, and without it. 0 means
      that not even one sequence fits.
    - available_bytes: memory for weights and caches. The engine needs the rest for activations, CUDA graphs
      and other purposes.
    - pool_bytes: the part of available_bytes that the weights leave for caches and seats.
    - sequence_bytes: bytes of the pool that one sequence needs.
    - sequences: number of sequences that fit in the pool of this device, not rounded.
    """

    weight_bytes: Number
    kv_bytes: Number
    draft_weight_bytes: Number
    draft_kv_bytes: Number
    available_bytes: Number
    pool_bytes: Number
    sequence_bytes: Number
    sequences: Number
    fits: Any
    max_batch: Any
    ar_max_batch: Any

    def single(self) -> "Memory[float]":
        """The same memory use as plain numbers, for a single point."""
        sizes = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name.endswith("_bytes")}
        return Memory(
            **sizes,
            sequences=float(self.sequences),
            fits=bool(self.fits),
            max_batch=int(self.max_batch),
            ar_max_batch=int(self.ar_max_batch),
        )

    @property
    def missing_bytes(self: "Memory[float]") -> float:
        """The memory that the batch needs beyond the available memory; at most 0 if the batch fits. It is
        also negative if only one part of the memory is too small, such as that of SGLang for states. The
        property works only for a single point.
        """
        used = self.weight_bytes + self.kv_bytes + self.draft_weight_bytes + self.draft_kv_bytes
        return used - self.available_bytes

    def shortage(self, batch: float) -> tuple[str, ...]:
        """A sentence that says that this batch does not fit, or nothing if it fits. The function works
        only for a single point (`single`).
        """
        if self.fits:
            return ()
        room = f"{self.available_bytes / 1e9:.1f} GB"
        most = int(self.max_batch)
        return (f"batch {batch:.0f} does not fit in {room}; the largest that does is {most}",)


def memory_of(
    scenario: Scenario, batch: Floats, context: Floats, gamma: Floats, fraction: float | None = None
) -> Memory[Floats]:
    """Compares the memory that a batch needs with the memory that the engine has for it.

    A batch needs weights + draft weights + batch x ((context + gamma + 1) KV + the draft's own KV). A device
    holds the sequences of its data-parallel group and pipeline stage, without the layers in host memory.

    - fraction: the engine's share of the device memory. None means its default.

    The result broadcasts over ``[batch, context, gamma]``. At gamma = 0, the draft needs no memory.
    """
    account = scenario.account
    target = scenario.target_shard
    draft = scenario.draft
    context = np.asarray(context)
    tokens = np.asarray(gamma) + 1.0
    drafts = tokens > 1
    on_device = 1.0 - scenario.machine.host_layers
    device_batch = target.sequences(batch)
    devices = target.groups * target.stages

    # a sequence: its cache, the copies of its recurrent state, and its seat
    copies = scenario.kept_states(tokens)
    state_bytes = on_device * target.state_bytes
    target_kv = on_device * account.stored_bytes(target, context + tokens, copies)
    baseline_kv = on_device * account.stored_bytes(target, context + 1, 0.0)
    draft_kv = np.where(drafts, draft_stored_bytes(scenario.draft_shard, draft, context), 0.0)
    seat = account.seat_bytes(scenario.machine.gpu, target)

    # the device
    baseline_room = available_bytes(scenario, fraction, "none")
    room = np.where(drafts, available_bytes(scenario, fraction, draft_size(draft)), baseline_room)
    weights = weight_bytes(scenario)
    draft_weights = np.where(drafts, draft_weight_bytes(scenario), 0.0)

    # some engines take the draft from other memory than the target's pool
    inside = 1.0 if account.draft_inside else 0.0
    pool = room - weights - inside * draft_weights
    sequence = target_kv + inside * draft_kv
    # `Account.sequences` adds the states, because some engines do not store them in the pool of the caches
    fitting = account.sequences(pool, sequence + seat - state_bytes * copies, state_bytes, copies)
    baseline_fitting = account.sequences(baseline_room - weights, baseline_kv + seat, state_bytes, 1.0)
    return Memory(
        weight_bytes=weights,
        kv_bytes=device_batch * target_kv,
        draft_weight_bytes=draft_weights,
        draft_kv_bytes=device_batch * draft_kv,
        available_bytes=room - device_batch * seat,
        pool_bytes=pool,
        sequence_bytes=sequence + seat,
        sequences=fitting,
        fits=np.less_equal(device_batch, fitting),
        max_batch=devices * _whole(fitting),
        ar_max_batch=devices * _whole(baseline_fitting),
    )


@once
def fraction_of(scenario: Scenario, gamma: int, fraction: float | None) -> float:
    """The share of device memory that the engine uses: `fraction`, or the engine's default if it is None."""
    if fraction is not None:
        return fraction
    drafts = draft_size(scenario.draft) if gamma else "none"
    return scenario.account.fraction(scenario.machine.gpu, scenario.target_shard, drafts)


@once
def available_bytes(scenario: Scenario, fraction: float | None, drafts: Drafts) -> float:
    """The memory of one device for weights and caches in bytes, according to the engine's memory account."""
    gpu = scenario.machine.gpu
    return scenario.account.available_bytes(gpu, scenario.target_shard, fraction, drafts)


@once
def weight_bytes(scenario: Scenario) -> float:
    """Bytes of the target's weights on one device, as the engine stores them."""
    target = scenario.target_shard
    account = scenario.account
    other = account.padding_bytes(target) - account.host_bytes(target)
    return scenario.weight_bytes + other * (1.0 - scenario.machine.host_layers)


@once
def draft_weight_bytes(scenario: Scenario) -> float:
    """Bytes of the draft's weights on one device, in addition to the target's."""
    return scenario.draft.own_weight_bytes(scenario.draft_shard)


def draft_size(draft: Draft) -> Drafts:
    """The kind of a draft, as the memory accounts of engines distinguish it."""
    if draft.named_model:
        return "model"
    return "head" if draft.passes(1.0) else "lookup"


def draft_stored_bytes(drafter: Shard, draft: Draft, context: Floats) -> Floats:
    """KV bytes per sequence that the draft stores on one device in addition to the target's cache."""
    if draft.views_target_cache:
        layer_bytes = draft.kv.stored_bytes
        state_bytes = 0.0
    else:
        layer_bytes = draft.kv.own_bytes
        state_bytes = drafter.state_bytes
    kv_bytes = (a.layers * layer_bytes(drafter.paged(a.span(context)), a.layout) for a in drafter.attentions)
    return sum(kv_bytes, start=state_bytes)


def _whole(sequences: Floats) -> Floats:
    return np.floor(np.maximum(sequences, 0.0))


@dataclass(frozen=True, slots=True)
class KVCapacity:
    """The size of the KV cache, as a server logs it when it starts.

    - kv_tokens: number of tokens that fit in all caches together if every sequence has max_model_len tokens.
      The log of vLLM calls it "GPU KV cache size", that of SGLang "max_total_num_tokens".
    - max_concurrency: number of sequences of this length that fit.
    - fitting_len: length of the longest sequence that fits, if a sequence of max_model_len tokens does not
      fit. It is None if such a sequence fits. With a larger --max-model-len, vLLM does not start.
    - pool_bytes: memory of the caches on one device, which vLLM logs as "Available KV cache memory".
    - baseline_kv_tokens: kv_tokens without the draft.
    - draft_weight_bytes: memory of the draft's weights.
    - draft_reserved_bytes: memory of the graphs and buffers that the engine needs for the draft.
    - draft_cache_share: memory of the draft's cache and states per sequence, divided by the memory per
      sequence without a draft.
    - groups: number of data-parallel attention groups. Each group logs its part.
    """

    kv_tokens: int
    max_model_len: int
    max_concurrency: float
    fitting_len: int | None
    pool_bytes: float
    baseline_kv_tokens: int
    draft_weight_bytes: float
    draft_reserved_bytes: float
    draft_cache_share: float
    groups: int

    @property
    def draft_share(self) -> float:
        """The share of the baseline's `kv_tokens` that is lost with the draft."""
        return 1.0 - self.kv_tokens / self.baseline_kv_tokens if self.baseline_kv_tokens else 0.0


@once
def kv_cache_of(
    scenario: Scenario, gamma: int, fraction: float | None = None, running: float | None = None
) -> KVCapacity:
    """The size of the KV cache of a server that drafts `gamma` tokens.

    - running: number of seats of the server. None means the engine's default.
    """
    part = scenario.target_shard
    account = scenario.account
    gpu = scenario.machine.gpu
    seats = account.seats(gpu) if running is None else part.sequences(running)
    seat_bytes = float(seats) * account.seat_bytes(gpu, part)
    drafts = draft_size(scenario.draft) if gamma else "none"
    room = available_bytes(scenario, fraction, drafts) - seat_bytes
    baseline_room = available_bytes(scenario, fraction, "none") - seat_bytes
    weights = weight_bytes(scenario)
    draft_weights = 0.0
    if gamma and account.draft_inside:
        draft_weights = draft_weight_bytes(scenario)
    each = _sequence_bytes(scenario, gamma)
    baseline_each = _sequence_bytes(scenario, 0)
    pool = max(room - weights - draft_weights, 0.0)
    length = account.length(part)
    pools = part.groups * part.stages * account.cache_share(part)
    concurrency = pools * pool / each
    fits_everywhere = concurrency >= part.groups
    return KVCapacity(
        kv_tokens=int(length * concurrency),
        max_model_len=length,
        max_concurrency=concurrency,
        fitting_len=None if fits_everywhere else _fitting_len(scenario, gamma, concurrency * each),
        pool_bytes=pool,
        baseline_kv_tokens=int(length * pools * max(baseline_room - weights, 0.0) / baseline_each),
        draft_weight_bytes=draft_weights,
        draft_reserved_bytes=baseline_room - room,
        draft_cache_share=each / baseline_each - 1.0,
        groups=part.groups,
    )


def _fitting_len(scenario: Scenario, gamma: int, room_bytes: float) -> int:
    """Length of the longest sequence whose cache takes at most `room_bytes` in all groups together. The
    result is 0 if there is none.
    """
    account = scenario.account
    part = scenario.target_shard

    def exceeds(length: int) -> bool:
        limited = account.replace(server=account.server.replace(max_model_len=length))
        return part.groups * _sequence_bytes(scenario.on_same_shards(account=limited), gamma) > room_bytes

    return bisect_left(range(1, account.length(part)), True, key=exceeds)


def _sequence_bytes(scenario: Scenario, gamma: int) -> float:
    """Cache of one sequence of the longest length on one device, as the engine counts it."""
    part = scenario.target_shard
    account = scenario.account
    length = float(account.length(part))
    draft_token_bytes = 0.0
    if gamma and account.draft_inside:
        draft_bytes = draft_stored_bytes(scenario.draft_shard, scenario.draft, length)
        draft_token_bytes = float(draft_bytes) / length
    drafted = gamma if scenario.state_rollback == "keep" else 0
    each = account.sequence_bytes(scenario.machine.gpu, part, draft_token_bytes, drafted)
    return each * (1.0 - scenario.machine.host_layers)
