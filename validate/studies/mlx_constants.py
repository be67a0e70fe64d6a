"""Computes MLX's constants on a device from the parameters that are fitted to its runs.

A fitted constant is the product of a common value, a factor for the size of the chip (Pro, Max, Ultra) and a
factor for the device. Both factors are expected to be 1. The time of products with several rows comes only
from measurements of kernels (`mlx_kernels`).
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfmodel.specs import MLX, Calibration, GPUSpec, release, serving_engines
from perfmodel.specs.models.weights import weight_format
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.mlx_kernels import RowTimes
from perfmodel.validate.studies.mlx_shares import shares_of
from perfmodel.validate.studies.scoped_constants import Term, products_over_scopes, with_sources

FITTED = "fitted to mlx_runs.csv"
KERNELS = "kernels of mlx_kernels.csv"
OLD = "0.31.2"
"""The newest version of MLX without the kernel `qmv_wide`."""
WIDE = "0.32.0"
"""The first version of MLX with the kernel `qmv_wide`."""
FLAT = "0.32.1"
"""The first version of MLX in which the time of 16-bit products stays constant for a few rows."""
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
"""Constant that the measurements do not determine -> its value and the reason for it."""
FITTED_ALONE = {
    "attention_bandwidth_fraction": Term(0.6, 0.4, 0.2, 0.0),
    "small_kernel_s": Term(6e-6, 0.6, 0.6, 0.2),
    "state_layer_s": Term(1e-5, 0.6, 0.6, 0.0),
    "iteration_fixed_s": Term(2.2e-3, 0.3, 0.2, 0.0),
}
"""Fitted constants that have the same name in a calibration. A group of devices is a size of chip.

The expected `iteration_fixed_s` has two parts. In each iteration, the host reads the number of accepted
tokens (0.2 ms, mlx#4265) and builds the next graph (2 ms, MTPLX#64).
"""
TERMS = FITTED_ALONE | {
    "share": Term(0.88, 0.1, 0.15, 0.08),
    "packed": Term(0.97, 0.05, 0.1, 0.0),
    "expert_s": Term(1e-5, 0.6, 0.6, 0.1),
    "expert_share": Term(0.7, 0.3, 0.2, 0.1),
}
"""All fitted constants.

- ``share``: the share of the bandwidth that products of one row reach.
- ``packed``: a factor on ``share`` for formats with less than one byte per weight.
- ``expert_s``, ``expert_share``: the fixed time and the share of the bandwidth of the kernels of experts.
"""
CURVES = {"bf16": "bf16", "int8": "8bit", "int6": "6bit", "q4_k": "4bit", "int2": "2bit"}
"""Curve of the calibration file -> the weight format whose bytes per weight it assumes."""
ROWS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13, 16, 17, 32)
"""Numbers of rows at the knots of a curve. There are knots before and after each number of rows at which
another kernel or tile begins.
"""
SIZES = ("Pro", "Max", "Ultra")
"""Sizes of chips, as their titles contain them. A chip without one of these words has the size ``base``."""


@dataclass(frozen=True)
class ChipConstants:
    """MLX's constants on a device as functions of the fitted parameters.

    - engine: MLX or a fork of MLX.
    - version: the version of MLX; empty for the newest.
    """

    gpu: GPUSpec
    engine: str = MLX
    version: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that apply to the device: all devices, the size of the chip, and the device."""
        size = next((word for word in SIZES if word in self.gpu.title.split()), "base")
        return ("all", size, self.gpu.name)

    def known(self, values: Values) -> dict[str, float]:
        """Name -> value of each constant on this device. A scope without a value has the factor 1."""
        return products_over_scopes(TERMS, self.scopes, values)

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values.

        - values: place of a parameter -> value.
        """
        return Calibration.of_mapping(self.stated(values))

    @property
    def of_version(self) -> str:
        """The version that the calibration states; by default the newest version of the engine."""
        return self.version or serving_engines()[self.engine].newest

    @property
    def times(self) -> RowTimes:
        """The relative times of products of several rows on this device."""
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
        """The knots of a curve: pairs of the number of rows and the share of the roofline that products
        reach.

        - weights: the weight format.
        - share: the share of the bandwidth that products of one row reach.
        """
        value_bytes = weight_format(weights).base.bytes_per_value
        ridge = self.gpu.peak_flops("bf16") / self.gpu.memory_bandwidth_bytes_per_s
        times = self.times
        points = []
        for rows in ROWS:
            ideal = max(1.0, 2.0 * rows / (ridge * value_bytes))
            points.append((float(rows), min(share * ideal / times.of(rows, value_bytes), 1.0)))
        return points

    def stated(self, values: Values, **more: Any) -> dict[str, Any]:
        """The content of the calibration file.

        - more: the other keys of the file.
        """
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
        """The curve of a format, with the fitted share of the bandwidth that products of one row reach."""
        share = constants["share"]
        if weight_format(weights).base.bytes_per_value < 1.0:
            share *= constants["packed"]
        return self.curve(weights, min(share, 1.0))

    @property
    def word(self) -> str:
        """The name of the engine in the name of the calibration file."""
        return serving_engines()[self.engine].calibration_word(self.version) or self.engine
