"""Predicted beside measured, point by point, for one own record: what the report and `measure` print."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfmodel.costs.roofline import PassTime
from perfmodel.errors import InputError
from perfmodel.specs.acceptance_rows import positions_from_histogram
from perfmodel.specs.calibration import Scatter
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload
from perfmodel.validate.harness.estimate import Bench
from perfmodel.validate.harness.plans import Plan
from perfmodel.validate.records.record import Record
from perfmodel.validate.records.summary import Measured, Stat, measured

FIGURES = ("target_s", "verify_s", "draft_s", "plain_s", "iteration_s", "speedup")
LABELS = {
    "target_s": "target pass (T_T)",
    "verify_s": "verification (T_V)",
    "draft_s": "draft step (T_D)",
    "plain_s": "plain step, end to end",
    "iteration_s": "iteration, end to end",
    "speedup": "speedup, end to end",
}
BELOW_TOLERANCE = 0.99
"""A measured time below this share of its physical lower bound is a fault of the measurement or of the bound."""


@dataclass(frozen=True)
class Side:
    """One point: what was measured, what the engine says at the tokens per iteration that were really gained."""

    point: Measured
    scenario: Scenario
    predicted: dict[str, float]
    lower: dict[str, float]

    def measured(self, figure: str) -> float | None:
        """The median, or the speedup."""
        value = getattr(self.point, figure)
        return value.median if isinstance(value, Stat) else value

    def error(self, figure: str) -> float | None:
        """predicted / measured - 1."""
        clock = self.measured(figure)
        return None if clock is None else self.predicted[figure] / clock - 1.0

    def below_bound(self) -> list[str]:
        """Figures whose fastest sample is below the physical lower bound."""
        faults = []
        for figure, bound in self.lower.items():
            stat = getattr(self.point, figure)
            if isinstance(stat, Stat) and stat.least < bound * BELOW_TOLERANCE:
                faults.append(figure)
        return faults

    def step(self, figure: str) -> PassTime:
        """The engine's breakdown of a pass: ``target_s``, ``verify_s`` or ``draft_s``."""
        row = self.point.row
        if figure == "draft_s":
            return self.scenario.draft_step(float(row.batch), self.point.context)
        query = row.gamma + 1.0 if figure == "verify_s" else 1.0
        return self.scenario.target_step(float(row.batch), self.point.context, query)


def bench_of(record: Record, hardware: str | None = None, calibration: str | None = None) -> Bench:
    """The device and calibration that a record is compared with: its own unless given."""
    plan = Plan.model_validate({key: value for key, value in record.data.plan.items() if key != "shapes"})
    return Bench.of(plan, hardware or record.data.hardware, calibration)


def sides(record: Record, bench: Bench) -> list[Side]:
    """Every measured point of a record."""
    return [_side(point, bench) for point in measured(record)]


def _side(point: Measured, bench: Bench) -> Side:
    row = point.row
    if point.histogram and sum(point.histogram):
        positions = positions_from_histogram(point.histogram)
        acceptance = Acceptance.from_positions(positions, "observed histogram")
    else:
        acceptance = Acceptance.from_alpha(row.alpha)
    scenario = bench.scenario(row.target, row.draft, row.draft_kv, acceptance)
    p = predict(scenario, Workload.of(row.batch, point.context, row.gamma))
    predicted = {
        "target_s": float(p.target_s),
        "plain_s": float(p.target_s),
        "draft_s": float(p.draft_s),
        "verify_s": float(p.verify_s),
        "iteration_s": float(p.iteration_s),
        "speedup": float(p.speedup),
    }
    batch, query = float(row.batch), row.gamma + 1.0
    target = float(scenario.target_step(batch, point.context).lower_s)
    verify = float(scenario.target_step(batch, point.context, query).lower_s)
    draft = float(scenario.draft_step(batch, point.context).lower_s)
    lower = {"target_s": target, "plain_s": target, "verify_s": verify, "draft_s": draft}
    lower["iteration_s"] = row.gamma * draft + verify
    return Side(point, scenario, predicted, lower)


def below_bounds(compared: Sequence[Side]) -> dict[str, list[str]]:
    """Point -> its figures that no device of this kind can reach; none where all is well."""
    return {side.point.key: faults for side in compared if (faults := side.below_bound())}


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute relative errors of one figure over points."""

    mean: float
    worst: float
    bias: float
    count: int


def errors(compared: Sequence[Side], figure: str) -> Errors | None:
    """Mean and worst absolute error and mean signed error; None where the figure was not measured."""
    found = [error for side in compared if (error := side.error(figure)) is not None]
    if not found:
        return None
    size = [abs(error) for error in found]
    return Errors(statistics.fmean(size), max(size), statistics.fmean(found), len(found))


def observed(record: Record, bench: Bench) -> dict[str, Scatter]:
    """What a calibration's `observed_error` says: scatter over the points of a record that it was not fitted to."""
    if record.name in bench.calibration.fitted_on:
        raise InputError(f"--judge: {record.path} must not be what the calibration was fitted on")
    compared = sides(record, bench)
    found = {}
    for figure in ("target_s", "draft_s", "verify_s", "speedup"):
        logs = [math.log1p(error) for side in compared if (error := side.error(figure)) is not None]
        if logs:
            rms = math.sqrt(statistics.fmean(value * value for value in logs))
            source = f"results/{record.data.machine}/{record.path.name}"
            found[figure] = Scatter(log_rms=float(f"{rms:.4g}"), rows=len(logs), source=source)
    return found


def best_gammas(compared: Sequence[Side]) -> dict[tuple[str, str, str, int, int], tuple[int, int]]:
    """(target, draft, KV, batch, context) -> gamma with the best speedup, measured and predicted, of those measured."""
    groups: dict[tuple[str, str, str, int, int], list[Side]] = {}
    for side in compared:
        r = side.point.row
        if side.point.speedup is not None:
            groups.setdefault((r.target, r.draft, r.draft_kv, r.batch, r.context), []).append(side)
    return {
        key: (
            max(group, key=lambda s: s.point.speedup or 0.0).point.row.gamma,
            max(group, key=lambda s: s.predicted["speedup"]).point.row.gamma,
        )
        for key, group in groups.items()
        if len(group) > 1
    }


def inflections(
    compared: Sequence[Side], tolerance: float
) -> dict[tuple[str, str, str, int], tuple[int | None, int | None]]:
    """(target, draft, KV, gamma) -> smallest measured context from which on speedup does not fall with batch.

    Measured and predicted by the same rule on the same grid; None where it falls at the longest context. A fall within
    `tolerance` (relative) counts as none.
    """
    groups: dict[tuple[str, str, str, int], list[Side]] = {}
    for side in compared:
        r = side.point.row
        if side.point.speedup is not None:
            groups.setdefault((r.target, r.draft, r.draft_kv, r.gamma), []).append(side)
    found = {}
    for key, group in groups.items():
        clock = _inflection(
            [(s.point.row.context, s.point.row.batch, s.point.speedup or 0.0) for s in group], tolerance
        )
        model = _inflection(
            [(s.point.row.context, s.point.row.batch, s.predicted["speedup"]) for s in group], tolerance
        )
        if clock is not None and model is not None:
            found[key] = (clock[0], model[0])
    return found


def _inflection(rows: list[tuple[int, int, float]], tolerance: float) -> tuple[int | None] | None:
    """None where no context has two batches."""
    by_context: dict[int, dict[int, float]] = {}
    for context, batch, speedup in rows:
        by_context.setdefault(context, {})[batch] = speedup
    judged = {context: curve for context, curve in by_context.items() if len(curve) > 1}
    if not judged:
        return None
    answer: int | None = None
    for context in sorted(judged, reverse=True):
        curve = [judged[context][batch] for batch in sorted(judged[context])]
        if any(after < before * (1 - tolerance) for before, after in pairwise(curve)):
            break
        answer = context
    return (answer,)
