"""The attention kernels of a device: which backend runs them, and how often they read the cache."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmodel.operations import Floats, Head
from perfmodel.specs import Calibration, GPUSpec, attention_of
from perfmodel.specs.engines.attention import Backend
from perfmodel.specs.engines.backends import backend_name


@dataclass(frozen=True)
class AttentionKernels:
    """The attention kernels of a software stack on a device.

    byte_s: seconds per byte at the peak bandwidth. kv_reread: factor on the verification pass's KV bytes.
    None means the value of the calibration. It is clipped to 1 ... query, and replaces the re-reads of the
    backend. requested: the named backend of a serving engine; None leaves it to the engine.
    """

    gpu: GPUSpec
    calibration: Calibration
    byte_s: float
    kv_reread: float | None = None
    requested: str | None = None

    @cached_property
    def multiprocessors(self) -> float:
        """Multiprocessors of a device; 0 if their number is unknown."""
        count = self.gpu.multiprocessors
        return count.value if count else 0.0

    def reread(
        self, query: Floats, head: Head = "usual", narrow: bool = False, group: Floats = 1.0
    ) -> Floats:
        """Number of times that a pass with `query` tokens per sequence reads the cache: 1 for one token,
        at most `query`.

        head: kind of the attention heads. narrow: whether the cache has values below 16 bits. Both may
        have their own kernels. group: rows of a kernel's tile that one query token fills.
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
