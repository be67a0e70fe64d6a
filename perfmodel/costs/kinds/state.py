"""Recurrent layers."""

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.cache import CacheOp
from perfmodel.costs.split import Split
from perfmodel.operations import Floats

PROMPT_KERNELS = 8
"""Number of kernels of a recurrent layer that reads a prompt in chunks, divided by its number of kernels in
decoding. The value is that of the gated delta rule (fla-org/flash-linear-attention,
fla/ops/gated_delta_rule/chunk.py).
"""


class StateOp(CacheOp):
    """Recurrent layers, which read and write a state for each sequence.

    - query: tokens per sequence in the pass.
    - scans: whether the layers are Mamba-2, whose kernels copy the state.
    """

    query: Floats = 1.0
    scans: bool = False

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        byte_s, flop_s = self.rates(group)
        copies = c.scan_copies.value if self.scans else 1.0
        verification_s = np.where(np.greater(self.query, 1.0), c.state_verify_s.value, 0.0)
        layer_s = c.attention_fixed_s.value + (c.state_layer_s.value + verification_s)
        cache_s = self.cost.kv_bytes * (copies * byte_s)
        return self.launched_and_run(self.kernels * layer_s, cache_s, byte_s, flop_s)

    @property
    def prompt_kernels(self) -> Floats:
        return self.kernels * PROMPT_KERNELS
