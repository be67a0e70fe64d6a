"""Widths of intervals: errors of sources that were left out, by class of question.

Model: `effects`, fitted to each class alone. Data: errors of public runs and of the tables to which engines
are fitted, by constants that have not seen their source. A class of speedups is ``known`` if another source
has the engine's kind of draft, and ``new`` if none has; the tables' rows also count as new, by constants that
have not seen their kind of draft. Folds: `without_each` fits a width without each source, which judges its
rows.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from perfmodel.answers.question import resolve
from perfmodel.specs import LLAMACPP, device_class, load_gpu
from perfmodel.specs.engines.source_errors import SourceError, SpeedupClass, StepClass
from perfmodel.speculation.evidence import step_class
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies import effects
from perfmodel.validate.studies.engines import HeldOutReplay
from perfmodel.validate.studies.left_out import alike
from perfmodel.validate.studies.public_runs import PublicRun, spelled_kind, step_query

FEW_DRAWS = 1000
"""Draws of a width without a source, of which only the coverage is shown."""


@dataclass(frozen=True, slots=True)
class LeftOutError:
    """The logarithm of predicted over measured by constants that have not seen the row's source.

    counts: whether widths are fitted to it; without, it is left out by judgement and counts for the coverage
    only.
    """

    source: str
    server: Hashable
    off: float
    counts: bool = True


def class_of_step(run: PublicRun) -> StepClass:
    """The class of a run's step."""
    found = step_class(resolve(step_query(run)))
    assert found
    return found


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of draft in an engine, with a source that measured it on a class of device."""

    engine: str
    draft: str
    device: str
    source: str


def cells(runs: Iterable[PublicRun], ratios: HeldOutReplay) -> list[Cell]:
    """The cells of public runs that count and of the tables' rows."""
    found = [Cell(r.engine, spelled_kind(r), device_class(load_gpu(r.hardware)), r.source_id) for r in runs]
    for row in ratios.rows:
        device = device_class(load_gpu(row.query.hardware))
        found.append(Cell(row.engine, row.kind, device, row.study))
    return list(dict.fromkeys(found))


def class_of_speedup(engine: str, draft: str, source: str, measured: Sequence[Cell]) -> SpeedupClass:
    """The class of a speedup without its source."""
    others = (c for c in measured if (c.engine, c.draft) == (engine, draft) and not alike(c.source, source))
    if next(others, None) is None:
        return "new"
    return "llamacpp" if engine == LLAMACPP else "known"


def of_tables(ratios: HeldOutReplay, measured: Sequence[Cell]) -> dict[SpeedupClass, list[LeftOutError]]:
    """Errors of the tables' rows by class: without their study, and without their kind of draft."""
    found: dict[SpeedupClass, list[LeftOutError]] = {name: [] for name in get_args(SpeedupClass)}
    without_study = ratios.ratios["model"].off.tolist()
    without_kind = ratios.ratios["draft"].off.tolist()
    for row, of_study, of_kind in zip(ratios.rows, without_study, without_kind, strict=True):
        name = class_of_speedup(row.engine, row.kind, row.study, measured)
        found[name].append(LeftOutError(row.study, row.group, of_study))
        if name != "new":
            found["new"].append(LeftOutError(row.study, row.group, of_kind))
    return found


def fitted(errors: Sequence[LeftOutError], draws: int = effects.DRAWS) -> SourceError:
    """The error to state for a class, from its rows that count."""
    errors = [e for e in errors if e.counts]
    drawn = effects.scales(
        np.array([e.off for e in errors]),
        [e.source for e in errors],
        [(e.source, e.server) for e in errors],
        draws,
    )
    source, server, row = np.median(drawn, axis=0).tolist()
    return SourceError(
        log_within=effects.log_within(drawn),
        source=source,
        server=server,
        row=row,
        sources=len({e.source for e in errors}),
        rows=len(errors),
    )


def without_each(errors: Sequence[LeftOutError]) -> dict[str, float]:
    """Source -> half-width of an interval, fitted to the other sources of its class."""
    found = {}
    for source in dict.fromkeys(e.source for e in errors if e.counts):
        others = [e for e in errors if e.counts and not alike(e.source, source)]
        found[source] = fitted(others, FEW_DRAWS).log_within if others else effects.log_within_of_prior()
    return found


def covered(errors: Sequence[LeftOutError], within: Mapping[str, float]) -> dict[str, Any]:
    """Coverage of a class: of rows, of rows where each source counts as one, and of all rows, with those that
    are left out by judgement.

    within: source -> half-width without it, see `without_each`. ratio: of the mean half-width to the mean
    error.
    """
    widest = max(within.values())

    def inside(some: Sequence[LeftOutError]) -> float:
        return float(np.mean([abs(e.off) <= within.get(e.source, widest) for e in some]))

    counted = [e for e in errors if e.counts]
    of_sources = grouped(counted, lambda e: e.source)
    error = float(np.expm1(np.mean([abs(e.off) for e in counted])))
    width = float(np.expm1(np.mean([within[e.source] for e in counted])))
    return {
        "rows": len(counted),
        "sources": len(of_sources),
        "error": error,
        "width": width,
        "ratio": width / error,
        "inside": inside(counted),
        "inside_sources": float(np.mean([inside(rows) for rows in of_sources.values()])),
        "all_rows": len(errors),
        "inside_all": inside(errors),
    }
