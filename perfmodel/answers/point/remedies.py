"""Finds changes of the server with which speculation pays off, if it does not pay off in the given
configuration.

A change is another attention backend, another number format of the KV cache, or another number of devices for
the draft. Each change is tried alone.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.errors import InputError
from perfmodel.specs import engine_attention, engine_of
from perfmodel.speculation import Passes, Scenario, interval_of_timed, memory_of

Changes = dict[str, Any]
"""Changed arguments of a question, by name."""
WORTH_A_SWITCH = 1.1
"""A change is named if speculation certainly pays off with it. Otherwise, it is only named if it raises the
speedup by at least this factor.
"""
SMALLER_KV = "fp8"
"""The 8-bit format that every engine offers instead of a 16-bit KV cache."""


def remedies(query: Query, scenario: Scenario, speedup: float) -> tuple[Remedy, ...]:
    """The changes that help. With such a change, speculation certainly pays off, or it is more than
    `WORTH_A_SWITCH` times as fast as both the unchanged server and the baseline. The largest speedup comes
    first.

    - scenario: the scenario of the query, with a known acceptance.
    - speedup: the speedup of the unchanged question at its best draft length.
    """
    if switched not in scenario.known:  # the changes do not depend on the workload
        scenario.known[switched] = tuple(switched(query, scenario))
    enough = WORTH_A_SWITCH * max(speedup, 1.0)
    helpful = []
    for changes, changed in scenario.known[switched]:
        changed = changed.with_acceptance(scenario.acceptance)
        remedy = _with(changes, changed, query, speedup)
        if remedy is not None and remedy.helps(enough) and _fits(changed, remedy.gamma, query):
            helpful.append(remedy)
    return tuple(sorted(helpful, key=lambda remedy: -remedy.speedup))


def switched(query: Query, scenario: Scenario) -> Iterator[tuple[Changes, Scenario]]:
    """For each possible change, the changed argument and the scenario with this change."""
    named = replace(query, draft=query.draft or scenario.draft.name)
    for changes in switches(query, scenario):
        with suppress(InputError):
            yield changes, resolve_costs(replace(named, **changes))


def switches(query: Query, scenario: Scenario) -> Iterator[Changes]:
    """The changes to try. Each is one changed argument of the question."""
    if query.kv_reread is None:
        for name in other_backends(scenario):
            yield {"attention_backend": name}
    chooses = engine_of(scenario.machine.calibration) in engine_attention()
    if chooses and scenario.precision.kv.name in ("bf16", "fp16"):
        yield {"kv_dtype": SMALLER_KV}
    if not scenario.draft.views_target_cache:
        for degree in {1, query.tp} - {scenario.draft.tensor_parallel}:
            yield {"draft_tp": degree}


def used_backend(scenario: Scenario) -> str | None:
    """The predicted attention backend; None for an engine without a choice of backends."""
    machine = scenario.machine
    if engine_of(machine.calibration) not in engine_attention():
        return None
    return machine.attention.backend(scenario.target.head, scenario.precision.narrow_kv)


def other_backends(scenario: Scenario) -> list[str]:
    """The attention backends that the engine offers instead of the predicted one."""
    machine = scenario.machine
    attention = engine_attention().get(engine_of(machine.calibration) or "")
    if attention is None:
        return []
    gpu, head = machine.gpu, scenario.target.head
    used = used_backend(scenario)
    choices = attention.choices(gpu.architecture, gpu.vendor, head, machine.calibration.version)
    return [name for name in choices if name != used]


def _with(changes: Changes, changed: Scenario, query: Query, speedup: float) -> Remedy | None:
    """The remedy for a change. The result is None if the change is impossible, or if no draft length makes
    speculation faster than without the change.
    """
    batch = float(query.batch)
    context = float(query.context)
    passes = Passes(changed, batch, context, np.arange(changed.longest(query.max_gamma) + 1))
    try:
        by_length = passes.speedups(changed)
    except InputError:
        return None
    gamma = int(by_length.argmax())
    best = float(by_length[gamma])
    if not gamma or best <= speedup:
        return None
    gained = float(passes.gained[gamma])
    interval = interval_of_timed(changed, batch, context, gamma, gained, best)
    return Remedy(switch_text(changes), gamma, best, interval, changes)


def switch_text(changes: Changes) -> str:
    """Changed arguments as flags of the command line, such as ``--kv-dtype fp8``."""
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in changes.items())


def _fits(changed: Scenario, gamma: int, query: Query) -> bool:
    """Whether the batch of the question fits in memory after a change."""
    room = memory_of(changed, float(query.batch), float(query.context), float(gamma), query.memory_fraction)
    return bool(room.fits)
