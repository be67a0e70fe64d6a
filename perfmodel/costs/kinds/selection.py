"""The calibrated time of selecting the cached tokens to which attention attends."""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.cache import CacheOp
from perfmodel.costs.split import Split
from perfmodel.operations import Floats


class SelectionOp(CacheOp):
    """Kernels that score cached keys and select the tokens with the best scores.

    - searches: number of kernels that search for the best tokens of a draft.
    - searched: number of tokens or pages of a sequence that these kernels search, summed over the kernels.
    - work_items: number of KV heads of all sequences. One multiprocessor searches each of them.
    """

    added_up: ClassVar[tuple[str, ...]] = ("kernels", "searches", "searched")

    searches: Floats = 0.0
    searched: Floats = 0.0
    work_items: Floats = 1.0

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        byte_s, flop_s = self.rates(group)
        start_s = self.kernels * c.attention_fixed_s.value
        if c.search_s.value or c.searched_unit_s.value:
            start_s = start_s + self._search_s(group)
        return self.launched_and_run(start_s, self.cost.kv_bytes * byte_s, byte_s, flop_s)

    def _search_s(self, group: DeviceGroup) -> Floats:
        """Time of the searches. More work items than multiprocessors take further rounds."""
        c = group.calibration
        rounds: Floats = 1.0
        if group.attention.multiprocessors:
            rounds = np.ceil(self.work_items / group.attention.multiprocessors)
        return rounds * (self.searches * c.search_s.value + self.searched * c.searched_unit_s.value)


class IndexerOp(CacheOp):
    """The indexer of DeepSeek-V3.2. It has two kernels per layer: one for the scores and one for the choice.

    - tokens: number of query tokens in the pass.
    """

    tokens: Floats = 1.0

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        byte_s, flop_s = self.rates(group)
        layer_s = c.index_layer_s.value + self.tokens * c.index_token_s.value
        kernel_s = c.attention_fixed_s.value + layer_s / 2  # a layer has two kernels
        return self.launched_and_run(self.kernels * kernel_s, self.cost.kv_bytes * byte_s, byte_s, flop_s)

    def rates(self, group: DeviceGroup) -> tuple[float, float]:
        c = group.calibration
        share = c.index_bandwidth_fraction.value or c.attention_bandwidth_fraction.value
        return self.at_shares(group, share, c.attention_flops_fraction.value)
