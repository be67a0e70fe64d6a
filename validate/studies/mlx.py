"""MLX's constants by device, fitted to public runs: ``hardware/calibrations/<device>.<mlx, mlx-qmv or
mlx-dspark>.yaml``.

The cost of more rows comes from kernels alone (`mlx_kernels`); a run has no part in it. The rest is fitted to
``results/published/mlx_runs.csv``: a constant is the product of a common value, a factor of the size of chip
(Pro, Max, Ultra) and a device's factor, both expected to be 1. ``results/mlx.json`` has the errors of rows
with constants fitted without their source, and how many are inside intervals fitted without it.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.specs import (
    MLX,
    Calibration,
    GPUSpec,
    Scatter,
    Z,
    files,
    load_gpu,
    load_model,
    release,
    serving_engines,
)
from perfmodel.specs.models.weights import weight_format
from perfmodel.specs.published import read_published
from perfmodel.speculation import with_calibration
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import widths
from perfmodel.validate.studies.llamacpp import LeftOut
from perfmodel.validate.studies.llamacpp_constants import Term, products_over_scopes, with_sources
from perfmodel.validate.studies.llamacpp_passes import LlamaCppPasses, MeasuredPass, PassGroup
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.mlx_kernels import RowTimes, shares_of
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_runs import PublicRun
from perfmodel.validate.studies.robust import Array, Values
from perfmodel.validate.studies.widths import ByClass, LeftOutError

FOLDER = files.data_directory("calibrations")
ERRORS_PATH = BUNDLED / "mlx.json"
"""``step``, ``ratio``: id of a run -> its log error without its source. ``coverage``: by class, see
`widths.covered`.
"""
COMMENT = "Written by `perfmodel validate calibrate mlx --write` from results/published/mlx_runs.csv."
FITTED = "fitted to mlx_runs.csv"
KERNELS = "kernels of mlx_kernels.csv"
NOTES = (
    "Decode steps and iterations of mlx-lm, mlx-vlm, mlx-dspark, Rapid-MLX and others, as users published "
    "them, one sequence at a time. The cost of several rows is that of MLX's kernels alone."
)
OLD = "0.31.2"
"""The newest version without `qmv_wide`."""
WIDE = "0.32.0"
"""Version from which there is `qmv_wide`."""
FLAT = "0.32.1"
"""Version from which 16-bit products stay flat over a few rows."""
FORK = "mlx-dspark"
WHOLE_REQUEST = "outputs / whole time (prompt inside)"
"""What a source timed if the prompt is in its rate: tokens_per_sec of mlx_dspark 0.20.3 (generate.py)."""
SET: dict[str, tuple[float, str]] = {
    "gemm_fixed_s": (0.0, "part of small_kernel_s"),
    "gemm_blend_power": (3.0, "not used beside gemm_efficiency"),
    "attention_fixed_s": (3e-6, "set"),
    "kv_reread_per_query": (0.0, "set: fits have 0.6 without mlx-dspark, 0.1 with it"),
    "small_bandwidth_fraction": (0.7, "set"),
    "allreduce_multiplier": (1.0, "no run on several machines"),
    "pass_fixed_s": (0.0, "part of small_kernel_s"),
    "token_s": (0.0, "part of gemm_efficiency"),
}
"""Fixed constants, which the rows do not determine."""
FITTED_ALONE = {
    "attention_bandwidth_fraction": Term(0.6, 0.4, 0.2, 0.0),
    "small_kernel_s": Term(6e-6, 0.6, 0.6, 0.2),
    "state_layer_s": Term(1e-5, 0.6, 0.6, 0.0),
    "iteration_fixed_s": Term(2.2e-3, 0.3, 0.2, 0.0),
}
"""Constants of a calibration that are fitted as they are; a group of devices is a size of chip.

An iteration reads the accepted count on the host (0.2 ms, mlx#4265) and builds the next graph (2 ms,
MTPLX#64).
"""
TERMS = FITTED_ALONE | {
    "share": Term(0.88, 0.1, 0.15, 0.08),
    "packed": Term(0.97, 0.05, 0.1, 0.0),
    "expert_s": Term(1e-5, 0.6, 0.6, 0.1),
    "expert_share": Term(0.7, 0.3, 0.2, 0.1),
}
"""All fitted constants. ``packed``: factor on ``share``, that of the bandwidth, for weights below one
byte.
"""
CURVES = {"bf16": "bf16", "int8": "8bit", "int6": "6bit", "q4_k": "4bit", "int2": "2bit"}
"""Curve of the file -> the weights whose bytes it has."""
ROWS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13, 16, 17, 32)
"""Rows of the knots of a curve, on both sides of the places where another kernel or tile begins."""
SIZES = ("Pro", "Max", "Ultra")
REWEIGHTED = 4
"""Searches after the first, each with the shares of servers at the end of the one before."""
FEW_SOURCES = 5
"""Number of sources from which on a quantile of their errors is trusted."""


@dataclass(frozen=True)
class ChipConstants:
    """MLX's constants on a device as functions of the parameters. engine: MLX, or a fork. version: of MLX."""

    gpu: GPUSpec
    engine: str = MLX
    version: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of a constant, the widest first: all devices, the size of chip, this device."""
        size = next((word for word in SIZES if word in self.gpu.title.split()), "base")
        return ("all", size, self.gpu.name)

    def known(self, values: Values) -> dict[str, float]:
        """The constants by name. Factors of scopes without rows are 1."""
        return products_over_scopes(TERMS, self.scopes, values)

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values by place."""
        return Calibration.of_mapping(self.stated(values))

    @property
    def of_version(self) -> str:
        """The version of the engine; by default its newest one."""
        return self.version or serving_engines()[self.engine].newest

    @property
    def times(self) -> RowTimes:
        """The times of products of several rows."""
        kernels = serving_engines()[MLX].row_kernels
        assert kernels
        since = release(self.version or serving_engines()[MLX].newest)
        return RowTimes(
            self.gpu,
            kernels,
            shares_of(self.gpu.architecture),
            serving_engines()[self.engine].own_kernel,
            wide=since >= release(WIDE),
            dense=since >= release(FLAT),
        )

    def curve(self, weights: str, share: float) -> list[tuple[float, float]]:
        """Rows -> share of the roofline, from that of the bandwidth that one row reaches."""
        value_bytes = weight_format(weights).base.bytes_per_value
        ridge = self.gpu.peak_flops("bf16") / self.gpu.memory_bandwidth_bytes_per_s
        times = self.times
        points = []
        for rows in ROWS:
            ideal = max(1.0, 2.0 * rows / (ridge * value_bytes))
            points.append((float(rows), min(share * ideal / times.of(rows, value_bytes), 1.0)))
        return points

    def stated(self, values: Values, **more: Any) -> dict[str, Any]:
        """The content of the file. more: its other keys."""
        constants = self.known(values)
        curves = {name: self._stated_curve(weights, constants) for name, weights in CURVES.items()}
        kernel = {
            "fixed_s": constants["expert_s"],
            "bandwidth_fraction": min(constants["expert_share"], 1.0),
            "flops_fraction": 0.3,
        }
        _, one_row_share = curves["bf16"][0]
        _, most_rows_share = curves["bf16"][-1]
        alone = dict(SET)
        alone["gemm_bandwidth_fraction"] = one_row_share, FITTED
        alone["gemm_flops_fraction"] = most_rows_share, "as at 32 tokens"
        alone["attention_flops_fraction"] = min(self.times.shares.tile, 1.0), f"{KERNELS}: as qmm"
        alone["expert_alone_tokens"] = float(self.times.kernels.alone), "gather_qmm of mlx@846d1762"
        for name in FITTED_ALONE:
            alone[name] = min(constants[name], 1.0), FITTED
        return {
            "name": f"{self.gpu.name}.{self.word}",
            "gpu": self.gpu.name,
            "stack": self.engine,
            "version": self.of_version,
            "kind": "fitted",
            "fitted_on": ["mlx_runs.csv", "mlx_kernels.csv"],
            "date": datetime.date.min,
            "gemm_efficiency": {"source": f"{FITTED} (one row) and {KERNELS}", "knots": curves},
            "expert_kernels": {"source": FITTED, "kernels": {"bf16": kernel}},
            **with_sources(alone),
            **more,
        }

    def _stated_curve(self, weights: str, constants: Mapping[str, float]) -> list[tuple[float, float]]:
        """The curve of a format, with the share of the bandwidth that its kernels of one row reach."""
        share = constants["share"]
        if weight_format(weights).base.bytes_per_value < 1.0:
            share *= constants["packed"]
        return self.curve(weights, min(share, 1.0))

    @property
    def word(self) -> str:
        """The word in the name of the file."""
        return serving_engines()[self.engine].calibration_word(self.version) or self.engine


@dataclass(frozen=True, slots=True)
class ChipRun(PublicRun):
    """One row. draft_weights: format of the draft if it is not that of the target."""

    table: ClassVar[str] = "mlx_runs"
    draft_weights: str

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """Arguments of a question from this row, with the draft's format."""
        arguments = PublicRun.query_arguments(self, degree)
        return arguments | {"draft_weights": self.draft_weights or None}

    @property
    def prompts_of_a_token(self) -> float:
        """Prompts in the time of a token: its share where the whole request was timed, else 0.

        Of models with experts it is 0 too: no prompt of one was timed with MLX at so few tokens.
        """
        if self.measured_as != WHOLE_REQUEST or load_model(self.model).moe:
            return 0.0
        return 1.0 / self.stated("output_tokens")


@cache
def mlx_runs() -> tuple[ChipRun, ...]:
    """All rows, including those that do not count."""
    return read_published(ChipRun.table, ChipRun)


@dataclass
class ChipGroup(PassGroup):
    """Rows with a common part. prompts: prompts in the seconds of each row. prompt_tokens: of its prompt."""

    prompts: Array
    prompt_tokens: Array

    def predict(self, calibration: Calibration) -> Array:
        """Seconds of each row, with its share of the prompt."""
        seconds = super().predict(calibration)
        if not np.any(self.prompts):
            return seconds
        s = with_calibration(self.scenario, calibration)
        alone = np.ones(len(self.prompts))
        return seconds + self.prompts * s.target_pass_s(alone, self.prompt_tokens, self.prompt_tokens)


class ChipPasses(LlamaCppPasses):
    """All rows, with their seconds as functions of the parameters."""

    terms: ClassVar[Mapping[str, Term]] = TERMS
    further: ClassVar[tuple[PlacedConstant, ...]] = ()

    @staticmethod
    def runs() -> Iterable[PublicRun]:
        """The runs of MLX and its forks."""
        return mlx_runs()

    def settled(self, train: NDArray[np.bool_]) -> Values:
        """See `LlamaCppPasses.settled`. A server far from the others of its source counts less in the
        source's common error: a few servers take up to five times the time of their kernels.
        """
        values = super().settled(train)
        for _ in range(REWEIGHTED):
            values = self.least_loss(self.parts(train, self.off(values)), values)
        return values

    def _group(self, index: list[int], start: Values) -> ChipGroup:
        rows = [self.rows[i] for i in index]
        prompts = [_prompts_inside(row) for row in rows]
        pairs = zip(rows, prompts, strict=True)
        tokens = [row.run.stated("input_tokens") if inside else 0.0 for row, inside in pairs]
        return ChipGroup(
            **vars(super()._group(index, start)), prompts=np.array(prompts), prompt_tokens=np.array(tokens)
        )

    @staticmethod
    def constants_of(run: PublicRun) -> Any:
        """The constants of a run's device, fork and version."""
        return ChipConstants(load_gpu(run.hardware), run.engine, run.engine_version)


def _prompts_inside(row: MeasuredPass) -> float:
    """Prompts in the seconds of a row: an iteration has those of all its tokens."""
    assert isinstance(row.run, ChipRun)
    tokens = row.run.stated("tokens_per_iteration") if row.figure == "iteration" else 1.0
    return tokens * row.run.prompts_of_a_token


@dataclass(frozen=True)
class ErrorsByEngine:
    """Errors without their source, by figure and engine. The steps of all engines count for MLX."""

    left_out: LeftOut

    @property
    def steps(self) -> ByClass:
        """The errors of steps."""
        runs = self.left_out.runs
        return {MLX: [_error(runs[id], off) for id, off in self.left_out.step.items()]}

    @property
    def speedups(self) -> ByClass:
        """The errors of speedups, of MLX's own kernels and of the fork."""
        by_engine: dict[str, list[LeftOutError]] = {MLX: [], FORK: []}
        for id, off in self.left_out.ratio.items():
            run = self.left_out.runs[id]
            by_engine[run.engine].append(_error(run, of_reciprocal(off)))
        return by_engine

    def coverage(self) -> dict[str, Any]:
        """Figure -> engine -> coverage by widths that were fitted without the row's source."""
        figures = {"step": self.steps, "speedup": self.speedups}
        return {
            figure: {engine: widths.covered(by_class, engine) for engine in by_class}
            for figure, by_class in figures.items()
        }


def _error(run: PublicRun, off: float) -> LeftOutError:
    return LeftOutError(run.source_id, off, series=run.series)


def scatter(by_class: ByClass, engine: str, source: str) -> dict[str, Any]:
    """The error to state for an engine. Where sources are few, its 90 % is at least that of a normal one."""
    errors = by_class[engine]
    off = np.array([e.off for e in errors])
    rms = float(np.sqrt(np.mean(off**2)))
    within = widths.within(by_class, engine)
    sources = {e.source for e in errors}
    if len(sources) < FEW_SOURCES:
        within = max(within, Z * rms)
    return Scatter(log_rms=rms, log_within=within, rows=len(off), source=source).as_mapping()


def devices() -> Sequence[GPUSpec]:
    """The devices that run MLX."""
    makers = serving_engines()[MLX].makers
    return [gpu for gpu in map(load_gpu, files.bundled_names("gpus")) if gpu.vendor in makers]


def refitted_files(date: datetime.date) -> dict[Path, str]:
    """By path: the files of all devices, and the errors of rows without their source."""
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
    """Of each device those of MLX, of its last version without `qmv_wide`, and of the fork."""
    for gpu in devices():
        yield ChipConstants(gpu)
        yield ChipConstants(gpu, MLX, OLD)
        yield ChipConstants(gpu, FORK)


def starting_texts(date: datetime.date) -> dict[Path, str]:
    """Files from the expected values, for a tree that has none yet."""
    values = {f"all.{name}": term.expected for name, term in TERMS.items()}
    by_path = {}
    for constants in _constants_of_all():
        calibration = Calibration.of_mapping(constants.stated(values, date=date))
        by_path[FOLDER / f"{calibration.name}.yaml"] = as_yaml(calibration, COMMENT)
    return by_path
