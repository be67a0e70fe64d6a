"""Predicts how long a rollout of reinforcement learning takes, for each draft length or policy and each age
of the draft.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.load.traced import trace_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import refuse
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.replay import replay
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.queueing.sessions import sharing

COMPARED = "auto,table,tail"
"""Policies that a rollout compares by default."""
MOST_DONE = 0.9
"""Share of the requests that are finished when the tail of a rollout begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRow:
    """The prediction for a rollout with one draft length or policy.

    - age: number of updates of the target's weights since the draft was trained.
    - alpha: the acceptance at this age; None if the question states no acceptance by age.
    - makespan_s: time until the last token of the last request.
    - tail_s: the part of the makespan after 90 % of the requests have finished.
    - speedup: the makespan without a draft divided by the makespan with the draft.
    - stream_speedup: the same ratio for the mean TPOT of a request.
    """

    age: float | None
    alpha: float | None
    gamma: int | str
    makespan_s: float
    tail_s: float
    output_tokens_per_s: float
    speedup: float
    stream_speedup: float
    preemptions: int
    table: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AgedServer:
    """The server, and the acceptance of its draft at one age.

    - age, alpha: as in `RolloutRow`.
    """

    age: float | None
    alpha: float | None
    replica: Replica
    choices: Sequence[Choice]


def rollout_values(question: TrafficQuery) -> dict[str, Any]:
    """Values for arguments that a question about a rollout does not state: the number of requests at once,
    and the policies to compare.
    """
    if question.rollout is None:
        return {}
    values: dict[str, Any] = {"max_concurrency": question.max_concurrency or (question.rollout,)}
    if [policy.name for policy in question.gamma] == ["auto"]:
        values["gamma"] = COMPARED
    return values


def rollouts(question: TrafficQuery, servers: Iterable[AgedServer], longest: int) -> tuple[RolloutRow, ...]:
    """A row for each age and each draft length or policy. All rows are for the same requests.

    - longest: the number of positions of the model.

    Raises InputError for a trace with too few requests, and for requests with one output token.
    """
    requests = _requests(question, longest)
    (cap,) = question.max_concurrency or ()
    rows = list[RolloutRow]()
    for server in servers:
        served = [choice for choice in server.choices if choice.steps.seats]
        replays = [
            replay(
                choice.steps,
                question.lengths,
                question.limits,
                requests,
                spread=question.spread,
                seed=question.seed,
                cap=cap,
            )
            for choice in served
        ]
        pairs = zip(served, replays, strict=True)
        rows += [_row(server, choice, replayed, replays[0]) for choice, replayed in pairs]
    return tuple(rows)


def _requests(question: TrafficQuery, longest: int) -> Arrivals:
    """The requests of the rollout, from the trace or at random. Raises InputError as `rollouts` does."""
    assert question.rollout is not None
    if question.trace is None:
        requests = batch_of(question.lengths, question.rollout, longest, question.seed)
    else:
        trace = trace_of(question.trace)
        if question.rollout > trace.at_s.size:
            allowed = f"at most the {trace.at_s.size} requests of {question.trace}"
            raise refuse("--rollout", None, allowed, question.rollout)
        requests = replace(trace.first(question.rollout), at_s=np.zeros(question.rollout), shared=None)
    if requests.output_tokens.max() < 2:  # one token has no time per token
        raise refuse("--rollout", None, "of requests with 2 output tokens or more", 1)
    if question.reuse is None:
        return requests
    return sharing(requests, question.reuse, question.seed)


def _row(
    server: AgedServer, choice: Choice, replayed: ReplayedRequests, baseline: ReplayedRequests
) -> RolloutRow:
    """The row of one draft length or policy.

    - replayed, baseline: the results of the replay with this choice and without a draft.
    """
    most_done_s = float(np.quantile(replayed.e2e_s, MOST_DONE))
    output_tokens = float(replayed.output_tokens.sum())
    return RolloutRow(
        age=server.age,
        alpha=server.alpha,
        gamma=choice.gamma,
        makespan_s=replayed.duration_s,
        tail_s=replayed.duration_s - most_done_s,
        output_tokens_per_s=output_tokens / replayed.duration_s,
        speedup=baseline.duration_s / replayed.duration_s,
        stream_speedup=baseline.mean_tpot_s / replayed.mean_tpot_s,
        preemptions=replayed.preemptions,
        table=choice.table,
    )


def batch_of(lengths: Lengths, count: int, longest: int, seed: int) -> Arrivals:
    """Random requests of a rollout. All prompts have the mean length. The lengths of outputs have a
    log-normal distribution with the given mean and standard deviation.

    An output is shortened so that prompt and output together have at most `longest` tokens.
    """
    mean = lengths.output_mean
    variance = np.log1p((lengths.output_std / mean) ** 2)
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - variance / 2.0, np.sqrt(variance), count)
    inputs = np.full(count, round(lengths.input_mean))
    outputs = np.clip(np.round(drawn), 2, longest - inputs[0]).astype(np.int64)
    return Arrivals(np.zeros(count), inputs, outputs)
