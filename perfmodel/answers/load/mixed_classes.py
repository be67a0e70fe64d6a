"""Classes of requests that share a server: latencies of each class, and its goodput."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_replay import Run, percentiles
from perfmodel.answers.load.traffic_rows import Percentiles
from perfmodel.errors import refuse
from perfmodel.operations import Array
from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.replay import ReplayedRequests
from perfmodel.specs.mix import RequestClass, read_mix
from perfmodel.speculation import tokens_per_iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRow:
    """One class at one load and draft length, from a replay.

    slo_share: share of its requests within its own SLO, or else the question's. goodput: such requests per
    second.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    name: str
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    slo_share: float
    goodput: float
    output_tokens_per_s: float


def with_mix(question: TrafficQuery) -> TrafficQuery:
    """The question with means, deviations and acceptance over all classes where it states none."""
    if question.mix is None or (question.input_len is not None and question.output_len is not None):
        return question
    classes = list(read_mix(question.mix).values())
    weight = np.array([c.share for c in classes])
    from_mix: dict[str, float | int] = {}
    for name in ("input", "output"):
        means = np.array([getattr(c, f"{name}_len") for c in classes], float)
        stds = np.array([getattr(c, f"{name}_std") for c in classes])
        mean = float(np.average(means, weights=weight))
        std = math.sqrt(np.average((means - mean) ** 2 + stds**2, weights=weight))
        if getattr(question, f"{name}_len") is None:
            length = round(mean)
            from_mix |= {f"{name}_len": length, f"{name}_std": min(std, length / 3**0.5)}
    known = [c.alpha for c in classes if c.alpha is not None]
    given = (question.alpha, question.rate, question.tokens_per_iteration, question.acceptance)
    if len(known) == len(classes) and given == (None,) * 4:
        from_mix["alpha"] = float(np.average(known, weights=weight * [c.output_len for c in classes]))
    return replace(question, **from_mix)  # type: ignore[arg-type]  # of names that are numbers


def class_rows(
    question: TrafficQuery, replica: Replica, choices: Sequence[Choice]
) -> tuple[ClassRow, ...] | None:
    """A row for each load, draft length and class; None without a mix. Raises InputError."""
    if question.mix is None:
        return None
    classes = read_mix(question.mix)
    rows = list[ClassRow]()
    most = replica.scenario.target.max_position_embeddings
    for name, one in classes.items():
        if (tokens := one.input_len + one.output_len) > most:
            raise refuse(
                question.mix,
                f"classes.{name}",
                f"input and output together at most the model's {most} positions",
                tokens,
            )
    for load in question.loads.tolist():
        where = question.named(load)
        of, requests = _drawn(question, classes, where["request_rate"])
        for choice in (c for c in choices if c.steps.seats):
            gain = _gains(classes, of, choice, replica)
            met = Run(
                question, replica.scenario, question.lengths, replace(requests, gain=gain), where
            ).served(choice.steps)
            rows += [
                _row(question, name, one, of == at, met, choice, where)
                for at, (name, one) in enumerate(classes.items())
            ]
    return tuple(rows)


def _drawn(
    question: TrafficQuery, classes: Mapping[str, RequestClass], rate: float | None
) -> tuple[NDArray[np.int64], Arrivals]:
    """The class of each request, and the requests."""
    count = question.num_prompts
    seed = question.seed
    base = arrivals(question.lengths, count, rate, question.burstiness, seed)
    weight = np.array([c.share for c in classes.values()])
    of = np.random.default_rng([seed, 3]).choice(len(classes), count, p=weight / weight.sum())
    for at, name in enumerate(classes):
        if at not in of:
            raise refuse("--num-prompts", None, f"enough for a request of class {name}", count)
    inputs = base.input_tokens.copy()
    outputs = base.output_tokens.copy()
    for at, one in enumerate(classes.values()):
        own = replace(
            question.lengths,
            input_mean=float(one.input_len),
            output_mean=float(one.output_len),
            input_std=one.input_std,
            output_std=one.output_std,
        )
        drawn = arrivals(own, count, None, question.burstiness, seed + at)
        inputs[of == at], outputs[of == at] = (
            tokens[of == at] for tokens in (drawn.input_tokens, drawn.output_tokens)
        )
    return of, Arrivals(base.at_s, inputs, outputs)


def _gains(
    classes: Mapping[str, RequestClass], of: NDArray[np.int64], choice: Choice, replica: Replica
) -> Array | None:
    """Tokens per iteration of each request, relative to the server's, at the longest draft of the choice."""
    gamma = max((t.gamma for t in choice.steps.table), default=choice.steps.gamma)
    if not gamma:
        return None
    mean = replica.passes[gamma].tokens_per_iteration
    own = [mean if c.alpha is None else float(tokens_per_iteration(gamma, c.alpha)) for c in classes.values()]
    return np.asarray(np.array(own)[of] / mean)


def _row(
    question: TrafficQuery,
    name: str,
    one: RequestClass,
    mine: NDArray[np.bool_],
    met: ReplayedRequests,
    choice: Choice,
    where: dict[str, float | int | None],
) -> ClassRow:
    times = {"ttft": met.ttft_s, "tpot": met.tpot_s, "e2e": met.e2e_s}
    own = {name: getattr(one.slo, name) for name in times}
    limits = {name: ms / 1e3 for name, ms in own.items() if ms is not None} or question.limits_s
    good = np.all([times[n][mine] <= limit for n, limit in limits.items()] or [np.ones(mine.sum())], axis=0)
    return ClassRow(
        **where,  # type: ignore[arg-type]  # a rate and clients
        gamma=choice.gamma,
        name=name,
        requests=int(mine.sum()),
        ttft_s=percentiles(met.ttft_s[mine]),
        tpot_s=percentiles(met.tpot_s[mine & (met.output_tokens > 1)]),
        slo_share=float(good.mean()),
        goodput=float(good.sum()) / met.duration_s,
        output_tokens_per_s=float(met.output_tokens[mine].sum()) / met.duration_s,
    )
