"""The time of bookkeeping for the cache, in addition to attention. Bookkeeping moves few bytes."""

from typing import ClassVar

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.operation import Kind, Op
from perfmodel.costs.split import Split
from perfmodel.operations import Floats


class PageTableOp(Op):
    """The bookkeeping of a pass over the whole cache, which builds its page table once."""

    kind: ClassVar[Kind] = "upkeep"

    def split(self, group: DeviceGroup) -> Split:
        return (("fixed", self.kernels * group.calibration.full_cache_pass_s.value),), None


class SparseCacheOp(Op):
    """The bookkeeping of a draft step that reads only some tokens. It maintains a small cache for each
    sequence and layer.

    - caches: number of these small caches.
    """

    kind: ClassVar[Kind] = "upkeep"
    added_up: ClassVar[tuple[str, ...]] = ("caches",)

    caches: Floats = 0.0

    def split(self, group: DeviceGroup) -> Split:
        return (("fixed", self.caches * group.calibration.sparse_cache_sequence_s.value),), None
