"""Weights that experts read where a kernel takes few tokens one by one."""

import pytest

from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.operations import Cost
from perfmodel.specs.calibrations.engine_constants import ExpertKernel, ExpertKernels
from tests.costs.machines import BW, machine


@pytest.mark.parametrize(
    ("alone_tokens", "touched", "held", "read"),
    [
        (0.0, 5e6, 9e6, 5e6),  # without the constant, what is touched
        (3.0, 5e6, 9e6, 6e6),  # three tokens of 2 MB each
        (9.0, 5e6, 9e6, 8e6),  # all four tokens of the pass
        (9.0, 5e6, 7e6, 7e6),  # no more than the device holds
        (3.0, 6.5e6, 9e6, 6.5e6),  # never less than what is touched
    ],
)
def test_few_tokens_read_their_experts_one_by_one(
    alone_tokens: float, touched: float, held: float, read: float
) -> None:
    """Four tokens of 2 MFLOP each, at 2 FLOPs a value of 2 bytes: 2 MB of weights for one token."""
    kernel = ExpertKernel(fixed_s=0.0, bandwidth_fraction=1.0, flops_fraction=1.0)
    kernels = ExpertKernels(kernels={"bf16": kernel}, source="by hand")
    op = ExpertsOp("experts", 4, Cost(8e6, touched), layers=2, held_bytes=held, rows=4.0)
    device = machine(expert_kernels=kernels, expert_alone_tokens=alone_tokens)
    computed_s = device.op_predicted_s(op.replace(cost=Cost(flops=8e6), held_bytes=0.0))
    assert device.op_predicted_s(op) - computed_s == pytest.approx(read / BW)
