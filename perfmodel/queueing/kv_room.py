"""The number of requests that fit in the KV cache of a server, not rounded."""

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Limits
from perfmodel.specs.calibrations.engine_words import serving_engine_of
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.scenario import Scenario


def sequences_of(
    scenario: Scenario, context: Floats, drafted: NDArray[np.int64], limits: Limits, reserved_bytes: float
) -> Array:
    """Number of requests whose KV caches fit in memory next to the weights, not rounded, over ``[draft
    length]``.

    - reserved_bytes: memory for activations and CUDA graphs. It is ignored if the engine's own memory account
      (`speculation/accounts/`) already includes it.
    """
    held = np.asarray(context) + _unused_tokens(scenario, drafted)
    room = memory_of(scenario, 1.0, held, drafted.astype(float), limits.memory_fraction)
    if scenario.account.complete:
        each = np.asarray(room.sequences)
    else:
        each = np.asarray((room.pool_bytes - reserved_bytes) / room.sequence_bytes)
    return scenario.target_shard.groups * np.broadcast_to(each, drafted.shape)


def with_prefix_once(sequences: Array, unshared: Array, share: float) -> Array:
    """Number of sequences that fit in memory if their common prefix is cached only once, over ``[draft
    length]``.

    - share: the fraction of the sequences that begin with the prefix.
    - sequences: number of sequences that fit if each has its whole context.
    - unshared: number of sequences that would fit if each context were shorter by its mean share of the
      prefix, which is `share` times the prefix.
    """
    prefix_room = (1.0 / sequences - 1.0 / unshared) / share
    return np.where(sequences > 0, np.maximum(sequences, unshared * (1.0 - prefix_room)), sequences)


def _unused_tokens(scenario: Scenario, drafted: NDArray[np.int64]) -> Array:
    """Mean number of cache tokens that a running request holds but does not use, ``[draft length]``. They are
    half of its last block, and the room for drafted tokens of later iterations.
    """
    calibration = scenario.machine.calibration
    engine = serving_engine_of(calibration)
    if engine is None:
        return np.zeros(drafted.shape)
    slots = engine.drafted_slots.of(calibration.version) if engine.drafted_slots else 2
    return (engine.prefix.block - 1.0) / 2.0 + (slots - 1.0) * drafted.astype(float)
