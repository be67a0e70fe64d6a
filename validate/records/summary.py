"""Computes statistics of own records: measured points in the same form as published rows, and the steadiness
of timings.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from perfmodel.specs import engine_attention
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation.tree_shape import widths
from perfmodel.validate.records.plan import model_reference
from perfmodel.validate.records.schema import THREAD_TIME, PointRow
from perfmodel.validate.records.store import Record

STEADY_RATIO = {"cpu": 1.1, "cuda": 1.03}
"""Kind of device -> largest ratio of the median to the fastest sample of a steady timing. A GPU is not
shared, and a second run on it should agree within 3 %.
"""
QUIET_SHARE = 0.7
"""If the share of steady timings is below this, the machine was busy and its medians are unreliable."""
QUARTILES_PER_DEVIATION = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""
HALF_WIDTH = 1.645 * 1.2533
"""Half-width of the 90 % interval of a median of n normal samples, times sqrt(n), in standard deviations of
the samples.
"""


def points(record: Record) -> tuple[MeasuredPoint, ...]:
    """The points of a measurement that have a time in at least one mode. Times are medians, in seconds.

    target_s, draft_s, verify_s and overhead_s come from `phases` rows. ar_tpot_s, sd_tpot_s,
    tokens_per_iteration and speedup come from `end_to_end` rows. draft_s is one draft step, or the mean over
    the levels of a tree. No figure combines both modes. A model in ``validate/plans/shapes`` is named by the
    path of its file, so that `load_model` can read it.
    """
    by_key: dict[str, dict[str, PointRow]] = {}
    for row in record.rows:
        if row.status == "ok":
            key = row.key.removesuffix(f"/{row.mode}")
            by_key.setdefault(key, {})[row.mode] = row
    return tuple(_point(record, key, by_mode) for key, by_mode in by_key.items())


def _point(record: Record, key: str, by_mode: Mapping[str, PointRow]) -> MeasuredPoint:
    """A point from its rows in both modes, or in one of them."""
    end_to_end = by_mode.get("end_to_end")
    phases = by_mode.get("phases")
    row = end_to_end or phases
    assert row is not None
    figures: dict[str, Any] = {"tokens_per_iteration": None, "speedup": None, **_drafted(row)}
    if end_to_end is not None:
        figures |= _end_to_end(end_to_end, paired=record.data.protocol.timer == THREAD_TIME)
    if phases is not None:
        figures |= _phases(phases)
    plan = record.data.plan
    attention = row.attention or "?"
    torch_version = record.data.environment.libraries.get("torch", "?")
    source = f"results/{record.data.machine}/{record.path.name}"
    stack = f"validate-torch{torch_version}-{attention}"
    context = round(row.context + row.mean_growth_tokens)
    draft = row.draft if row.draft == "self" else model_reference(row.draft)
    return MeasuredPoint(
        set_name=record.name,
        row_id=key,
        source=source,
        hardware=record.hardware,
        stack=stack,
        tp=plan.tensor_parallel,
        target=model_reference(row.target),
        weights=plan.precisions().weights.name,
        kv_dtype=plan.precision.kv,
        attention_backend=_backend(attention),
        batch=row.batch,
        context=context,
        asked_context=row.context,
        draft=draft,
        draft_kv=row.draft_kv,
        task="",
        alpha=None,
        notes="",
        **figures,
    )


def _backend(attention: str) -> str | None:
    """The attention kernel of a row; None for torch's own kernels, which are no backends of the decoder."""
    return attention if attention in engine_attention()["perfmodel"].backends else None


def _drafted(row: PointRow) -> dict[str, Any]:
    """The draft of a point: a chain or a tree."""
    if row.parents is not None:
        by_level = widths(row.parents)
        return {"gamma": None, "tree": (len(row.parents), len(by_level)), "widths": by_level}
    return {"gamma": row.gamma}


def _end_to_end(row: PointRow, paired: bool) -> dict[str, Any]:
    """The figures of whole loops. The speedup is that of the measured tokens per iteration (Omega, including
    the bonus token).

    - paired: whether the speedup follows from the median of `ratios` instead of the ratio of the medians. The
      median of ratios is used for a shared host.
    """
    loops = row.iterations or 1
    ar_s = statistics.median(row.samples["ar_s"]) / loops
    sd_s = statistics.median(row.samples["sd_s"]) / loops
    if not row.histogram or not sum(row.histogram):
        return {"ar_tpot_s": ar_s}
    accepted = sum(j * count for j, count in enumerate(row.histogram))
    tokens_per_iteration = 1.0 + accepted / sum(row.histogram)
    ratio = statistics.median(ratios(row.samples)) if paired else ar_s / sd_s
    return {
        "ar_tpot_s": ar_s,
        "sd_tpot_s": sd_s / tokens_per_iteration,
        "tokens_per_iteration": tokens_per_iteration,
        "speedup": tokens_per_iteration * ratio,
    }


def ratios(samples: Mapping[str, Sequence[float]]) -> list[float]:
    """Baseline over speculative seconds of each pair of neighbouring samples. A drift of the machine affects
    both samples of a pair alike.
    """
    return [ar_s / sd_s for ar_s, sd_s in zip(samples["ar_s"], samples["sd_s"], strict=True)]


def spread(values: Sequence[float]) -> float:
    """The interquartile range divided by the median."""
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive")
    return (upper - lower) / middle


def half_width(values: Sequence[float]) -> float:
    """Half of the 90 % interval of the median, as a share of the median. It follows from the interquartile
    range.
    """
    deviation = spread(values) / QUARTILES_PER_DEVIATION
    return HALF_WIDTH * deviation / math.sqrt(len(values))


def speedup_half_widths(record: Record) -> dict[str, float]:
    """Point -> half of the 90 % interval of its measured speedup, as a share of the speedup."""
    whole = (row for row in record.rows if row.status == "ok" and row.mode == "end_to_end")
    return {row.key.removesuffix("/end_to_end"): half_width(ratios(row.samples)) for row in whole}


def scatter(record: Record) -> float:
    """The typical scatter of a record: the median, over all timings, of interquartile range over median."""
    timings = _timings(record)
    return statistics.median(map(spread, timings)) if timings else 0.0


def _phases(row: PointRow) -> dict[str, Any]:
    """The times of the phases of an iteration: medians over all iterations."""
    samples = row.samples
    outside_passes = zip(samples["sd_accept_s"], samples["sd_commit_s"], strict=True)
    overhead_s = [accept_s + commit_s for accept_s, commit_s in outside_passes]
    return {
        "target_s": statistics.median(samples["ar_target_s"]),
        "draft_s": statistics.median(samples["sd_draft_s"]) / row.gamma,
        "verify_s": statistics.median(samples["sd_verify_s"]),
        "overhead_s": statistics.median(overhead_s),
    }


def steady_share(record: Record) -> float:
    """Share of timings whose median is within the factor `STEADY_RATIO` of their fastest sample; 1 on a quiet
    machine.
    """
    factor = STEADY_RATIO[record.data.environment.device.kind]
    timings = _timings(record)
    steady = sum(statistics.median(values) <= factor * min(values) for values in timings)
    return steady / len(timings) if timings else 0.0


def _timings(record: Record) -> list[Sequence[float]]:
    """The samples of every timing of the rows that were measured."""
    timings: list[Sequence[float]] = []
    for row in record.data.points:
        if row.status == "ok":
            timings += row.samples.values()
    return timings


def is_quiet(record: Record) -> bool:
    """Whether the medians of a record are reliable."""
    return steady_share(record) >= QUIET_SHARE


def quiet_line(record: Record) -> str:
    """The steadiness of a record, as one printed line."""
    near = STEADY_RATIO[record.data.environment.device.kind] - 1
    line = f"{steady_share(record):.0%} of timings have a median within {near:.0%} of their fastest sample"
    return line if is_quiet(record) else f"WARNING: the machine was not quiet ({line}): measure again"
