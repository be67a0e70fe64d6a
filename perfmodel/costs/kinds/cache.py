"""The base class of the operations that read a cache: attention, recurrent states, indexers and token
selection.
"""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.operation import Kind, RatedOp
from perfmodel.costs.split import Part, Split
from perfmodel.operations import Floats


class CacheOp(RatedOp):
    """An operation that reads a cache. Its time consists of kernel launches, and of loading that overlaps
    with computing.
    """

    kind: ClassVar[Kind] = "attention"
    cuts_graphs: ClassVar[bool] = True

    def rates(self, group: DeviceGroup) -> tuple[float, float]:
        c = group.calibration
        return self.at_shares(group, c.attention_bandwidth_fraction.value, c.attention_flops_fraction.value)

    def at_shares(
        self, group: DeviceGroup, bandwidth_fraction: float, flops_fraction: float
    ) -> tuple[float, float]:
        """Seconds per byte and per FLOP at the given shares of the peak rates."""
        byte_s = group.byte_s / min(bandwidth_fraction, 1.0)
        return byte_s, 1.0 / (group.gpu.peak_flops(self.compute) * flops_fraction)

    def launched_and_run(self, start_s: Floats, cache_s: Floats, byte_s: Floats, flop_s: float) -> Split:
        """The calibrated time of the operation by term.

        - start_s: seconds of all kernel launches.
        - cache_s: seconds of loading the cache.
        """
        loaded: tuple[Part, ...] = (
            ("kv_load", cache_s),
            ("activations", self.cost.activation_bytes * byte_s),
        )
        return (("fixed", start_s),), (loaded, self.cost.flops * flop_s, np.inf)
