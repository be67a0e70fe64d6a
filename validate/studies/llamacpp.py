"""Fits llama.cpp's calibrations ``hardware/calibrations/<device>.llamacpp.yaml`` to public runs.

- Data: the measured times of `llamacpp_passes`, including the prompts of `llamacpp_prompts`.
- Model: the constants of `llamacpp_constants`.
- Folds: whole sources, whole devices and whole vendors (`LeftOut`).
- Result: one file for each device, with the errors of the folds. ``results/llamacpp.json`` has the error of
  each row if its source is left out.
"""

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.specs import Calibration, GPUSpec, Scatter, files, load_gpu, load_model
from perfmodel.specs.calibrations.fit_errors import StepKind, step_kind
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import grouped, shortened
from perfmodel.validate.studies.held_out_errors import quantile
from perfmodel.validate.studies.llamacpp_constants import DeviceConstants
from perfmodel.validate.studies.llamacpp_passes import LlamaCppPasses, MeasuredPass
from perfmodel.validate.studies.public_runs import PublicRun

FOLDER = files.data_directory("calibrations")
ERRORS_PATH = BUNDLED / "llamacpp.json"
"""The file of errors: figure (``step``, ``ratio`` or ``prompt``) -> id of a run -> its log error if its
source is left out.
"""
COMMENT = "Written by `perfmodel validate calibrate llamacpp --write` from results/published/public_runs.csv."
NOTES = (
    "Fitted to decode steps, verifications and MTP iterations of llama-bench, llama-batched-bench and "
    "llama-server that users published. A constant is expected near that of the vendor's boards, which is "
    "expected near that of all boards. Flash attention is on. Passes of more than 32 tokens are fitted to "
    "four prompts."
)
SAME_MAKER = (
    "No run of this device is published. The constants are those of the vendor's devices with published runs."
)
NO_ROWS = (
    "No run of this vendor's devices is published. "
    "The constants are those of all devices with published runs."
)


@dataclass(frozen=True)
class LeftOut:
    """Log errors of runs. Each run is predicted with constants that were fitted without its fold: its source,
    device or vendor.

    - step, ratio, prompt: id of a run -> the log error of its step, of its iteration over its step, or of its
      prompt.
    - runs: id -> run.
    """

    step: dict[str, float]
    ratio: dict[str, float]
    prompt: dict[str, float]
    runs: dict[str, PublicRun]

    @classmethod
    def by(cls, rows: LlamaCppPasses, names: NDArray[np.str_]) -> "LeftOut":
        """The errors if each row is predicted with constants that were fitted without the row's fold.

        - names: the name of each row's fold, ``[row]``, for example the name of its source.
        """
        off = np.empty(len(names))
        for name in np.unique(names):
            out = names == name
            off[out] = rows.off(rows.settled(~out))[out]
        return cls.of(rows.rows, off)

    @classmethod
    def of(cls, rows: Sequence[MeasuredPass], off: Array) -> "LeftOut":
        """The errors by run.

        - off: the log error of each row.
        """
        indices = [i for i, row in enumerate(rows) if row.run.counts]
        runs = grouped(indices, lambda i: rows[i].run.id)
        step = {}
        ratio = {}
        prompt = {}
        for id, of_run in runs.items():
            by_figure = {rows[i].figure: float(off[i]) for i in of_run}
            if "prompt" in by_figure:
                prompt[id] = by_figure["prompt"]
            if "step" not in by_figure:
                continue
            if "iteration" in by_figure:
                ratio[id] = by_figure["iteration"] - by_figure["step"]
            else:
                step[id] = by_figure["step"]
        return cls(step, ratio, prompt, {row.run.id: row.run for row in rows})

    def stated(self, folds: str, maker: str | None = None) -> dict[str, Any]:
        """The errors that the file of a device states.

        - folds: a description of the folds.
        - maker: the vendor of the device; None for any vendor.
        """
        step_error = {}
        for kind in get_args(StepKind):
            off = [self.step[run.id] for run in self.alike(kind, maker)]
            step_error[kind] = scatter(off, f"steps of {folds}: {kind}")
        return {
            "observed_error": {
                "target_s": scatter(self.step.values(), f"steps of {folds}"),
                "speedup": scatter(self.ratio.values(), f"iterations over steps of {folds}"),
            },
            "step_error": step_error,
        }

    def alike(self, kind: StepKind, maker: str | None) -> list[PublicRun]:
        """The runs whose steps have this kind, and whose errors are stated for devices of a vendor.

        If several sources measured this kind on the vendor's devices, the runs are those of all vendors with
        several sources. Otherwise they are the runs of all other vendors, whose steps were predicted without
        any step of this kind and vendor.

        - maker: the vendor; None for all runs.
        """
        runs = [self.runs[id] for id in self.step if kind_of(self.runs[id]) == kind]
        by_maker = grouped(runs, lambda run: load_gpu(run.hardware).vendor)
        several = {name for name, of_maker in by_maker.items() if _several_sources(of_maker)}
        alike = []
        for name, of_maker in by_maker.items():
            if maker is None or (name in several) == (maker in several):
                alike += of_maker
        return alike


def _several_sources(runs: Sequence[PublicRun]) -> bool:
    return len({run.source_id for run in runs}) > 1


def scatter(off: Iterable[float], source: str) -> dict[str, Any]:
    """The error that a file states. Its 90 % quantile is the half-width of the interval.

    - off: the log errors of the rows.
    """
    size = np.abs([*off])
    rms = float(np.sqrt(np.mean(size**2)))
    within = quantile(size, np.ones(len(size)))
    return Scatter(log_rms=rms, log_within=within, rows=len(size), source=source).as_mapping()


def kind_of(run: PublicRun) -> StepKind:
    """The kind of a run's decode step."""
    return step_kind(bool(load_model(run.model).moe), run.batch, run.context_tokens)


def refitted_files(date: datetime.date, passes: LlamaCppPasses | None = None) -> dict[Path, str]:
    """Path -> new text of the calibrations of all devices and of the file of errors.

    - passes: the rows of the fit; by default those of all public runs.
    """
    rows = passes or LlamaCppPasses()
    whole = rows.settled(np.ones(len(rows.rows), dtype=bool))

    gpus = [load_gpu(row.run.hardware) for row in rows.rows]
    sources = np.array([row.run.source_id for row in rows.rows])
    devices = np.array([gpu.name for gpu in gpus])
    makers = np.array([gpu.vendor for gpu in gpus])
    source = LeftOut.by(rows, sources)
    device = LeftOut.by(rows, devices)
    maker = LeftOut.by(rows, makers)

    errors = {"step": source.step, "ratio": source.ratio, "prompt": source.prompt}
    by_path = {ERRORS_PATH: json.dumps(shortened(errors, 4), indent=1) + "\n"}
    for gpu in map(load_gpu, files.bundled_names("gpus")):
        has_runs = gpu.name in devices
        if not has_runs and not _is_single(gpu):
            continue
        if gpu.vendor in makers:
            transferred = device.stated("devices left out whole, by constants of their maker", gpu.vendor)
        else:
            transferred = maker.stated("makers left out whole, by constants of all")
        fields: dict[str, Any]
        if has_runs:
            fields = {"notes": NOTES, **source.stated("sources left out whole", gpu.vendor)}
        else:
            notes = SAME_MAKER if gpu.vendor in makers else NO_ROWS
            fields = {"kind": "literature", "notes": notes, **transferred}
        fields["transfer_error"] = transferred["observed_error"]["target_s"]
        stated = DeviceConstants(gpu).stated(whole, date=date, **fields)
        calibration = Calibration.of_mapping(shortened(stated, 4))
        by_path[FOLDER / f"{calibration.name}.yaml"] = as_yaml(calibration, COMMENT)
    return by_path


def _is_single(gpu: GPUSpec) -> bool:
    """Whether a device is a GPU without a link to other GPUs, such as NVLink."""
    return gpu.kind == "gpu" and gpu.link is None
