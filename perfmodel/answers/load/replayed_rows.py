"""Makes rows by replaying the requests of a trace or a mix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfmodel.answers.load.ladder import most_replays
from perfmodel.answers.load.mixed_classes import ClassRow, MixedRequests
from perfmodel.answers.load.replayed_load import ReplayedLoad
from perfmodel.answers.load.requests import replayed_trace, requests_at
from perfmodel.answers.load.traced import lengths_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.errors import refuse
from perfmodel.queueing.load import Load
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.prefix import Reuse
from perfmodel.queueing.pricing import step_times

MOST_PROMPT_PASSES = 1_000_000
"""Largest number of passes over prompts in all replays of a question. This many passes take about ten
seconds.
"""


def check_size(question: TrafficQuery, rows: int, choices: Sequence[Choice]) -> None:
    """Raises InputError if the replays of a question would take more than about ten seconds.

    - rows: number of rows that need a replay.
    - choices: the draft lengths and policies.
    """
    if question.rollout is not None:
        ages = len(question.alpha_by_age or (None,))
        replays = len(choices) * ages
        most = _most_requests(question, replays)
        if question.rollout > most:
            allowed = f"at most {most} for {len(choices)} draft lengths and policies and {ages} ages"
            raise refuse("--rollout", None, allowed, question.rollout)
        return
    count = question.num_prompts
    replays = rows
    if question.draws:
        replays = most_replays(question, rows, choices)
    if question.trace is not None:
        count = replayed_trace(question).at_s.size
    if not replays:
        return
    most = _most_requests(question, replays)
    if count > most:
        raise refuse(
            "--num-prompts",
            None,
            f"at most {most} for {rows} loads and draft lengths that are replayed, or --closed-form",
            count,
        )


def _most_requests(question: TrafficQuery, replays: int) -> int:
    """The largest number of requests of each replay, given the number of replays."""
    passes = max(question.lengths.input_mean / question.limits.max_num_batched_tokens, 1.0)
    return math.floor(MOST_PROMPT_PASSES / (replays * passes))


def replayed_rows(
    question: TrafficQuery,
    replica: Replica,
    choices: Sequence[Choice],
    closed: Sequence[TrafficRow],
    log_off: Mapping[int, float | None],
    load: float,
) -> tuple[list[TrafficRow], list[ClassRow]]:
    """The rows for a trace or a mix of classes at one load, in the order of `choices`. The second result has
    a row for each class of a mix.

    - closed: the rows of the closed form, in the same order. If not even one request fits in memory, such a
      row is returned unchanged.
    - log_off: draft length -> standard deviation of the logarithm of its mean TPOT.

    Raises InputError for wrong input.
    """
    if question.trace is not None:
        replica, choices = _for_trace(question, replica, choices, load)
    run = ReplayedLoad(
        question,
        replica.scenario,
        replica.lengths,
        requests_at(question, load),
        question.loop.named(load),
    )
    mixed = MixedRequests.drawn(question, run.where["request_rate"]) if question.mix is not None else None
    rows = list[TrafficRow]()
    classes = list[ClassRow]()
    for choice, row in zip(choices, closed, strict=True):
        if not choice.steps.seats:
            rows.append(row)
            continue
        if mixed is not None:
            run = replace(run, requests=mixed.requests(choice, replica))
        met = run.served(choice.steps)
        rows.append(run.row(choice, met, row, log_off.get(choice.steps.gamma)))
        if mixed is not None:
            classes += mixed.rows(question, met, choice, run.where)
    return rows, classes


def _for_trace(
    question: TrafficQuery, replica: Replica, choices: Sequence[Choice], load: float
) -> tuple[Replica, list[Choice]]:
    """The replica and the choices at the lengths of the trace's requests."""
    trace = replayed_trace(question)
    lengths = lengths_of(trace)
    drafted = {t.gamma for choice in choices for t in (choice.steps.table or (choice.steps,))}
    reuse = None if trace.shared is None else Reuse(lengths, engine=question.reusing.engine)
    priced = step_times(replica.scenario, lengths, replica.limits, sorted(drafted), reuse=reuse)
    rate = load if question.opens else np.inf
    there = replace(
        replica, load=Load(lengths, rate=np.array([rate])), passes={steps.gamma: steps for steps in priced}
    )
    there = replace(there, load=Load(lengths, rate=np.array([there.sustained(there.passes)])))
    return there, [replace(choice, steps=choice.policy.replayed(choice, there)) for choice in choices]
