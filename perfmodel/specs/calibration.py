"""Fitted numbers of one device and software stack: efficiencies and fixed costs, with source and standard error."""

import datetime
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from perfmodel.specs import files


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Constant(_Frozen):
    """One constant: its value, standard error where it was fitted, and where it is from."""

    value: float = Field(allow_inf_nan=False)
    stderr: float | None = Field(None, ge=0, allow_inf_nan=False)
    source: str = Field(min_length=3)


class Fraction(Constant):
    """A share of a peak, in (0, 1]."""

    value: float = Field(gt=0, le=1)


class Seconds(Constant):
    """A fixed time, 0 or more."""

    value: float = Field(ge=0, allow_inf_nan=False)


class BlendPower(Constant):
    """How sharply a GEMM turns from memory-bound to compute-bound: 1 adds both times, infinity takes the larger."""

    value: float = Field(ge=1, allow_inf_nan=True)

    @field_validator("value")
    @classmethod
    def _finite_and_tame(cls, value: float) -> float:
        if not (value <= 16 or value == float("inf")):
            raise ValueError("must be from 1 to 16, or .inf")
        return value


class AllReduce(_Frozen):
    """All-reduce time by device count: knots of (message bytes, seconds), interpolated linearly in the logarithms."""

    knots: dict[int, tuple[tuple[float, float], ...]]
    source: str = Field(min_length=3)

    @model_validator(mode="after")
    def _ordered(self) -> "AllReduce":
        for devices, knots in self.knots.items():
            sizes = [size for size, _ in knots]
            if devices < 2 or len(knots) < 2 or sizes != sorted(set(sizes)) or min(sizes) <= 0:
                raise ValueError(
                    "knots must be two or more [bytes, seconds] pairs by rising bytes, for 2 or more devices"
                )
            if any(not 0 < seconds < 10 for _, seconds in knots):
                raise ValueError("knot times must be seconds above 0")
        return self


class Fit(_Frozen):
    """How the fitted constants of a calibration hang together.

    parameters: names of the constants that were fitted. correlation: lower triangle with the diagonal, row by row, of
    their estimates; with the constants' own `stderr` it makes the covariance.
    """

    parameters: tuple[str, ...] = Field(min_length=1)
    correlation: tuple[tuple[float, ...], ...]

    @model_validator(mode="after")
    def _triangular(self) -> "Fit":
        sizes = [len(row) for row in self.correlation]
        if sizes != list(range(1, len(self.parameters) + 1)):
            raise ValueError("correlation must have one row per parameter, of 1, 2, 3, ... numbers")
        if any(row[-1] != 1 or any(not -1 <= value <= 1 for value in row) for row in self.correlation):
            raise ValueError("correlation must be 1 on the diagonal and from -1 to 1 beside it")
        return self


class Scatter(_Frozen):
    """An observed error: root mean square of the logarithms of predicted over measured, and over which rows."""

    log_rms: float = Field(ge=0, allow_inf_nan=False)
    rows: int = Field(ge=1)
    source: str = Field(min_length=3)


class Calibration(_Frozen):
    """How far a device and stack are from the ideal roofline; read from ``hardware/calibrations/<gpu>.<stack>.yaml``.

    `kind` is ``ideal`` (all efficiencies 1, no fixed cost), ``literature`` (constants others measured) or ``fitted``.
    A calibration of one device used for another is *transferred*: that is a fact of the use, so no file says it.

    The constants that need more than their name: attention_blocks_per_multiprocessor: blocks of the attention
    kernel that one multiprocessor runs at a time (none: no waves are counted). gemm_column_s: of one output column
    of a GEMM, whatever its length: what a CPU kernel spends on it beside reading its weights. weight_unpack_s: of
    one weight value stored in fewer than the 16 bits that it computes with. full_cache_pass_s: of a pass over the
    whole cache, beside pass_fixed_s. sparse_cache_sequence_s: of a draft step over a KV budget, per sequence and
    layer. iteration_sequence_s: of an iteration, per sequence, beside iteration_fixed_s.

    observed_error: of predictions of rows that were not used to fit (`literature`: of any rows). transfer_error: of
    the speedup where this calibration was used for another device.
    """

    name: str
    gpu: str | None
    stack: str
    kind: Literal["ideal", "literature", "fitted"]
    fitted_on: tuple[str, ...] = ()
    date: datetime.date
    notes: str = ""

    gemm_bandwidth_fraction: Fraction
    gemm_flops_fraction: Fraction
    gemm_fixed_s: Seconds
    gemm_blend_power: BlendPower
    gemm_column_s: Seconds | None = None
    weight_unpack_s: Seconds | None = None
    attention_bandwidth_fraction: Fraction
    attention_flops_fraction: Fraction
    attention_fixed_s: Seconds
    attention_blocks_per_multiprocessor: Constant | None = None
    kv_reread_per_query: Seconds
    small_kernel_s: Seconds
    small_bandwidth_fraction: Fraction
    allreduce_multiplier: Seconds
    allreduce: AllReduce | None = None
    pass_fixed_s: Seconds
    token_s: Seconds
    full_cache_pass_s: Seconds | None = None
    sparse_cache_sequence_s: Seconds | None = None
    iteration_fixed_s: Seconds
    iteration_sequence_s: Seconds | None = None
    shards_lm_head: bool = True
    fit: Fit | None = None
    observed_error: dict[Literal["target_s", "draft_s", "verify_s", "overhead_s", "speedup"], Scatter] = {}
    transfer_error: Scatter | None = None

    @model_validator(mode="after")
    def _fit_names_its_constants(self) -> "Calibration":
        for name in self.fit.parameters if self.fit else ():
            constant = getattr(self, name, None)
            if not isinstance(constant, Constant) or constant.stderr is None:
                raise ValueError(f"fit: parameter {name} must be a constant of this file with a stderr")
        return self


@cache
def load_bundled(name: str) -> Calibration:
    """A bundled calibration by its exact name."""
    path = files.data_directory("calibrations") / f"{name}.yaml"
    return files.parse(Calibration, files.read_mapping(path), str(path))


def load_calibration(name: str, flag: str = "--calibration") -> Calibration:
    """A calibration by bundled name (``ideal``, ``a100-sxm-80gb.literature``, ...) or path."""
    if files.looks_like_path(name):
        return files.parse(Calibration, files.read_mapping(Path(name)), name)
    return load_bundled(files.bundled_path("calibrations", "calibration", name, flag).stem)
