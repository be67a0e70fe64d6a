"""The rows of a traffic answer: one draft length at several loads, in seconds and shares, with warnings."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.operations import Array
from perfmodel.queueing.closed import OVERFLOWS, ServedLoad, mean_tpot_s, serve
from perfmodel.queueing.load import Load
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.occupancy import TINY, prompts_per_pass
from perfmodel.queueing.policies import Choice
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import Z, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.speculation import Scenario, log_error, step_log_error

SHARE_WANTED = 0.9
"""Share of requests within the SLO that a number of replicas must reach."""
MOST_REPLICAS = 4096
TRIED = 16
"""Numbers of replicas that are computed at once in the search for the smallest sufficient one."""
NEAR = {True: 0.9, False: 0.97}
"""Whether the loop is open -> the share of the saturation rate above which the TTFT may be 20 % off."""
KEPT = {True: 2.0 / 3.0, False: 0.97}
"""Whether the loop is open -> the share of an idle server's hits below which a warning says that sessions, or
waiting clients, lose their contexts.
"""
APART = 0.5
"""Coefficient of variation of the computed prompt tokens above which a warning is given: a short prompt in a
pass of its own takes longer than its share of the tokens.
"""
CROWDED = 0.05
"""Share of the time without free seats above which the TTFT may be 50 % off."""
SPLIT, BUSY = (1.05, 3.0), 0.5
"""Prompts per pass, and share of the saturation rate, above which the predicted TTFT is too low."""
SELDOM = 0.1
"""Share of the time at other draft lengths above which clients may be 15 % off."""
FEW_ITERATIONS, FEW_SEATS, WIDE = 10, 4, 4.0
"""Limits beyond which TPOT may be more than 10 % off. Below the first, in iterations per answer, the last
iteration matters. Up to the second, in running requests, those with caches longer than the mean leave no room
for others. Above the third, variance over mean of the running requests (1 if Poisson), a run of thousands of
requests does not show the whole variation.
"""
SHORT = (8, 12)
"""Number of prompts, and of prompts longer than a pass, during one answer. Below both, the closed form and
the replay may differ by more than 3 %.
"""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of a time over requests, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


LOCKSTEP = (
    "clients with equal output lengths stay in step, and their prompts wait for each other: use the times of "
    "--replay; TTFT may be several times higher"
)
SWINGING = "the number of running requests varies for a long time: use the means of --replay"
SHORT_ANSWERS = f"an answer takes fewer than {FEW_ITERATIONS} iterations: use the means of --replay"
TIGHT = "the caches of few requests fill the memory, and preemptions follow: use the means of --replay"
CHANGING = "clients are around a change of the draft length: use the means of --replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """One replica at one load and draft length. Fields are None where there is no value: the TTFT of a
    saturated server.

    request_rate: the rate of an open loop. concurrency: the clients of a closed loop. gamma: drafted tokens,
    or the name of a policy (``table``). running_mean: mean number of requests that decode. slo_share: share
    of requests within all limits. prefix_hit_rate: prompt tokens found in the prefix cache, over all prompt
    tokens. replicas: the number that the rate needs, within the SLO if one is given; None if no number
    suffices. tpot_interval, ttft_interval, throughput_interval: 90 % intervals of the means of TPOT and TTFT,
    and of output_tokens_per_s.
    """

    request_rate: float | None
    concurrency: int | None
    gamma: int | str
    running_mean: float
    tpot_s: Percentiles
    ttft_s: Percentiles | None = None
    e2e_s: Percentiles | None = None
    output_tokens_per_s: float
    requests_per_s: float
    saturation_rate: float
    slo_share: float | None = None
    kv_share: float
    prefix_hit_rate: float | None = None
    replicas: int | None = None
    tpot_interval: tuple[float, float] | None = None
    ttft_interval: tuple[float, float] | None = None
    throughput_interval: tuple[float, float] | None = None
    tokens_per_iteration: float
    warnings: tuple[str, ...] = ()


INTERVALS = {
    "tpot_interval": ("tpot_low_s", "tpot_high_s"),
    "ttft_interval": ("ttft_low_s", "ttft_high_s"),
    "throughput_interval": ("output_tokens_per_s_low", "output_tokens_per_s_high"),
}
"""Field of a row -> the columns of its ends."""


def flat(row: TrafficRow) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name in ("tpot_s", "ttft_s", "e2e_s"):
            cells |= {f"{field.name}_{f.name}": getattr(value, f.name, None) for f in fields(Percentiles)}
        elif field.name in INTERVALS:
            cells |= dict(zip(INTERVALS[field.name], value or (None, None), strict=True))
        else:
            cells[field.name] = "; ".join(value) if field.name == "warnings" else value
    return cells


def rows_of(question: TrafficQuery, choice: Choice, log_off: float | None) -> list[TrafficRow]:
    """The rows of a choice at its loads. log_off: standard deviation of the logarithm of its mean TPOT."""
    if question.capped:
        return _capped(question, choice, log_off)
    gamma = choice.gamma
    steps = choice.steps
    loads = question.loads[choice.at]
    spread = question.spread
    limits = question.limits
    load = question.load(loads)
    if not steps.seats:
        return [_nothing_fits(question, gamma, steps, value) for value in loads]
    prompts = SHORT[load.lengths.input_mean > limits.max_num_batched_tokens]
    short = prompts if steps.alone_s(load.lengths) < prompts * steps.prompt_s[0] else 0
    served = serve(steps, load, limits, spread)
    low, high = _interval(question, log_off, steps, served, load)
    per_pass = prompts_per_pass(steps, load.lengths, limits, served.running)
    splits: list[bool] = np.logical_and(per_pass > SPLIT[0], per_pass < SPLIT[1]).tolist()
    shares = _falling_share(question, steps, loads) if question.limits_s else None
    between = _between_lengths(steps, served)
    swings = _dispersion(served)
    few = steps.gamma > 0 and steps.iterations(load.lengths) < FEW_ITERATIONS
    tight = steps.seats <= FEW_SEATS and steps.seats < limits.max_num_seqs
    replicas = [_replicas(question, steps, served, float(value)) for value in loads]
    tpot, ttft, e2e = (_percentiles(moments) for moments in (served.tpot, served.ttft, served.e2e))
    hit_rate = None if steps.cached is None else steps.cached.found(served.share)
    gained = served.gained(steps)
    rows = []
    for i, value in enumerate(loads.tolist()):
        over = bool(served.saturated[i])
        rows.append(
            TrafficRow(
                **question.named(value),
                gamma=gamma,
                running_mean=float(served.running[i]),
                tpot_s=tpot[i],
                ttft_s=None if over else ttft[i],
                e2e_s=None if over else e2e[i],
                output_tokens_per_s=float(served.requests_per_s[i]) * load.lengths.output_mean,
                requests_per_s=float(served.requests_per_s[i]),
                saturation_rate=served.saturation_rate,
                slo_share=None if shares is None else 0.0 if over else float(shares[i]),
                kv_share=min(float(served.running[i] * steps.kv_share), 1.0),
                prefix_hit_rate=None if hit_rate is None else float(hit_rate[i]),
                replicas=replicas[i],
                tpot_interval=None if low is None else (float(low[i]), float(high[i])),
                tokens_per_iteration=float(gained[i]),
                warnings=(
                    *_warnings(question, short, splits, served, i, replicas[i]),
                    *(
                        ()
                        if hit_rate is None
                        else _hit_warnings(question, steps, hit_rate[i], served.running[i])
                    ),
                    *((CHANGING,) if not question.opens and between[i] > SELDOM else ()),
                    *((SWINGING,) if question.opens and swings[i] > WIDE else ()),
                    *((SHORT_ANSWERS,) if few and not over else ()),
                    *((TIGHT,) if tight and not over and served.share[i, -1] > CROWDED else ()),
                    *((LOCKSTEP,) if question.in_lockstep and value > 1.0 else ()),
                ),
            )
        )
    return rows


def _capped(question: TrafficQuery, choice: Choice, log_off: float | None) -> list[TrafficRow]:
    """Rates with a limit on the number of clients: a closed loop of that many clients, where they cannot send
    faster.
    """
    closed = rows_of(replace(question, request_rate=None), replace(choice, at=np.array([0])), log_off)[0]
    rows = rows_of(replace(question, max_concurrency=None), choice, log_off)
    return [
        replace(
            closed if row.ttft_s is None or rate >= closed.requests_per_s else row,
            **question.named(rate),
            replicas=row.replicas,
        )
        for rate, row in zip(question.loads[choice.at].tolist(), rows, strict=True)
    ]


def _percentiles(moments: Moments) -> list[Percentiles]:
    columns = np.concatenate([np.asarray(moments.mean)[None], moments.quantiles(0.5, 0.9, 0.99)])
    return [Percentiles(*row) for row in columns.T.tolist()]


def _nothing_fits(question: TrafficQuery, gamma: int | str, steps: StepTimes, value: float) -> TrafficRow:
    """A row of a server on which not one request fits. Its TPOT is that of one request alone."""
    alone = float(steps.decode_s[0] / steps.tokens_per_iteration)
    notes = "no request fits in memory next to the weights: use more devices (--tp) or smaller formats"
    if steps.gamma >= question.limits.max_num_batched_tokens - 1:
        notes = (
            f"a pass of {question.limits.max_num_batched_tokens} tokens (--max-num-batched-tokens) "
            "has no room for drafted tokens"
        )
    return TrafficRow(
        **question.named(value),
        gamma=gamma,
        running_mean=0.0,
        tpot_s=Percentiles(alone, alone, alone, alone),
        output_tokens_per_s=0.0,
        requests_per_s=0.0,
        saturation_rate=0.0,
        slo_share=0.0 if question.limits_s else None,
        kv_share=0.0,
        tokens_per_iteration=steps.tokens_per_iteration,
        warnings=(notes,),
    )


def log_errors(
    question: TrafficQuery, scenario: Scenario, times: Sequence[StepTimes]
) -> dict[int, float | None]:
    """Draft length -> standard deviation of the logarithm of its mean TPOT, at the batch of the first choice
    (the baseline).

    None if the calibration states no error.
    """
    context = question.lengths.context
    running = question.loads
    most = float(max(times[0].seats, 1))
    if question.opens and times[0].seats:
        alone = mean_tpot_s(times[0], question.load(running), question.limits)
        running = running * alone * question.lengths.decoded  # Little's law
    n = min(float(max(round(float(np.median(running))), 1)), most)
    return served_log_errors(scenario, n, context, [t.gamma for t in times])


def served_log_errors(
    scenario: Scenario, batch: float, context: float, gammas: Sequence[int]
) -> dict[int, float | None]:
    """Draft length -> standard deviation of the logarithm of a mean TPOT while `batch` requests decode.

    A ratio has the errors of two measurements, an iteration and a step. So an iteration has the error of a
    ratio divided by the square root of 2, or that of a step if it is larger. The costs of requests add the
    error of their engine.
    """
    over_host = scenario.target_step(batch, context) if scenario.machine.over_host else None
    step = step_log_error(scenario, over_host, batch, context)  # type: ignore[arg-type]  # of one
    ratio = log_error(scenario, np.asarray(batch), np.asarray(context), np.asarray(gammas))
    if step is None or ratio is None:
        return dict.fromkeys(gammas)
    own = request_constants().error(engine_of(scenario.machine.calibration)).log_rms
    each = np.hypot(np.maximum(np.max(step), ratio / math.sqrt(2.0)), own)
    return dict(zip(gammas, np.ravel(each).tolist(), strict=True))


def _interval(
    question: TrafficQuery, off: float | None, steps: StepTimes, served: ServedLoad, load: Load
) -> tuple[Any, Any]:
    """Ends of the mean TPOT's interval: the server is solved again with steps that are faster and slower by
    the error. At a rate, that is the same server on another clock.
    """
    if off is None:
        return None, None
    factors = np.exp([[-Z * off], [Z * off]])
    if load.rate is not None:
        clocks = replace(load, rate=np.ravel(factors * load.rate))
        ends = factors * mean_tpot_s(steps, clocks, question.limits).reshape(len(factors), -1)
    else:
        slowed = [steps.slowed(factor) for factor in factors.ravel().tolist()]
        ends = np.stack([mean_tpot_s(each, load, question.limits) for each in slowed])
    return np.minimum(ends[0], served.tpot.mean), np.maximum(ends[1], served.tpot.mean)


def _slo_share(slo: dict[str, float], served: ServedLoad) -> Array:
    """Share of requests within every limit. TTFT and TPOT are taken as independent."""
    share = np.ones(served.running.shape)
    for name, limit in slo.items():
        if name != "e2e":
            share = share * getattr(served, name).below(limit)
    if "e2e" in slo:
        return np.minimum(share, served.e2e.below(slo["e2e"]))
    return share


def _falling_share(question: TrafficQuery, steps: StepTimes, loads: Array) -> Array:
    """The least `_slo_share` of each load and of lower ones."""
    lower = np.geomspace(loads.max() / 2.0**TRIED, loads.max(), TRIED)
    tried = np.union1d(lower if question.opens else np.maximum(np.round(lower), 1.0), loads)
    served = serve(steps, question.load(tried), question.limits, question.spread)
    least = np.minimum.accumulate(_slo_share(question.limits_s, served))
    return np.asarray(least[np.searchsorted(tried, loads)])


def _replicas(question: TrafficQuery, steps: StepTimes, served: ServedLoad, rate: float) -> int | None:
    """Number of replicas that share an open loop's rate, so that none is saturated and the SLO is met."""
    if not question.opens:
        return None
    least = math.floor(rate / served.saturation_rate) + 1
    if not question.limits_s:
        return least
    tried = np.unique(np.round(np.geomspace(least, max(MOST_REPLICAS, least), TRIED)))
    while True:
        split = serve(steps, question.load(rate / tried), question.limits, question.spread)
        fine = (_slo_share(question.limits_s, split) >= SHARE_WANTED) & ~split.saturated
        if not fine.any():
            return None
        first = int(np.argmax(fine))
        if not first or tried[first] - tried[first - 1] <= 1:
            return int(tried[first])
        tried = np.unique(np.round(np.linspace(tried[first - 1], tried[first], TRIED)))


def _warnings(
    question: TrafficQuery,
    short: int,
    splits: Sequence[bool],
    served: ServedLoad,
    at: int,
    replicas: int | None,
) -> tuple[str, ...]:
    notes = []
    if served.saturated[at]:
        number = "" if replicas is None else f": {replicas} replicas"
        notes.append(f"saturated at {served.saturation_rate:.3g}/s{number}")
    elif served.requests_per_s[at] > (near := NEAR[question.opens]) * served.saturation_rate:
        notes.append(f"above {near:.0%} of saturation: use the mean of --replay instead")
    elif question.opens and (full := served.share[at, -1]) > CROWDED:
        notes.append(f"seats or caches are full {full:.0%} of the time: use the TTFT of --replay")
    elif question.opens and served.requests_per_s[at] > BUSY * served.saturation_rate and splits[at]:
        notes.append(
            "prompts share passes and are split between them: use the TTFT of --replay, up to 30 % longer"
        )
    elif question.opens and (
        question.burstiness < 1
        or (question.burstiness > 1 and served.requests_per_s[at] > BUSY * served.saturation_rate)
    ):
        notes.append("arrivals are not Poisson: use the means of --replay; these may be 20 % off")
    elif short:
        notes.append(f"an answer decodes in less time than {short} prefills: use the mean of --replay")
    if served.metastable[at]:
        after = (
            "the slower one is shown, and use --replay for the time until bursts reach it"
            if served.share[at, -1] > OVERFLOWS
            else "a burst may leave the server in the slower one"
        )
        notes.append(f"two running batches are possible at this rate: {after}")
    if question.limits_s and replicas is None and question.opens:
        notes.append(
            f"no number of replicas keeps {SHARE_WANTED:.0%} of the requests within the SLO at this length"
        )
    return tuple(notes)


def _dispersion(served: ServedLoad) -> Array:
    """Variance over mean of the number of running requests, by load."""
    n = np.arange(float(served.share.shape[1]))
    mean = served.share @ n
    return np.asarray((served.share @ n**2) / np.maximum(mean, TINY) - mean)


def _between_lengths(steps: StepTimes, served: ServedLoad) -> Array:
    """Share of time at other draft lengths than the most usual one, by load."""
    drafted = np.array([t.gamma for t in steps.table or (steps,) * steps.seats])
    at = [served.share[:, 1:] @ (drafted == gamma) for gamma in np.unique(drafted)]
    return np.asarray(served.share[:, 1:].sum(1) - np.max(at, 0))


def _hit_warnings(question: TrafficQuery, steps: StepTimes, hit_rate: float, running: float) -> Iterator[str]:
    """Warnings about prefix-cache hits. A full server evicts the contexts of clients that wait for a seat,
    and of sessions that return after a while. With few requests it evicts less than predicted. If prompts
    have passes of their own, the predicted time of prompts with hits is too long.
    """
    if steps.cached is None:
        return
    kept = hit_rate / max(steps.cached.hit_rate[0], TINY)
    if (question.think_time or not question.opens) and kept < KEPT[question.opens]:
        yield "the running batch leaves the prefix cache little room: use --replay instead"
    elif question.think_time and running < 1:
        returns = steps.cached.chance[: steps.cached.chance.size // 3].sum()
        if returns < KEPT[False] * (1.0 - 1.0 / question.turns):
            yield "few requests run, and sessions lose less of their contexts: use the hits of --replay"
    if question.dp > 1 and steps.reading and steps.reading.alone and steps.cached.cv > APART:
        yield "prompts with and without hits share passes: use the means of --replay, up to 15 % less"
