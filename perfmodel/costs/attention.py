"""Converts the counts of attention to seconds: how fast its kernels read the cache, how often, and in how
many pieces.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmodel.costs.split import Part, Split
from perfmodel.operations import Floats, Head, Op
from perfmodel.specs import Calibration, GPUSpec, attention_of
from perfmodel.specs.engines.attention import Backend
from perfmodel.specs.engines.backends import backend_name


@dataclass(frozen=True)
class AttentionKernels:
    """The attention kernels of a software stack on a device.

    byte_s: seconds per byte at the peak bandwidth. kv_reread: factor on the verification pass's KV bytes.
    None takes the calibration's. It is clipped to 1 ... query, and replaces the re-reads of the backend.
    requested: backend of a serving engine; None is the engine's own choice.
    """

    gpu: GPUSpec
    calibration: Calibration
    byte_s: float
    kv_reread: float | None = None
    requested: str | None = None

    @cached_property
    def _multiprocessors(self) -> float:
        """Multiprocessors of a device; 0 if their number is unknown."""
        count = self.gpu.multiprocessors
        return count.value if count else 0.0

    def reread(
        self, query: Floats, head: Head = "usual", narrow: bool = False, group: Floats = 1.0
    ) -> Floats:
        """How often a pass with `query` tokens per sequence reads the cache: 1 for one token, at most
        `query`.

        head: kind of the attention heads. narrow: whether the cache has values below 16 bits. Both may have
        kernels of their own. group: rows of a kernel's tile that one query token fills (`Op.group`).
        """
        if self.kv_reread is not None:
            return np.clip(self.kv_reread, 1.0, query)
        c = self.calibration
        backend = self.facts_of(head, narrow)
        latent = head == "latent" and (backend is None or backend.latent_rereads)
        slope = (latent and c.latent_reread_per_query.value) or c.kv_reread_per_query.value
        further: Floats = 0.0
        if backend is not None and backend.tile_rows:
            tiles = np.ceil(query * group / backend.tile_rows)
            further = c.kv_reread_per_tile.value * (np.maximum(tiles, 1.0) - 1.0)
        if slope == 0 and not np.any(further):
            return 1.0
        return np.minimum(1.0 + slope * (query - 1.0) + further, query)

    def backend(self, head: Head, narrow: bool) -> str | None:
        """Name of the attention backend for such heads; None if none is known. narrow: whether the cache has
        values below 16 bits.
        """
        c = self.calibration
        return backend_name(
            c.stack,
            self.gpu.architecture,
            head,
            self.requested,
            narrow=narrow,
            version=c.version,
        )

    def facts_of(self, head: Head, narrow: bool) -> Backend | None:
        """What is known of the backend for such heads; None if none is known."""
        name = self.backend(head, narrow)
        attention = attention_of(self.calibration.stack)
        return attention.backends[name] if attention and name else None

    def split(self, op: Op) -> Split:
        """Calibrated time of attention by term: fixed times, and loading that overlaps with computing."""
        c = self.calibration
        cost = op.cost
        byte_s, flop_s = self.rates(op)
        rate: Floats = byte_s
        blocks: Floats = c.attention_blocks_per_multiprocessor.value
        if self._multiprocessors and (isinstance(blocks, np.ndarray) or blocks):
            rate = byte_s * wave_factor(op.work_items, blocks * self._multiprocessors, self._multiprocessors)
        state = op.cache in ("state", "mamba2")
        narrow = narrow_cache(op)
        head = op.head if op.cache == "heads" or op.cache == "latent" else "usual"
        read = 1.0 if state else self.reread(op.query, head, narrow, op.group)
        if op.cache == "mamba2":
            read = c.scan_copies.value
        cache = cost.kv_bytes * (read * rate)
        counted = not isinstance(op.work_items, float) or op.work_items > 0
        if counted and c.multiprocessor_bandwidth.value * self._multiprocessors:
            cache = np.maximum(cache, self._longest_s(op))
        backend = self.facts_of(head, narrow)
        if counted and backend is not None and (backend.one or backend.several):
            cache = np.maximum(cache, self._uncut_s(op, backend))
        loaded: tuple[Part, ...] = ("kv_load", cache), ("activations", cost.activation_bytes * rate)
        further: Floats = c.latent_layer_s.value if op.cache == "latent" else 0.0
        if state:
            further = c.state_layer_s.value + np.where(np.greater(op.query, 1.0), c.state_verify_s.value, 0.0)
        if op.cache == "index":  # scores and choice: two kernels a layer
            further = (c.index_layer_s.value + op.rows * c.index_token_s.value) / 2
        start = op.kernels * (c.attention_fixed_s.value + further)
        if c.search_s.value or c.searched_unit_s.value:
            start = start + self._search_s(op)
        return (("fixed", start),), (loaded, cost.flops * flop_s, np.inf)

    def _search_s(self, op: Op) -> Floats:
        """Further time of the searches for the best of a draft's tokens. One multiprocessor searches those of
        a sequence and KV head, so more of these than multiprocessors take further rounds.
        """
        c = self.calibration
        rounds: Floats = 1.0
        if self._multiprocessors:
            rounds = np.ceil(op.rows / self._multiprocessors)
        return rounds * (op.searches * c.search_s.value + op.searched * c.searched_unit_s.value)

    def _longest_s(self, op: Op) -> Floats:
        """Time until the longest sequence is read, where kernels cut a sequence into as many pieces as the
        batch allows.

        One multiprocessor reads each of its pieces, after its share of the other work items.
        """
        each = self.byte_s * self._multiprocessors / self.calibration.multiprocessor_bandwidth.value
        splits = np.maximum(np.floor(self._multiprocessors / op.rows), 1.0)
        waiting = np.maximum(op.work_items / self._multiprocessors - 1.0, 0.0)
        mean = op.cost.kv_bytes / op.work_items
        return ((mean + op.longer_bytes) / splits + mean * waiting) * each

    def _uncut_s(self, op: Op, backend: Backend) -> Floats:
        """Time until every sequence and KV head is read, where a kernel cuts them into too few pieces to fill
        the device: max(bytes of a piece, bytes of all / multiprocessors) at one multiprocessor's rate.
        """
        c = self.calibration
        rate: Floats = c.block_bandwidth.value
        count = self._multiprocessors
        several = None if self.kv_reread is not None else backend.several
        if several == 1 and c.uncut_bandwidth.value:
            rate = np.where(np.greater(op.query, 1.0), c.uncut_bandwidth.value, rate)
        pieces = np.where(np.greater(op.query, 1.0), several or np.inf, backend.one or np.inf)
        if not c.block_bandwidth.value or not count:
            return 0.0
        fill = np.maximum(np.floor(count / op.rows), 1.0)
        longest = op.cost.kv_bytes / op.work_items + op.longer_bytes
        slowest = np.maximum(longest / np.minimum(pieces, fill), op.cost.kv_bytes / count)
        return np.where(np.isfinite(pieces), slowest * (self.byte_s * count / rate), 0.0)

    def rates(self, op: Op) -> tuple[float, float]:
        """Calibrated seconds per byte and per FLOP of attention."""
        c = self.calibration
        narrow = narrow_cache(op)
        share = c.attention_bandwidth_fraction.value
        computed = c.attention_flops_fraction.value
        if narrow:
            share = c.attention_bandwidth_fraction_fp8.value or share
        if op.cache == "latent":
            share = c.latent_bandwidth_fraction.value or share
            computed = c.latent_flops_fraction.value or computed
            if narrow:
                share = c.latent_bandwidth_fraction_fp8.value or share
        if op.cache == "index":
            share = c.index_bandwidth_fraction.value or share
        return self.byte_s / min(share, 1.0), 1.0 / (self.gpu.peak_flops(op.compute) * computed)


def narrow_cache(op: Op) -> bool:
    """Whether an op attends to a cache of values below 16 bits."""
    return op.form not in ("bf16", "fp16", "fp32")


def wave_factor(items: Floats, slots: Floats, multiprocessors: float) -> Floats:
    """Factor by which `items` equal pieces of work on `slots` places take longer than if they filled the
    memory bandwidth to the end.

    Below `slots` the kernel cuts the pieces until they fill the device: factor 1. Above, a piece is not cut
    (FlashInfer's plan, arXiv 2501.01005). The last, partial wave then takes at least as long as one piece per
    multiprocessor, even with fewer pieces.
    """
    waves, left = np.divmod(items, slots)
    idle = np.where(waves * left == 0.0, 0.0, np.maximum(multiprocessors - left, 0.0))
    return 1.0 + idle / np.maximum(items, 1.0)
