"""Statistics of own records, made on reading: medians with their spread, speedups, and the shape of published rows."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs.published import MeasuredPoint
from perfmodel.validate.records.record import MicroRow, Record, Row

SHAPES = Path(__file__).parents[1] / "plans" / "shapes"


@dataclass(frozen=True, slots=True)
class Stat:
    """A median with its spread: `low` and `high` are the quartiles."""

    median: float
    low: float
    high: float
    least: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> "Stat":
        """Of raw samples, each divided by `scale`."""
        scaled = [value / scale for value in values]
        low, _, high = statistics.quantiles(scaled, n=4, method="inclusive") if len(scaled) > 1 else [scaled[0]] * 3
        return cls(statistics.median(scaled), low, high, min(scaled), len(scaled))


@dataclass(frozen=True, slots=True)
class Measured:
    """One point with everything that was measured of it; None where its mode was not run or failed.

    target_s (one plain pass), draft_s (one step), verify_s and overhead_s are from `phases` rows; plain_s and
    iteration_s (whole steps of the two loops) and the histogram from `end_to_end` rows. One never supplies the other's.
    """

    record: str
    key: str
    row: Row
    target_s: Stat | None = None
    draft_s: Stat | None = None
    verify_s: Stat | None = None
    overhead_s: Stat | None = None
    plain_s: Stat | None = None
    iteration_s: Stat | None = None
    histogram: tuple[int, ...] | None = None

    @property
    def tokens_per_iteration(self) -> float | None:
        """Mean tokens gained per iteration and sequence, the bonus token included, over all timed iterations."""
        if not self.histogram or not sum(self.histogram):
            return None
        return 1.0 + sum(j * count for j, count in enumerate(self.histogram)) / sum(self.histogram)

    @property
    def tpot_s(self) -> float | None:
        """Time per output token of one sequence, speculating."""
        if self.iteration_s is None or self.tokens_per_iteration is None:
            return None
        return self.iteration_s.median / self.tokens_per_iteration

    @property
    def speedup(self) -> float | None:
        """End to end: Omega T_T / iteration at the tokens per iteration that were really gained."""
        return self.plain_s.median / self.tpot_s if self.plain_s and self.tpot_s else None

    @property
    def context(self) -> float:
        """Cached tokens in the middle of a timed sample."""
        return self.row.context + self.row.mean_growth_tokens


def measured(record: Record) -> tuple[Measured, ...]:
    """One entry per point with a time in either mode."""
    points: dict[str, dict[str, Row]] = {}
    for row in record.rows:
        if row.status == "ok":
            points.setdefault(row.point_key, {})[row.mode] = row
    return tuple(_join(record, key, modes) for key, modes in points.items())


def _join(record: Record, key: str, modes: dict[str, Row]) -> Measured:
    whole, parts = modes.get("end_to_end"), modes.get("phases")
    facts: dict[str, Any] = {}
    if whole:
        loops = float(whole.iterations or 1)
        facts["plain_s"] = Stat.of(whole.samples["plain_s"], loops)
        facts["iteration_s"] = Stat.of(whole.samples["speculative_s"], loops)
        facts["histogram"] = whole.histogram
    if parts:
        both = zip(parts.samples["draft_decide_s"], parts.samples["draft_commit_s"], strict=True)
        facts["target_s"] = Stat.of(parts.samples["plain_verify_s"])
        facts["draft_s"] = Stat.of(parts.samples["draft_propose_s"], parts.gamma)
        facts["verify_s"] = Stat.of(parts.samples["draft_verify_s"])
        facts["overhead_s"] = Stat.of([decide + commit for decide, commit in both])
    row = whole or parts
    assert row is not None
    return Measured(record.name, key, row, **facts)


def points(record: Record) -> tuple[MeasuredPoint, ...]:
    """As published rows are: medians in seconds. A measuring shape is named by its file, which `load_model` reads."""
    plan, libraries = record.data.plan, record.data.environment["libraries"]
    return tuple(
        MeasuredPoint(
            set_name=record.name,
            row_id=m.key,
            source=f"results/{record.data.machine}/{record.path.name}",
            hardware=record.data.hardware,
            stack=f"validate-torch{libraries.get('torch', '?')}-{getattr(m.row, 'attention', '?')}",
            tp=plan["tensor_parallel"],
            target=model_name(m.row.target),
            weights=plan["precision"]["weights"],
            batch=m.row.batch,
            context=round(m.context),
            asked_context=m.row.context,
            draft=m.row.draft if m.row.draft == "self" else model_name(m.row.draft),
            draft_kv=m.row.draft_kv,
            gamma=m.row.gamma,
            target_s=_median(m.target_s),
            draft_s=_median(m.draft_s),
            verify_s=_median(m.verify_s),
            overhead_s=_median(m.overhead_s),
            tokens_per_iteration=m.tokens_per_iteration,
            ar_tpot_s=_median(m.plain_s),
            sd_tpot_s=m.iteration_s.median / m.tokens_per_iteration
            if m.iteration_s and m.tokens_per_iteration
            else None,
            speedup=m.speedup,
        )
        for m in measured(record)
    )


def _median(stat: Stat | None) -> float | None:
    return stat.median if stat else None


@cache
def model_name(name: str) -> str:
    """What `load_model` understands: the path of a measuring shape, else the name."""
    path = SHAPES / f"{name}.yaml"
    return str(path) if path.is_file() else name


def repeatability(one: Record, two: Record, within: float = 0.05) -> float | None:
    """Share of end-to-end times of two runs of one plan that agree within a fraction; None where none are common."""
    if one.data.plan_sha256 != two.data.plan_sha256:
        raise InputError(f"{two.path}: must be of the same plan as {one.path}")
    other = {m.key: m for m in measured(two)}
    ratios = []
    for m in measured(one):
        n = other.get(m.key)
        for name in ("plain_s", "iteration_s"):
            a, b = getattr(m, name), getattr(n, name, None)
            if a and b:
                ratios.append(abs(math.log(a.median / b.median)))
    return sum(r <= math.log1p(within) for r in ratios) / len(ratios) if ratios else None


STEADY = 1.1
"""A median within this factor of the fastest sample: nothing else ran beside it for long."""
QUIET_SHARE = 0.7
"""Below this share of steady timings the machine was not quiet, and its medians are not to be believed."""


def steady_share(record: Record) -> float:
    """Share of timings whose median is within `STEADY` of their fastest sample; 1 on a quiet machine."""
    rows: list[Row | MicroRow] = [*record.rows, *record.kernels]
    timings = [values for row in rows if row.status == "ok" for values in row.samples.values()]
    steady = sum(statistics.median(values) <= STEADY * min(values) for values in timings)
    return steady / len(timings) if timings else 0.0


def is_quiet(record: Record) -> bool:
    """Whether its medians are to be believed."""
    return steady_share(record) >= QUIET_SHARE


def quiet_line(record: Record) -> str:
    """What a reader should know of it, in a line."""
    line = f"{steady_share(record):.0%} of timings have a median within {STEADY - 1:.0%} of their fastest sample"
    return line if is_quiet(record) else f"WARNING: the machine was not quiet ({line}): measure again"
