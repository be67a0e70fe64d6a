"""Memory: whether a workload fits, and the largest batch that fits, with and without speculation."""

from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np

from perfmodel.costs import Shard
from perfmodel.drafts.base import Draft
from perfmodel.operations import Floats
from perfmodel.speculation.scenario import Scenario

Number = TypeVar("Number", bound=Floats)
DEFAULT_MEMORY_FRACTION = 0.92
"""Share of device memory that a serving engine takes: vLLM's default (`CacheConfig.gpu_memory_utilization`,
0.32).
"""


@dataclass(frozen=True, slots=True)
class Memory(Generic[Number]):
    """Bytes on the fullest device of the group. Batch sizes are whole sequences; 0 means that not one fits.

    The fields are arrays, or plain numbers for a single point.
    """

    weight_bytes: Number
    kv_bytes: Number
    draft_weight_bytes: Number
    draft_kv_bytes: Number
    available_bytes: float
    fits: Any
    max_batch: Any
    ar_max_batch: Any

    def single(self) -> "Memory[float]":
        """The memory of a single point, in plain numbers."""
        sizes = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name.endswith("_bytes")}
        return Memory(
            **sizes, fits=bool(self.fits), max_batch=int(self.max_batch), ar_max_batch=int(self.ar_max_batch)
        )

    def shortage(self, batch: float) -> tuple[str, ...]:
        """A sentence that this batch does not fit; empty if it does. For a single point."""
        text = (
            f"batch {batch:.0f} does not fit in {self.available_bytes / 1e9:.1f} GB; the largest "
            "that does is "
        )
        if self.fits:
            return ()
        return (f"{text}{int(self.max_batch)}",)


def memory_of(
    scenario: Scenario, batch: Floats, context: Floats, gamma: Floats, fraction: float
) -> Memory[Floats]:
    """Compares weights + draft weights + batch x ((context + gamma + 1) KV + the draft's own KV) with
    `fraction` of the memory.

    Broadcasts over ``[batch, context, gamma]``. At gamma = 0 the draft needs nothing.
    """
    target = scenario.target_shard
    drafter = scenario.draft_shard
    draft = scenario.draft
    context = np.asarray(context)
    tokens = np.asarray(gamma) + 1.0
    draft_weights = np.where(tokens > 1, draft.own_weight_bytes(drafter), 0.0)
    draft_kv = np.where(tokens > 1, draft_stored_bytes(drafter, draft, context), 0.0)
    room = scenario.machine.gpu.memory_bytes * fraction
    kept = 1.0 - scenario.machine.host_layers
    target_kv = kept * target.stored_kv_bytes(context + tokens, scenario.kept_states(tokens))
    batch = target.sequences(batch)
    weights = scenario.weight_bytes
    used = weights + draft_weights + batch * (target_kv + draft_kv)
    return Memory(
        weight_bytes=weights,
        kv_bytes=batch * target_kv,
        draft_weight_bytes=draft_weights,
        draft_kv_bytes=batch * draft_kv,
        available_bytes=room,
        fits=np.less_equal(used, room),
        max_batch=target.groups * _sequences(room - weights - draft_weights, target_kv + draft_kv),
        ar_max_batch=target.groups * _sequences(room - weights, kept * target.stored_kv_bytes(context + 1)),
    )


def draft_stored_bytes(drafter: Shard, draft: Draft, context: Floats) -> Floats:
    """KV bytes per sequence on one device that the draft keeps in addition to the target's cache."""
    per_layer = draft.kv.stored_bytes if draft.views_target_cache else draft.kv.own_bytes
    return sum(
        (a.layers * per_layer(drafter.paged(a.span(context)), a.layout) for a in drafter.attentions),
        start=drafter.states.bytes_per_sequence if drafter.states and not draft.views_target_cache else 0.0,
    )


def _sequences(room: Floats, each: Floats) -> Floats:
    return np.floor(np.maximum(room, 0.0) / each)
