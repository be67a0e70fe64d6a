"""Compares a draft model on its own devices with more replicas on the same number of devices. The draft model
drafts before the verification or during it.

While the target verifies, the draft model can already draft for the likeliest outcomes of this verification
("speculative speculative decoding"). With probability `hit`, the actual outcome is among those for which the
draft model has drafted. An iteration then takes on average

    hit max(gamma T_D, T_V + overhead) + (1 - hit) (gamma T_D + T_V + overhead)

where T_D is the time of a draft pass over `outcomes` tokens of each sequence. The time of the messages
between the two models is not counted, because they have only a few hundred bytes per iteration. The target's
devices hold no part of the draft. For comparison, let the target run on n devices and the draft on m. If the
m devices held replicas of the target instead, the throughput would be multiplied by (n + m)/n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.operations import Array
from perfmodel.speculation import Scenario, Workload, memory_of, predict


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The speed of one way to use the devices, at the gamma and batch with the highest throughput.

    - tokens_per_s: throughput of all devices together.
    - batch: number of sequences per replica.
    """

    tokens_per_s: float
    tpot_s: float
    batch: int
    gamma: int


@dataclass(frozen=True, slots=True)
class Apart:
    """Four ways to use the devices of the target and of a separate draft model. A field is None if not even
    one sequence fits in memory in this way.

    - replicas: all devices hold replicas of the target, without a draft.
    - together: all devices hold replicas, each with the draft on the same devices.
    - before: the draft model on its own devices drafts before each verification.
    - while_verifying: the draft model on its own devices drafts during each verification; None without a hit
      rate.
    """

    draft_hardware: str
    draft_devices: int
    replicas: DeviceUse | None
    together: DeviceUse | None
    before: DeviceUse | None
    while_verifying: DeviceUse | None


def check_apart(draft: Draft) -> None:
    """Raises InputError for a draft that is not a separate model. Other drafts need the hidden states, the
    cache or the host of the target.
    """
    if not draft.named_model and draft.kind != "model":
        raise refuse(
            "--draft",
            None,
            "a separate model that needs nothing of the target (hidden states, cache, host)",
            draft.name,
        )


def drafter_apart(
    near: Scenario,
    far: Scenario,
    context: float,
    max_gamma: int,
    fraction: float | None,
    most: int,
    hit: float | None,
    outcomes: int,
) -> Apart:
    """Computes the four ways to use the devices of the target and of a separate draft model.

    - near: the scenario on the target's devices.
    - far: the scenario on the devices of the draft model, for the draft's times and memory.
    - fraction: share of device memory that the engine may use.
    - most: the largest batch to try.
    - hit, outcomes: as in `CompareQuery`.

    Raises InputError as `check_apart` does.
    """
    check_apart(near.draft)
    draft_devices = far.draft.tensor_parallel
    replicas = 1.0 + draft_devices / near.machine.tensor_parallel
    batches = np.arange(1.0, most + 1)[:, None]
    gammas = np.arange(near.longest(max_gamma) + 1.0)
    prediction = predict(near, Workload.of(batches, context, gammas), max_gamma)
    query = far.draft.query(np.maximum(gammas, 1.0)) * outcomes
    draft_s = far.draft.passes(gammas) * far.draft_pass_s(batches, context, query)
    verify_s = prediction.verify_s + prediction.overhead_s
    memory = memory_of(near, batches, context, gammas, fraction)
    apart = memory_of(far, batches, context, gammas, fraction)
    target_fits = memory.weight_bytes + memory.kv_bytes <= memory.available_bytes
    draft_fits = apart.draft_weight_bytes + apart.draft_kv_bytes <= apart.available_bytes
    fits = target_fits & draft_fits
    one_after_other = draft_s + verify_s
    overlapped_s = None
    if hit is not None:
        overlapped_s = hit * np.maximum(draft_s, verify_s) + (1.0 - hit) * one_after_other

    def best_use(usable: NDArray[np.bool_], iteration_s: Array, copies: float = 1.0) -> DeviceUse | None:
        """The batch and gamma with the most tokens per second; None if no batch is usable.

        - copies: number of replicas.
        """
        rate = np.where(usable, batches * prediction.tokens_per_iteration / iteration_s, 0.0)
        at, gamma = divmod(int(rate.argmax()), rate.shape[1])
        if not rate[at, gamma]:
            return None
        one = float(rate[at, gamma])
        return DeviceUse(copies * one, (at + 1) / one, at + 1, gamma)

    drafting = gammas > 0
    return Apart(
        draft_hardware=far.machine.gpu.name,
        draft_devices=draft_devices,
        replicas=best_use(memory.fits & ~drafting, prediction.iteration_s, replicas),
        together=best_use(memory.fits & drafting, prediction.iteration_s, replicas),
        before=best_use(fits & drafting, one_after_other),
        while_verifying=None if overlapped_s is None else best_use(fits & drafting, overlapped_s),
    )
