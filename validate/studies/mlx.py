"""Fits the calibrations of MLX and its fork mlx-dspark to public runs.

- Data: the runs of `mlx_runs` and the passes of `mlx_passes`.
- Model: the constants of `mlx_constants`.
- Folds: whole sources.
- Result: three files for each device, ``hardware/calibrations/<device>.<mlx, mlx-qmv or mlx-dspark>.yaml``.
  ``results/mlx.json`` has the error of each row without its source, and the coverage of intervals.
"""

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.specs import MLX, Calibration, GPUSpec, Scatter, Z, files, load_gpu, serving_engines
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import widths
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.llamacpp import LeftOut
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.mlx_constants import OLD, ChipConstants
from perfmodel.validate.studies.mlx_passes import ChipPasses
from perfmodel.validate.studies.public_runs import PublicRun
from perfmodel.validate.studies.widths import ByClass

FOLDER = files.data_directory("calibrations")
ERRORS_PATH = BUNDLED / "mlx.json"
"""The file of errors. It has three keys:

- ``step``, ``ratio``: id of a run -> its log error if its source is left out.
- ``coverage``: figure -> engine -> coverage (`widths.covered`).
"""
COMMENT = "Written by `perfmodel validate calibrate mlx --write` from results/published/mlx_runs.csv."
NOTES = (
    "Fitted to decode steps and iterations of mlx-lm, mlx-vlm, mlx-dspark, Rapid-MLX and others that users "
    "published, one sequence at a time. The cost of several rows comes only from MLX's kernels."
)
FORK = "mlx-dspark"
FEW_SOURCES = 5
"""Smallest number of sources for which the stated width is only a quantile of their errors."""


@dataclass(frozen=True)
class ErrorsByEngine:
    """The errors of `left_out` by figure and engine, for constants that were fitted without the row's
    source.
    """

    left_out: LeftOut

    @property
    def steps(self) -> ByClass:
        """The errors of decode steps. The steps of forks count for MLX."""
        runs = self.left_out.runs
        return {MLX: [_error(runs[id], off) for id, off in self.left_out.step.items()]}

    @property
    def speedups(self) -> ByClass:
        """The errors of speedups, separately for MLX's own kernels and for the fork's."""
        by_engine: dict[str, list[LeftOutError]] = {MLX: [], FORK: []}
        for id, off in self.left_out.ratio.items():
            run = self.left_out.runs[id]
            by_engine[run.engine].append(_error(run, of_reciprocal(off)))
        return by_engine

    def coverage(self) -> dict[str, Any]:
        """Figure -> engine -> the coverage of intervals whose widths were fitted without the row's source."""
        figures = {"step": self.steps, "speedup": self.speedups}
        return {
            figure: {engine: widths.covered(by_class, engine) for engine in by_class}
            for figure, by_class in figures.items()
        }


def _error(run: PublicRun, off: float) -> LeftOutError:
    return LeftOutError(run.source_id, off, series=run.series)


def scatter(by_class: ByClass, engine: str, source: str) -> dict[str, Any]:
    """The error that the calibration of an engine states. If there are few sources, the half-width of the
    interval is at least that of a normal distribution.

    - source: the description of the rows.
    """
    errors = by_class[engine]
    off = np.array([e.off for e in errors])
    rms = float(np.sqrt(np.mean(off**2)))
    within = widths.within(by_class, engine)
    sources = {e.source for e in errors}
    if len(sources) < FEW_SOURCES:
        within = max(within, Z * rms)
    return Scatter(log_rms=rms, log_within=within, rows=len(off), source=source).as_mapping()


def devices() -> Sequence[GPUSpec]:
    """All bundled devices of the vendors that MLX supports."""
    makers = serving_engines()[MLX].makers
    return [gpu for gpu in map(load_gpu, files.bundled_names("gpus")) if gpu.vendor in makers]


def refitted_files(date: datetime.date) -> dict[Path, str]:
    """Path -> new text of the calibrations of all devices and of the file of errors."""
    rows = ChipPasses()
    whole = rows.settled(np.ones(len(rows.rows), dtype=bool))
    sources = np.array([row.run.source_id for row in rows.rows])
    left_out = LeftOut.by(rows, sources)
    errors = ErrorsByEngine(left_out)
    record = {"step": left_out.step, "ratio": left_out.ratio, "coverage": errors.coverage()}
    by_path = {ERRORS_PATH: json.dumps(shortened(record, 4), indent=1) + "\n"}
    step = scatter(errors.steps, MLX, "steps of sources left out whole")
    ratios = {
        MLX: scatter(errors.speedups, MLX, "speedups of sources left out whole"),
        FORK: scatter(errors.speedups, FORK, "speedups of sources left out whole, all of one fork"),
    }
    for constants in _constants_of_all():
        observed = {"target_s": step, "speedup": ratios[constants.engine]}
        stated = constants.stated(whole, date=date, notes=NOTES, observed_error=observed, transfer_error=step)
        calibration = Calibration.of_mapping(shortened(stated, 4))
        by_path[FOLDER / f"{calibration.name}.yaml"] = as_yaml(calibration, COMMENT)
    return by_path


def _constants_of_all() -> Iterator[ChipConstants]:
    """For each device, the constants of MLX, of the last version of MLX without `qmv_wide`, and of the
    fork.
    """
    for gpu in devices():
        yield ChipConstants(gpu)
        yield ChipConstants(gpu, MLX, OLD)
        yield ChipConstants(gpu, FORK)
