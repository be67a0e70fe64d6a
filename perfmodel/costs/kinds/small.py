"""Element-wise kernels."""

from typing import ClassVar

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.operation import Kind, Op
from perfmodel.costs.split import Split


class SmallOp(Op):
    """Element-wise kernels, which compute little for each value that they move.

    - of_experts: whether the kernels route tokens to experts. The constants of expert kernels already include
      the launches of such kernels.
    """

    kind: ClassVar[Kind] = "small"

    of_experts: bool = False

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        launches_s = self.kernels * c.small_kernel_s.value
        if self.of_experts and c.expert_kernels:
            launches_s = 0.0
        moved_s = self.cost.activation_bytes * (group.byte_s / c.small_bandwidth_fraction.value)
        return (("fixed", launches_s), ("activations", moved_s)), None
