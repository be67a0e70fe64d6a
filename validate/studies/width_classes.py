"""The classes of questions that have intervals of their own, and the errors of each class.

A speedup is ``known`` if another source measured this kind of draft in the engine; otherwise it is ``new``.
The rows of `iterations` also count as ``new``, with constants that were fitted without their kind of draft.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from perfmodel.answers.question import resolve
from perfmodel.specs import LLAMACPP, device_class, load_gpu
from perfmodel.specs.engines.source_errors import SpeedupClass
from perfmodel.speculation.evidence import step_class
from perfmodel.validate.studies.answered_runs import spelled_kind, step_query
from perfmodel.validate.studies.engine_replay import HeldOutReplay
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.public_runs import PublicRun
from perfmodel.validate.studies.published_engines import alike

OTHER_ENGINE = "other_engine"
"""The class of questions about an engine that uses the constants of another engine."""


def own_classes(classes: Any) -> tuple[Any, ...]:
    """The classes of questions about engines with their own constants.

    - classes: `StepClass` or `SpeedupClass`.
    """
    return tuple(name for name in get_args(classes) if name != OTHER_ENGINE)


def class_of_step(run: PublicRun) -> str:
    """The class of the question about a run's step."""
    name = step_class(resolve(step_query(run)))
    assert name
    return name


@dataclass(frozen=True, slots=True)
class MeasuredDraft:
    """A kind of draft in an engine, with a source that measured it on a class of device."""

    engine: str
    draft: str
    device: str
    source: str


def measured_drafts(runs: Iterable[PublicRun], ratios: HeldOutReplay) -> list[MeasuredDraft]:
    """The drafts of these public runs and of the rows of `iterations`, without repetitions."""
    measured = []
    for run in runs:
        device = device_class(load_gpu(run.hardware))
        measured.append(MeasuredDraft(run.engine, spelled_kind(run), device, run.source_id))
    for row in ratios.rows:
        device = device_class(load_gpu(row.query.hardware))
        measured.append(MeasuredDraft(row.engine, row.kind, device, row.study))
    return list(dict.fromkeys(measured))


def class_of_speedup(engine: str, draft: str, source: str, measured: Sequence[MeasuredDraft]) -> SpeedupClass:
    """The class of the question about a speedup, if only other sources than `source` are known."""
    of_kind = [m for m in measured if m.engine == engine and m.draft == draft]
    if all(alike(m.source, source) for m in of_kind):
        return "new"
    return "llamacpp" if engine == LLAMACPP else "known"


def of_tables(
    ratios: HeldOutReplay, measured: Sequence[MeasuredDraft]
) -> dict[SpeedupClass, list[LeftOutError]]:
    """Class -> the errors of the rows of `iterations`. The constants were fitted without the row's study or,
    for the class ``new``, without all rows with the row's kind of draft.
    """
    by_class: dict[SpeedupClass, list[LeftOutError]] = {name: [] for name in own_classes(SpeedupClass)}
    without_study = ratios.ratios["model"].off.tolist()
    without_kind = ratios.ratios["draft"].off.tolist()
    for row, of_study, of_kind in zip(ratios.rows, without_study, without_kind, strict=True):
        name = class_of_speedup(row.engine, row.kind, row.study, measured)
        device = device_class(load_gpu(row.query.hardware))
        without_its_study = LeftOutError.of_ratio(
            row.study, of_study, row.ratio, device=device, series=row.alike
        )
        by_class[name].append(without_its_study)
        if name != "new":
            without_its_kind = LeftOutError.of_ratio(
                row.study, of_kind, row.ratio, device=device, series=row.alike
            )
            by_class["new"].append(without_its_kind)
    return by_class
