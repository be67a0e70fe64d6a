"""The rate of a matrix product: by its rows, by its peak, and by the curve that stands in for its format."""

import numpy as np
import pytest

from perfmodel.costs.kinds.gemm import GemmOp, curve_of
from perfmodel.costs.roofline import Machine
from perfmodel.operations import Cost
from perfmodel.specs import load_gpu
from tests.costs.machines import calibrated, linear, machine


def test_one_row_alone_takes_its_factor_of_the_time() -> None:
    """A product that loads for 1 s takes 2 s with a factor of 2; from two rows on it takes 1 s."""
    rows = np.array([1.0, 2.0, 64.0])
    assert machine(gemm_row_factor=2.0).op_predicted_s(linear(1.0, 0.25, rows=rows)) == pytest.approx(
        [2.0, 1.0, 1.0]
    )


@pytest.mark.parametrize(("compute", "share"), [("bf16", 0.5), ("fp8", 0.25)])
def test_a_product_at_the_fp8_peak_has_shares_of_its_own(compute: str, share: float) -> None:
    h100 = load_gpu("h100-sxm-80gb")
    halves = calibrated(gemm_bandwidth_fraction=0.5, gemm_flops_fraction=0.5)
    quarter = halves.gemm_flops_fraction.replace(value=0.25)
    changed = halves.replace(gemm_bandwidth_fraction_fp8=quarter, gemm_flops_fraction_fp8=quarter)
    device = Machine(h100, changed, 1)
    loads = GemmOp("loads", 0, Cost(weight_bytes=1e9), compute)
    computes = GemmOp("computes", 0, Cost(flops=1e12), compute)
    assert device.op_predicted_s(loads) == pytest.approx(1e9 / (h100.memory_bandwidth.si * share))
    assert device.op_predicted_s(computes) == pytest.approx(1e12 / (h100.peak_flops(compute) * share))


@pytest.mark.parametrize(
    ("form", "compute", "curve"),
    [
        ("int4", "bf16", "int4"),
        ("int4-g128-sym", "bf16", "int4"),
        ("fp8-block", "fp8", "fp8"),
        ("mxfp4-a4", "fp4", "nvfp4"),
        ("int8", "int8", "fp8"),
        ("fp32", "fp32", "bf16"),
    ],
)
def test_a_format_without_a_curve_takes_that_of_the_same_units(form: str, compute: str, curve: str) -> None:
    op = GemmOp("x", 1, Cost(), compute, form=form)
    assert curve_of(["nvfp4", "fp8", "bf16", "int4"], op) == curve
    assert curve_of(["nvfp4", "fp8"], GemmOp("x", 1, Cost(), "bf16")) == "nvfp4", "the first one"


@pytest.mark.parametrize(("value_bytes", "curve"), [(0.5, "q4_k"), (1.0, "bf16"), (2.0, "bf16")])
def test_formats_below_one_byte_take_the_curve_of_packed_weights(value_bytes: float, curve: str) -> None:
    op = GemmOp("x", 1, Cost(), "bf16", form="q9", bytes_per_value=value_bytes)
    assert curve_of(["bf16", "q4_k"], op) == curve
