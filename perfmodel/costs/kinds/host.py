"""Kernel launches by the host, which run while the device works."""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.operation import Kind, Op
from perfmodel.costs.split import Split
from perfmodel.operations import Floats, Head
from perfmodel.specs import attention_of


class HostLaunchesOp(Op):
    """The host's launches of attention kernels, one for each layer.

    - query: tokens per sequence in the pass.
    - narrow: whether the cache has values below 16 bits.
    - head: kind of the attention heads.
    - varying: whether the sequences have different numbers of query tokens.
    """

    kind: ClassVar[Kind] = "host"

    query: Floats = 1.0
    narrow: bool = False
    head: Head = "usual"
    varying: bool = False

    def split(self, group: DeviceGroup) -> Split:
        """The terms of the operation, which take no time by themselves. A pass takes longer only if the host
        needs more time than the device (`Machine.predicted_s`).
        """
        return (("host", 0.0),), None

    def host_s(self, group: DeviceGroup) -> Floats:
        """Seconds that the host needs for a pass with these launches. The result is 0 if the pass runs as a
        full CUDA graph.

        In some engine versions the host launches attention in every pass. In others it launches attention in
        passes of a draft, or in verifications for which no graph was captured.
        """
        c = group.calibration
        engine = attention_of(c.stack)
        if engine is None:
            return 0.0
        if engine.host_launches and engine.host_launches.holds(c.version) and not group.drafts:
            layer_s = c.host_layer_s.value
            if self.head == "latent":
                layer_s = c.host_latent_layer_s.value or layer_s
            return c.host_pass_s.value + self.kernels * layer_s
        piecewise_s = self.kernels * c.host_piecewise_layer_s.value
        if group.drafts:
            return piecewise_s if engine.piecewise_drafts else 0.0
        backend = group.attention.facts_of(self.head, self.narrow)
        uncaptured = self.varying and engine.piecewise_drafts
        if uncaptured or (backend and backend.graphs_one):
            return np.where(np.greater(self.query, 1.0), piecewise_s, 0.0)
        return 0.0
