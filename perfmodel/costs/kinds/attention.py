"""The calibrated time of attention. The time depends on how often the kernels read the cache, how fast they
read, and into how many pieces they cut the cache.
"""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.cache import CacheOp
from perfmodel.costs.split import Split
from perfmodel.operations import Floats, Head
from perfmodel.specs.engines.attention import Backend


class AttentionOp(CacheOp):
    """The attention of one group of layers.

    - query: tokens per sequence in the pass. The number of reads of the cache depends on it.
    - work_items: number of independent pieces of one kernel call. Each piece is one KV head of one sequence.
      None means that this number does not matter.
    - padded_items: number of work items, including the padding of a CUDA graph.
    - longer_bytes: cache bytes of a work item of the longest sequence minus the mean over work items, summed
      over layers.
    - group_rows: number of rows of a kernel's tile that one query token fills (`KVLayout.group`).
    - latent: whether the cache has one latent per token (MLA).
    - narrow: whether the cache has values below 16 bits.
    - head: kind of the attention heads.
    """

    added_up: ClassVar[tuple[str, ...]] = ("kernels", "longer_bytes")

    query: Floats = 1.0
    work_items: Floats | None = None
    padded_items: Floats = 1.0
    longer_bytes: Floats = 0.0
    group_rows: Floats = 1.0
    latent: bool = False
    narrow: bool = False
    head: Head = "usual"

    def split(self, group: DeviceGroup) -> Split:
        c = group.calibration
        byte_s, flop_s = self.rates(group)
        slowed_byte_s = self._in_waves(byte_s, group)
        reread = group.attention.reread(self.query, self.head, self.narrow, self.group_rows)
        cache_s = self.cost.kv_bytes * (reread * slowed_byte_s)
        if self.work_items is not None:
            cache_s = self._at_least_a_piece(cache_s, self.work_items, group)
        layer_s = c.attention_fixed_s.value
        if self.latent:
            layer_s = layer_s + c.latent_layer_s.value
        return self.launched_and_run(self.kernels * layer_s, cache_s, slowed_byte_s, flop_s)

    def rates(self, group: DeviceGroup) -> tuple[float, float]:
        c = group.calibration
        share = c.attention_bandwidth_fraction.value
        computed = c.attention_flops_fraction.value
        if self.narrow:
            share = c.attention_bandwidth_fraction_fp8.value or share
        if self.latent:
            share = c.latent_bandwidth_fraction.value or share
            computed = c.latent_flops_fraction.value or computed
            if self.narrow:
                share = c.latent_bandwidth_fraction_fp8.value or share
        return self.at_shares(group, share, computed)

    def _in_waves(self, byte_s: float, group: DeviceGroup) -> Floats:
        """Seconds per byte, if kernels run work items in waves."""
        blocks: Floats = group.calibration.attention_blocks_per_multiprocessor.value
        count = group.attention.multiprocessors
        if self.work_items is None or not count:
            return byte_s
        if isinstance(blocks, np.ndarray) or blocks:
            return byte_s * wave_factor(self.work_items, blocks * count, count)
        return byte_s

    def _at_least_a_piece(self, cache_s: Floats, work_items: Floats, group: DeviceGroup) -> Floats:
        """Seconds of loading the cache. It takes at least as long as the slowest piece."""
        kernels = group.attention
        if group.calibration.multiprocessor_bandwidth.value * kernels.multiprocessors:
            cache_s = np.maximum(cache_s, self._longest_s(work_items, group))
        backend = kernels.facts_of(self.head, self.narrow)
        if backend is not None and (backend.one or backend.several):
            cache_s = np.maximum(cache_s, self._uncut_s(work_items, group, backend))
        return cache_s

    def _longest_s(self, work_items: Floats, group: DeviceGroup) -> Floats:
        """Time until the longest sequence is read, if kernels cut a sequence into as many pieces as the batch
        allows.

        A multiprocessor first reads its share of the other work items, and then one piece of this sequence.
        """
        count = group.attention.multiprocessors
        byte_s = group.byte_s * count / group.calibration.multiprocessor_bandwidth.value
        pieces = np.maximum(np.floor(count / self.padded_items), 1.0)
        waiting = np.maximum(work_items / count - 1.0, 0.0)
        mean_bytes = self.cost.kv_bytes / work_items
        return ((mean_bytes + self.longer_bytes) / pieces + mean_bytes * waiting) * byte_s

    def _uncut_s(self, work_items: Floats, group: DeviceGroup, backend: Backend) -> Floats:
        """Time until every sequence and KV head is read, if a kernel cuts them into too few pieces to fill
        the device: max(bytes of a piece, bytes of all / multiprocessors) at one multiprocessor's rate.
        """
        c = group.calibration
        count = group.attention.multiprocessors
        if not c.block_bandwidth.value or not count:
            return 0.0
        verifies = np.greater(self.query, 1.0)
        several = backend.several if group.kv_reread is None else None  # a given re-read replaces the pieces
        if several and backend.padded_rows:
            peak = group.gpu.peak_flops("bf16") * backend.padded_peak_share(group.gpu.architecture)
            return np.where(verifies, self._padded_s(work_items, group, backend.padded_rows, peak), 0.0)
        share: Floats = c.block_bandwidth.value
        if several == 1 and c.uncut_bandwidth.value:
            share = np.where(verifies, c.uncut_bandwidth.value, share)
        most_pieces = np.where(verifies, several or np.inf, backend.one or np.inf)
        filling = np.maximum(np.floor(count / self.padded_items), 1.0)
        longest_bytes = self.cost.kv_bytes / work_items + self.longer_bytes
        piece_bytes = longest_bytes / np.minimum(most_pieces, filling)
        slowest_bytes = np.maximum(piece_bytes, self.cost.kv_bytes / count)
        return np.where(np.isfinite(most_pieces), slowest_bytes * (group.byte_s * count / share), 0.0)

    def _padded_s(self, work_items: Floats, group: DeviceGroup, rows: int, peak: float) -> Floats:
        """Time of computing at `peak` FLOP/s, if a program multiplies `rows` rows for each query head and one
        multiprocessor processes the longest sequence.

        A row costs one FLOP per byte of a 16-bit cache. For each value of a head, a row takes 4 FLOPs, and a
        cached token has 4 bytes (one value of K and one of V).
        """
        longest_bytes = self.cost.kv_bytes / work_items + self.longer_bytes
        longest_s = longest_bytes * rows * group.attention.multiprocessors / peak
        all_s = self.cost.flops * rows / np.minimum(self.query, rows) / peak
        return np.maximum(longest_s, all_s)


def wave_factor(items: Floats, slots: Floats, multiprocessors: float) -> Floats:
    """The time of `items` equal pieces of work, divided by their time at the full memory bandwidth. `slots`
    pieces run at a time.

    With up to `slots` pieces, the kernel cuts the pieces until they fill the device, and the factor is 1.
    With more pieces, the kernel cuts none of them (FlashInfer's plan, arXiv 2501.01005). The last wave may
    have fewer pieces than the device has multiprocessors. It then takes as long as a wave with one piece per
    multiprocessor.
    """
    waves, left = np.divmod(items, slots)
    idle = np.where(waves * left == 0.0, 0.0, np.maximum(multiprocessors - left, 0.0))
    return 1.0 + idle / np.maximum(items, 1.0)
