"""Predicts the latencies and the goodput of several classes of requests that share a server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles
from perfmodel.errors import refuse
from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.policies import Choice, Replica
from perfmodel.queueing.replayed_requests import ReplayedRequests
from perfmodel.specs.mix import RequestClass, read_mix
from perfmodel.speculation import tokens_per_iteration
from perfmodel.uniform import largest_std


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRow:
    """The results of a replay for one class of requests, at one load and draft length.

    - requests: number of requests of the class.
    - slo_share: share of these requests within the SLO of the class. If the class has no SLO, that of the
      question applies.
    - goodput: requests per second within this SLO.
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


def mix_values(question: TrafficQuery) -> dict[str, Any]:
    """Values for arguments that the question does not state: mean and standard deviation of the lengths over
    all classes, and the mean acceptance of the classes.
    """
    if question.mix is None or (question.input_len is not None and question.output_len is not None):
        return {}
    classes = list(read_mix(question.mix).values())
    weight = np.array([c.share for c in classes])
    from_mix = dict[str, Any]()
    for name in ("input", "output"):
        means = np.array([getattr(c, f"{name}_len") for c in classes], float)
        stds = np.array([getattr(c, f"{name}_std") for c in classes])
        mean = float(np.average(means, weights=weight))
        std = math.sqrt(np.average((means - mean) ** 2 + stds**2, weights=weight))
        if getattr(question, f"{name}_len") is None:
            length = round(mean)
            from_mix |= {f"{name}_len": length, f"{name}_std": min(std, largest_std(length))}
    known = [c.alpha for c in classes if c.alpha is not None]
    stated = (question.alpha, question.rate, question.tokens_per_iteration, question.acceptance)
    if len(known) == len(classes) and stated == (None,) * 4:
        from_mix["alpha"] = float(np.average(known, weights=weight * [c.output_len for c in classes]))
    return from_mix


@dataclass(frozen=True, slots=True)
class MixedRequests:
    """The requests of a replay. Each of them belongs to a class.

    - class_of: index of the class of each request.
    """

    classes: Mapping[str, RequestClass]
    class_of: NDArray[np.int64]
    arrivals: Arrivals

    @classmethod
    def drawn(cls, question: TrafficQuery, rate: float | None) -> "MixedRequests":
        """Draws random requests and their classes.

        - rate: requests per second; None means that all requests arrive at the start.

        Raises InputError if a class gets no request.
        """
        assert question.mix is not None
        classes = read_mix(question.mix)
        count = question.num_prompts
        seed = question.seed
        base = arrivals(question.lengths, count, rate, question.burstiness, seed)
        weight = np.array([c.share for c in classes.values()])
        class_of = np.random.default_rng([seed, 3]).choice(len(classes), count, p=weight / weight.sum())
        inputs = base.input_tokens.copy()
        outputs = base.output_tokens.copy()
        for at, (name, one) in enumerate(classes.items()):
            chosen = class_of == at
            if not chosen.any():
                allowed = f"enough for a request of class {name} of {Path(question.mix).name}"
                raise refuse("--num-prompts", None, allowed, count)
            lengths = Lengths(float(one.input_len), float(one.output_len), one.input_std, one.output_std)
            drawn = arrivals(lengths, count, None, question.burstiness, seed + at)
            inputs[chosen] = drawn.input_tokens[chosen]
            outputs[chosen] = drawn.output_tokens[chosen]
        return cls(classes, class_of, Arrivals(base.at_s, inputs, outputs))

    def requests(self, choice: Choice, replica: Replica) -> Arrivals:
        """The requests for a draft length or policy. Each request has the acceptance of its class, at the
        longest draft length.
        """
        gamma = max((t.gamma for t in choice.steps.table), default=choice.steps.gamma)
        if not gamma:
            return self.arrivals
        mean = replica.passes[gamma].tokens_per_iteration
        gains = [
            mean if c.alpha is None else float(tokens_per_iteration(gamma, c.alpha))
            for c in self.classes.values()
        ]
        return replace(self.arrivals, gain=np.array(gains)[self.class_of] / mean)

    def rows(
        self, question: TrafficQuery, met: ReplayedRequests, choice: Choice, where: dict[str, Any]
    ) -> list[ClassRow]:
        """A row for each class.

        - met: the result of the replay.
        - where: the load, as fields of a row.
        """
        return [
            _row(question, name, one, self.class_of == at, met, choice, where)
            for at, (name, one) in enumerate(self.classes.items())
        ]


def check_mix(path: str, longest: int) -> None:
    """Raises InputError for a class whose requests have more than `longest` tokens.

    - longest: the model's largest number of positions.
    """
    for name, one in read_mix(path).items():
        tokens = one.input_len + one.output_len
        if tokens > longest:
            raise refuse(
                path,
                f"classes.{name}",
                f"input and output together at most the model's {longest} positions",
                tokens,
            )


def _row(
    question: TrafficQuery,
    name: str,
    one: RequestClass,
    mine: NDArray[np.bool_],
    met: ReplayedRequests,
    choice: Choice,
    where: dict[str, Any],
) -> ClassRow:
    """The results for one class.

    - mine: whether each request of the replay belongs to the class.
    - met, where: as in `MixedRequests.rows`.
    """
    times_s = met.by_limit
    slo_ms = {name: getattr(one.slo, name) for name in times_s}
    limits_s = {name: ms / 1e3 for name, ms in slo_ms.items() if ms is not None} or question.limits_s
    within = [times_s[name][mine] <= limit for name, limit in limits_s.items()]
    good = np.all(within or [np.ones(mine.sum())], axis=0)
    timed = mine & (met.output_tokens > 1)  # one token has no time per token
    decoded = float(met.output_tokens[mine].sum())
    return ClassRow(
        **where,
        gamma=choice.gamma,
        name=name,
        requests=int(mine.sum()),
        ttft_s=Percentiles.of(met.ttft_s[mine]),
        tpot_s=Percentiles.of(met.tpot_s[timed]),
        slo_share=float(good.mean()),
        goodput=float(good.sum()) / met.duration_s,
        output_tokens_per_s=decoded / met.duration_s,
    )
