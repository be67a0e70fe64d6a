"""The devices that run a pass together, with the calibration of their software stack. The time of an
operation depends only on this group and on the operation's counts.
"""

from dataclasses import dataclass
from functools import cached_property

from perfmodel.costs.attention import AttentionKernels
from perfmodel.costs.fabric import Fabric
from perfmodel.errors import InputError
from perfmodel.operations import Floats
from perfmodel.specs import Calibration, GPUSpec
from perfmodel.specs.engines.serving import HostPasses


@dataclass(frozen=True)
class DeviceGroup:
    """A group of devices of one type, with the calibration of their software stack.

    - kv_reread, attention_backend: see `AttentionKernels`.
    - drafts: whether the group runs passes of a draft. Some engines need additional time for such passes.
    - host_experts: share of the MoE layers whose experts are read from the host's memory, at the rate
      host_bytes_per_s.
    - host_layers: share of all layers that run on the host.
    - host: how the host's processor runs its layers. None means that the processor reads at the full
      bandwidth.
    - fabric: the links between nodes. It is None for a group within one node.
    - schedulers: number of ranks that each schedule and sample their own sequences.
    """

    gpu: GPUSpec
    calibration: Calibration
    tensor_parallel: int = 1
    kv_reread: float | None = None
    drafts: bool = False
    attention_backend: str | None = None
    host_experts: float = 0.0
    host_layers: float = 0.0
    host_bytes_per_s: float = 1.0
    host: HostPasses | None = None
    fabric: Fabric | None = None
    schedulers: int = 1

    def __post_init__(self) -> None:
        degree = self._devices_of_node
        if degree > 1 and self.gpu.link_rate(degree) is None:
            raise InputError(f"--tp: {self.gpu.name} has no link to another device, given {degree}")

    @cached_property
    def over_host(self) -> bool:
        """Whether the devices of a node communicate over PCIe."""
        return self._devices_of_node > 1 and self.gpu.over_host(self._devices_of_node)

    @property
    def _devices_of_node(self) -> int:
        """Number of devices of the group in one node."""
        if self.fabric is None:
            return self.tensor_parallel
        return min(self.tensor_parallel, self.fabric.node_devices)

    @property
    def host_rate(self) -> float:
        """Bytes per second that the host's processor reads from its memory."""
        return self.host_bytes_per_s * (1.0 if self.host is None else self.host.reach)

    @cached_property
    def byte_s(self) -> float:
        """Seconds per byte at the peak bandwidth of a device."""
        return 1.0 / self.gpu.memory_bandwidth_bytes_per_s

    @cached_property
    def attention(self) -> AttentionKernels:
        """The attention kernels of a device."""
        return AttentionKernels(
            self.gpu, self.calibration, self.byte_s, self.kv_reread, self.attention_backend
        )

    def link_s(self, devices: int, message_bytes: Floats) -> Floats:
        """Seconds of a message at the rate of the device's link inside a node. This link is at least as fast
        as the links between nodes.
        """
        of_node = devices if self.fabric is None else min(devices, self.fabric.node_devices)
        rate = self.gpu.link_rate(of_node)
        return message_bytes / rate if rate else 0.0
