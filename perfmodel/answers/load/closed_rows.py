"""Computes rows with the closed form: predictions for one draft length at several loads."""

from dataclasses import replace

import numpy as np

from perfmodel.answers.load.closed_form_range import doubts
from perfmodel.answers.load.loop import Loop
from perfmodel.answers.load.rising import at_most
from perfmodel.answers.load.slo import SHARE_WANTED, falling_slo_share, replicas_of
from perfmodel.answers.load.tpot_errors import tpot_interval
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow, saturation_note
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.open_loop import OVERFLOWS
from perfmodel.queueing.policies import Choice
from perfmodel.queueing.served_load import ServedLoad
from perfmodel.queueing.steps import StepTimes


def closed_rows(
    question: TrafficQuery, choice: Choice, log_off: float | None, loads: Array, bounds: bool = False
) -> list[TrafficRow]:
    """The rows of one draft length or draft-length policy (`choice`) at these loads.

    - log_off: standard deviation of the logarithm of the mean TPOT.
    - bounds: whether the rows are only used as bounds of other rows, so that they need neither replicas nor
      warnings.

    The question may limit the number of requests at once. If this limit is reached, the server is predicted
    as a closed loop with this many clients.
    """
    loop = question.loop
    rows = _rows(question, loop, choice, log_off, loads, bounds)
    if loop.cap is None:
        return rows
    clients = np.array([float(loop.cap)])
    (closed,) = _rows(question, question.capped_loop, choice, log_off, clients, bounds)
    capped = []
    for rate, row in zip(loads.tolist(), rows, strict=True):
        if row.ttft_s is None or rate >= closed.requests_per_s:
            row = replace(closed, **loop.named(rate), replicas=row.replicas)
        else:  # no time is longer than in the closed loop
            row = at_most(replace(row, doubts=row.doubts or closed.doubts), closed)
        capped.append(row)
    return capped


def _rows(
    question: TrafficQuery, loop: Loop, choice: Choice, log_off: float | None, loads: Array, bounds: bool
) -> list[TrafficRow]:
    """The rows of a choice in one loop.

    - loads: requests per second, or clients.
    - log_off, bounds: as for `closed_rows`.
    """
    gamma = choice.gamma
    steps = choice.steps
    if not steps.seats:
        return [_nothing_fits(question, loop, gamma, steps, value) for value in loads.tolist()]
    load = loop.load(loads)
    served = serve(steps, load, question.limits, question.spread)
    interval = None if log_off is None else tpot_interval(log_off, steps, served, load, question.limits)
    shares = falling_slo_share(question, loop, steps, loads) if question.limits_s else None
    hit_rates = None if steps.cached is None else steps.cached.found(served.share)
    doubted = doubts(question, loop, steps, served, loads)
    tpot_s = _percentiles(served.tpot)
    ttft_s = _percentiles(served.ttft)
    e2e_s = _percentiles(served.e2e)
    gained = served.gained(steps)
    rows = []
    for at, value in enumerate(loads.tolist()):
        saturated = bool(served.saturated[at])
        requests_per_s = float(served.requests_per_s[at])
        running = float(served.running[at])
        slo_share = None
        if shares is not None:
            slo_share = 0.0 if saturated else float(shares[at])
        replicas = None if bounds else replicas_of(question, loop, steps, served, value, slo_share)
        prefix_hit_rate = None if hit_rates is None else float(hit_rates[at])
        ends = None if interval is None else interval.at(at)
        warnings = () if bounds else _warnings(question, loop, served, at, replicas)
        output_tokens_per_s = requests_per_s * loop.lengths.output_mean
        rows.append(
            TrafficRow(
                **loop.named(value),
                gamma=gamma,
                running_mean=running,
                tpot_s=tpot_s[at],
                ttft_s=None if saturated else ttft_s[at],
                e2e_s=None if saturated else e2e_s[at],
                output_tokens_per_s=output_tokens_per_s,
                requests_per_s=requests_per_s,
                saturation_rate=served.saturation_rate,
                slo_share=slo_share,
                kv_share=min(running * steps.kv_share, 1.0),
                prefix_hit_rate=prefix_hit_rate,
                replicas=replicas,
                tpot_interval=ends,
                tokens_per_iteration=float(gained[at]),
                doubts=doubted[at],
                warnings=warnings,
            )
        )
    return rows


def _percentiles(moments: Moments) -> list[Percentiles]:
    """The mean and the percentiles at each load."""
    mean = np.asarray(moments.mean)[None]
    columns = np.concatenate([mean, moments.quantiles(0.5, 0.9, 0.99)])
    return [Percentiles(*row) for row in columns.T.tolist()]


def _nothing_fits(
    question: TrafficQuery, loop: Loop, gamma: int | str, steps: StepTimes, value: float
) -> TrafficRow:
    """The row of a server on which not even one request fits. The TPOT of the row is that of one request
    alone.
    """
    alone = float(steps.decode_s[0] / steps.tokens_per_iteration)
    note = "no request fits in memory next to the weights: use more devices (--tp) or smaller formats"
    if steps.gamma >= question.limits.max_num_batched_tokens - 1:
        note = (
            f"a pass of {question.limits.max_num_batched_tokens} tokens (--max-num-batched-tokens) "
            "has no room for drafted tokens"
        )
    return TrafficRow(
        **loop.named(value),
        gamma=gamma,
        running_mean=0.0,
        tpot_s=Percentiles(alone, alone, alone, alone),
        output_tokens_per_s=0.0,
        requests_per_s=0.0,
        saturation_rate=0.0,
        slo_share=0.0 if question.limits_s else None,
        kv_share=0.0,
        tokens_per_iteration=steps.tokens_per_iteration,
        warnings=(note,),
    )


def _warnings(
    question: TrafficQuery, loop: Loop, served: ServedLoad, at: int, replicas: int | None
) -> tuple[str, ...]:
    """The notes that a reader needs about one load in addition to its predictions."""
    notes = []
    if served.saturated[at]:
        notes.append(saturation_note(served.saturation_rate, replicas))
    if served.metastable[at]:
        after = "after a burst the server may stay at the larger one"
        if served.share[at, -1] > OVERFLOWS:
            after = "the answer is for the larger one, which the server reaches after bursts"
        notes.append(f"the running batch can have two sizes at this rate: {after}")
    if question.limits_s and replicas is None and loop.opens:
        notes.append(
            f"no number of replicas keeps {SHARE_WANTED:.0%} of the requests within the SLO at this length"
        )
    return tuple(notes)
