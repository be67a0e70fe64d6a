"""Dense projections."""

from collections.abc import Collection
from typing import Any, ClassVar, Self

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.monotone import monotone_shares
from perfmodel.costs.operation import Kind, RatedOp
from perfmodel.costs.split import Part, Split
from perfmodel.operations import Cost, Floats
from perfmodel.specs import Format, interpolated
from perfmodel.specs.calibrations.engine_constants import ONE, Curves

USUAL_FORM = {"fp8": "fp8", "fp4": "nvfp4", "int8": "fp8"}
"""For each compute format: the weight format whose kernels represent all other weight formats with this
compute format.
"""
PACKED = "q4_k"
"""The format of llama.cpp whose kernels are used for its other formats below one byte per weight."""


class GemmOp(RatedOp):
    """Dense projections with one weight format.

    - rows: number of tokens of each GEMM, including the padding of a CUDA graph.
    - form: number format of the weights.
    - bytes_per_value: bytes per value of the weights.
    - packed_weights: number of weights that must be unpacked before use.
    - columns: number of output columns of all GEMMs.
    - quantisations: number of kernels that quantise the inputs of GEMMs.
    """

    kind: ClassVar[Kind] = "linear"
    added_up: ClassVar[tuple[str, ...]] = ("kernels", "packed_weights", "columns", "quantisations")

    rows: Floats = 1.0
    form: str = "bf16"
    bytes_per_value: float = 2.0
    packed_weights: Floats = 0.0
    columns: Floats = 0.0
    quantisations: Floats = 0.0

    @classmethod
    def of_format(
        cls,
        name: str,
        kernels: Floats,
        cost: Cost,
        form: Format,
        columns: Floats = 0.0,
        rows: Floats = 1.0,
        **more: Any,
    ) -> Self:
        """An operation on weights of the format `form`. The bytes of biases, which are few, count as packed
        weights.

        - more: additional fields of a subclass.
        """
        return cls(
            name,
            kernels,
            cost,
            form.compute,
            rows,
            form.name,
            form.bytes_per_value,
            packed_weights=cost.weight_bytes / form.bytes_per_value if form.packed else 0.0,
            columns=columns,
            quantisations=0.0 if form.input_bytes is None else kernels,
            **more,
        )

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        byte_s, flop_s = self.rates(group)
        weights = self.cost.weight_bytes * byte_s + self.packed_weights * c.weight_unpack_s.value
        columns = self.columns * c.gemm_column_s.value if c.gemm_column_s.value else 0.0
        loaded: tuple[Part, ...] = (
            ("param_load", weights),
            ("fixed", columns),
            ("activations", self.cost.activation_bytes * byte_s),
        )
        fixed_s = c.gemm_fixed_s.value
        if self.compute == "fp8":
            fixed_s = c.gemm_fixed_fp8_s.value or fixed_s
        start = self.kernels * fixed_s + self.quantisations * c.quantise_s.value
        power = c.gemm_blend_power.value if c.gemm_efficiency is None else np.inf
        return (("fixed", start),), (loaded, self.cost.flops * flop_s, power)

    def rates(self, group: DeviceGroup) -> tuple[Floats, Floats]:
        c = group.calibration
        if c.gemm_efficiency is None:
            byte_s, flop_s = self._constant_rates(group)
        else:
            byte_s, flop_s = self._rates_by_rows(group, c.gemm_efficiency)
        if c.gemm_row_factor is ONE:
            return byte_s, flop_s
        alone = np.where(np.less_equal(self.rows, 1.0), c.gemm_row_factor.value, 1.0)
        return byte_s * alone, flop_s * alone

    def _constant_rates(self, group: DeviceGroup) -> tuple[Floats, Floats]:
        """Rates of a calibration with one share of each peak."""
        c = group.calibration
        loaded_share = c.gemm_bandwidth_fraction.value
        computed_share = c.gemm_flops_fraction.value
        if self.compute == "fp8":
            loaded_share = c.gemm_bandwidth_fraction_fp8.value or loaded_share
            computed_share = c.gemm_flops_fraction_fp8.value or computed_share
        return group.byte_s / loaded_share, 1.0 / (group.gpu.peak_flops(self.compute) * computed_share)

    def _rates_by_rows(self, group: DeviceGroup, curves: Curves) -> tuple[Floats, Floats]:
        """Rates of a calibration whose share of the roofline depends on the rows of a GEMM."""
        c = group.calibration
        peak = group.gpu.peak_flops(self.compute) * c.gemm_flops_factor.value
        ridge = peak * group.byte_s * self.bytes_per_value / 2.0
        loading, computing = monotone_shares(curves.knots[curve_of(curves.knots, self)], ridge)
        factor = c.gemm_factor.value
        if self.compute == "fp8":
            factor *= c.gemm_factor_fp8.value
        elif self.compute == "fp4":
            factor *= c.gemm_factor_fp4.value
        rows = np.maximum(self.rows, 1.0)
        loaded_share = np.minimum(interpolated(loading, rows) * factor, 1.0)
        computed_share = np.minimum(interpolated(computing, rows) * factor, 1.0)
        return group.byte_s / loaded_share, 1.0 / (peak * computed_share)

    @property
    def prompt_kernels(self) -> Floats:
        return self.kernels + self.quantisations


class StackedGemmsOp(GemmOp):
    """Several `GemmOp` of one format, stacked along a leading axis. Their values are added."""

    def sum_of(self, values: Floats) -> Floats:
        return np.add.reduce(values, axis=0) if isinstance(values, np.ndarray) else values


def curve_of(curves: Collection[str], op: GemmOp) -> str:
    """Name of the curve (or kernel) for the operation's weight format. If there is none, the curve of a usual
    format with the same compute format or size is used. Without such a curve, the result is the curve of
    bf16, or else the first curve.
    """
    without_group = op.form.partition("-g")[0]  # int4 for int4-g128
    name = op.form if op.form in curves else without_group
    usual = USUAL_FORM.get(op.compute, "bf16")
    if op.compute == "bf16" and op.bytes_per_value < 1.0:
        usual = PACKED
    return next(n for n in (name, usual, "bf16", *curves) if n in curves)
