"""Memory tiers that hold KV caches outside the devices, from ``hardware/kv_tiers.yaml``."""

from functools import cache

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices.gpu import GPUSpec


class Tier(Frozen):
    """A memory outside the devices that can hold KV caches.

    - rate: the rate at which one device reads from the tier.
    - needs: beginnings of the names of the devices that have this tier, separated by spaces. It is empty if
      all devices have it.
    """

    rate: Quantity
    needs: str = ""

    def is_of(self, gpu: GPUSpec) -> bool:
        """Whether servers with this device have the tier."""
        return not self.needs or gpu.name.startswith(tuple(self.needs.split()))


class Tiers(Frozen):
    """The contents of ``hardware/kv_tiers.yaml``."""

    host: Tier
    c2c: Tier
    nvme: Tier


@cache
def kv_tiers() -> Tiers:
    """The contents of the bundled file ``hardware/kv_tiers.yaml``."""
    return files.load_bundled(Tiers, "", "kv_tiers")
