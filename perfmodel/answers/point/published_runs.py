"""Published measurements of exactly this question, next to the prediction."""

from dataclasses import dataclass

from perfmodel.answers.question.query import Query
from perfmodel.kv.base import KVMethod
from perfmodel.specs.published import MeasuredPoint, points_of, published_points
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One figure: error is predicted / measured - 1."""

    predicted: float
    measured: float
    error: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A published row with its source, and its figures by name.

    fitted_on: whether the calibration was fitted on this very set, so that the error is not a test of it.
    """

    set: str
    row: str
    source: str
    stack: str
    gamma: int | None
    notes: str
    fitted_on: bool
    figures: dict[str, MeasuredFigure]


def measured(
    asked: Query, kv: KVMethod, seeks_best: bool, predicted: dict[str, float], fitted_on: tuple[str, ...]
) -> tuple[Measured, ...]:
    """Rows of ``results/published`` with this device, model, draft, method, budget, batch, context and gamma.

    asked: the question with its names resolved. kv: what its draft reads. seeks_best: it left gamma open, so
    that rows which state the best gamma measured are shown too. predicted: by the name of the measured
    figure. Empty where nobody measured this.
    """
    same = (asked.tp, asked.weights, asked.batch, asked.context)
    rows = points_of(asked.hardware, asked.model)
    rows = tuple(p for p in rows if not p.tree and (p.tp, p.weights, p.batch, p.context) == same)
    own_formats = (
        asked.kv_dtype != "bf16" or asked.draft_kv_dtype != "bf16" or asked.draft_weights != asked.weights
    )
    if not rows or own_formats:
        return ()
    drafted = (asked.draft, kv.name if kv.budget is None else f"{kv.name}:{kv.budget}", asked.tp)
    found = []
    for point in rows:
        baseline = point.draft is None
        if not baseline and (point.draft, point.draft_kv, asked.draft_tp) != drafted:
            continue
        best = seeks_best and point.set_name == "gamma_optimal"
        if point.gamma == asked.gamma or best or (baseline and asked.gamma == 0):
            found.append(_beside(point, predicted, point.set_name in fitted_on))
    return tuple(found)


def measured_speedups(scenario: Scenario, tp: int) -> list[tuple[int, int, int, float]]:
    """(batch, context, gamma, speedup) of the published runs of this pair, method and device on its very
    stack.

    Empty without measurements, and for a calibration of another stack.
    """
    kv, machine = scenario.draft.kv, scenario.machine
    spelt = kv.name if kv.budget is None else f"{kv.name}:{kv.budget}"
    same = (machine.calibration.stack, machine.gpu.name, tp, scenario.target.name, scenario.draft.name, spelt)
    return [
        (p.batch, p.context, p.gamma, p.speedup)
        for p in published_points("magicdec")
        if p.speedup is not None
        and p.gamma is not None
        and (p.stack, p.hardware, p.tp, p.target, p.draft, p.draft_kv) == same
    ]


def _beside(point: MeasuredPoint, predicted: dict[str, float], fitted_on: bool) -> Measured:
    clocked = {name: getattr(point, name) for name in predicted if getattr(point, name) is not None}
    return Measured(
        set=point.set_name,
        row=point.row_id,
        source=point.source,
        stack=point.stack,
        gamma=point.gamma,
        notes=point.notes,
        fitted_on=fitted_on,
        figures={
            name: MeasuredFigure(predicted[name], s, predicted[name] / s - 1.0) for name, s in clocked.items()
        },
    )
