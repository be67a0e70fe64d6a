"""Operations that run partly on the host, with weights in the host's memory."""

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.operation import Op
from perfmodel.costs.split import Split, seconds_of
from perfmodel.immutable import Immutable
from perfmodel.operations import Cost, Floats


class ExpertsBesideHost(Immutable):
    """Routed experts of which some layers are read from the host's memory. The layers run one after
    another.
    """

    op: ExpertsOp

    def split(self, group: DeviceGroup) -> Split:
        """See `Op.split`."""
        alone, overlap = self._on_device(1.0 - group.host_experts).split(group)
        read_s = self.op.cost.weight_bytes / group.host_rate
        slower_s = np.maximum(read_s, seconds_of(self.op.split(group)))
        return (*alone, ("param_load", group.host_experts * slower_s)), overlap

    def _on_device(self, share: float) -> ExpertsOp:
        """The experts of a share of the layers."""
        cost = self.op.cost
        return self.op.replace(
            cost=Cost(cost.flops * share, cost.weight_bytes * share, 0.0, cost.activation_bytes * share),
            kernels=self.op.kernels * share,
            layers=round(self.op.layers * share),
            held_bytes=self.op.held_bytes * share,
        )


class PartlyOnHost(Immutable):
    """An operation of which some layers run on the host. The layers run one after another. The time of a
    layer on the host is its bytes divided by the host's rate, plus a share of this time for each further
    token of a GEMM. It is at least the time of the layer on the device.

    - on_device: the operation as it runs on the device. It may consist of experts that are partly on the
      host.
    """

    op: Op
    on_device: Op | ExpertsBesideHost

    def split(self, group: DeviceGroup) -> Split:
        """See `Op.split`."""
        on_host = group.host_layers
        kept = 1.0 - on_host
        alone, overlap = self.on_device.split(group)
        slower_s = np.maximum(self._read_s(group), seconds_of((alone, overlap)))
        both = (*((term, s * kept) for term, s in alone), ("param_load", on_host * slower_s))
        if overlap is None:
            return both, None
        loaded, computed, power = overlap
        return both, (tuple((term, s * kept) for term, s in loaded), computed * kept, power)

    def _read_s(self, group: DeviceGroup) -> Floats:
        """Time in which the host reads all bytes. Each further token of a projection takes a share of this
        time.
        """
        read_s = self.op.cost.bytes / group.host_rate
        if group.host is None or not isinstance(self.op, GemmOp):
            return read_s
        further = np.minimum(self.op.rows, group.host.most_tokens) - 1.0
        return read_s * (1.0 + group.host.token_share * np.maximum(further, 0.0))
