"""Predicts a server with more requests than fit in its memory. Some requests run at once, and the others
wait.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from perfmodel.answers.point.verdict import verdict
from perfmodel.answers.point.whatif_answer import Admitted
from perfmodel.answers.question import Query, resolve_costs, with_draft
from perfmodel.specs import serving_engine_of
from perfmodel.specs.engines.serving import ServingEngine
from perfmodel.speculation import (
    Memory,
    Passes,
    Scenario,
    Workload,
    interval_of_speedup,
    memory_of,
    predict,
    ratio_log_error,
)

SMALLEST = "bf16"
"""The format of recurrent states with which more requests fit in memory. Engines have a flag for this format.
"""


def serving_engine(scenario: Scenario) -> ServingEngine | None:
    """The serving engine of a scenario if it lets requests wait for memory, otherwise None."""
    engine = serving_engine_of(scenario.machine.calibration)
    return None if engine is None or engine.seats is None else engine


def admitted(query: Query, scenario: Scenario, gamma: int, room: Memory[float]) -> Admitted | None:
    """The prediction for the part of a batch that runs at once, if the whole batch does not fit in memory.
    The result is None if the whole batch fits, if not even one sequence fits, if there is no draft, or if the
    engine does not queue requests.

    - room: the memory at this batch.
    """
    engine = serving_engine(scenario)
    if room.fits or not room.max_batch or not gamma or engine is None or scenario.acceptance is None:
        return None
    batch = float(query.batch)
    context = float(query.context)
    running = float(room.max_batch)
    alone = min(batch, float(max(room.ar_max_batch, 1)))
    here = predict(scenario, Workload.of(running, context, gamma), gamma)
    baseline = predict(scenario, Workload.of(alone, context, 0), 0)
    passes = Passes(scenario, running, context, np.array([gamma]))
    speedup = float(here.speedup)
    error = ratio_log_error(scenario, passes, float(here.iteration_s / here.target_s))
    interval = interval_of_speedup(scenario, gamma, float(here.tokens_per_iteration), speedup, error)
    gain = float(here.throughput_tokens_per_s / baseline.ar_throughput_tokens_per_s)
    if interval is not None:
        low, high = interval
        interval = (low * gain / speedup, high * gain / speedup)
    return Admitted(
        running=int(running),
        most=_most(query, scenario, gamma, room, engine),
        baseline_running=int(alone),
        throughput_tokens_per_s=float(here.throughput_tokens_per_s),
        ar_throughput_tokens_per_s=float(baseline.ar_throughput_tokens_per_s),
        tpot_s=float(here.tpot_s),
        gain=gain,
        gain_interval=interval,
        verdict=verdict(scenario, context, gain, interval, gamma),
    )


def _most(query: Query, scenario: Scenario, gamma: int, room: Memory[float], engine: ServingEngine) -> int:
    """The field `most` of `Admitted`."""
    unread = engine.states is not None and engine.states.unread and scenario.target_shard.states
    if not unread or query.state_rollback != "keep":
        return room.max_batch
    return min(query.batch, _holds(replace(query, state_rollback="replay"), gamma))


def of_states(query: Query, scenario: Scenario, gamma: int, room: Memory[float]) -> Iterator[str]:
    """Warnings for a batch that does not fit in memory because of recurrent states. The warnings also name
    settings with which more requests would run at once.
    """
    target = scenario.target
    if room.fits or target.linear_attention is None or not scenario.target_shard.states:
        return
    engine = serving_engine(scenario)
    alike = memory_of(scenario, float(query.batch), 1.0, gamma, query.memory_fraction).single()
    if engine is not None and alike.max_batch == room.max_batch:
        yield "the memory for recurrent states is full, so shorter contexts do not allow more requests"
    states = None if engine is None else engine.states
    if engine is not None and states is not None and target.linear_attention.state_dtype == "fp32":
        wider = _holds(replace(query, state_dtype=SMALLEST), gamma)
        if wider > room.max_batch:
            flags = f"--state-dtype {SMALLEST}; {engine.title}: {states.format_flag}"
            yield f"{wider} requests run at once with less exact recurrent states of 16 bits ({flags})"
    if not gamma or query.state_rollback != "keep":
        return
    most = _holds(replace(query, state_rollback="replay"), gamma)
    if most <= room.max_batch:
        return
    kept = f"the prediction keeps a recurrent state for each of the {gamma + 1} verified tokens"
    if engine is None:
        yield f"{kept}; with one state per sequence batch {most} fits (--state-rollback replay)"
    elif states is not None and states.unread:
        yield (
            f"{kept}; what {engine.title} keeps is not known: with one state per request {most} run at once "
            "(--state-rollback replay)"
        )
    elif states is not None and states.replay_flag and scenario.draft.kind not in states.replay_without:
        yield (
            f"{kept}; with {states.replay_flag} a request keeps shorter records instead: up to {most} run at "
            "once (--state-rollback replay), at a time that is not modelled"
        )


def _holds(query: Query, gamma: int) -> int:
    """The largest batch of a question that fits in memory."""
    scenario = resolve_costs(with_draft(query))
    room = memory_of(scenario, float(query.batch), float(query.context), gamma, query.memory_fraction)
    return room.single().max_batch
