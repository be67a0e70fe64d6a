"""The attention kernels of a device: the backend that runs them, and the number of times that they read the
cache.
"""

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

    - byte_s: seconds per byte at the peak bandwidth of the device.
    - kv_reread: number of times that a verification pass reads the cache, limited to the range 1 ... query.
      This number replaces the re-reads of the backend. None means the value of the calibration.
    - requested: the attention backend that the user named. None means that the engine chooses.
    """

    gpu: GPUSpec
    calibration: Calibration
    byte_s: float
    kv_reread: float | None = None
    requested: str | None = None

    @cached_property
    def multiprocessors(self) -> float:
        """Number of multiprocessors of a device. The result is 0 if it is unknown."""
        count = self.gpu.multiprocessors
        return count.value if count else 0.0

    def reread(
        self, query: Floats, head: Head = "usual", narrow: bool = False, group: Floats = 1.0
    ) -> Floats:
        """Number of times that a pass with `query` tokens per sequence reads the cache. The number is 1 for
        one token, and at most `query`.

        - head: kind of the attention heads. Some kinds have their own kernels.
        - narrow: whether the cache has values below 16 bits. Such caches may have their own kernels.
        - group: rows of a kernel's tile that one query token fills.
        """
        if self.kv_reread is not None:
            return np.clip(self.kv_reread, 1.0, query)
        c = self.calibration
        backend = self.facts_of(head, narrow)
        slope = c.kv_reread_per_query.value
        if head == "latent" and (backend is None or backend.latent_rereads):
            slope = c.latent_reread_per_query.value or slope
        further: Floats = 0.0
        if backend is not None and backend.tile_rows:
            tiles = np.ceil(query * group / backend.tile_rows)
            further = c.kv_reread_per_tile.value * (np.maximum(tiles, 1.0) - 1.0)
        if slope == 0 and not np.any(further):
            return 1.0
        return np.minimum(1.0 + slope * (query - 1.0) + further, query)

    def backend(self, head: Head, narrow: bool) -> str | None:
        """Name of the attention backend for this kind of heads. The result is None if no backend is known.

        - narrow: whether the cache has values below 16 bits.
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
        """The known facts about the backend for this kind of heads. The result is None if no backend is
        known.
        """
        name = self.backend(head, narrow)
        attention = attention_of(self.calibration.stack)
        return attention.backends[name] if attention and name else None
