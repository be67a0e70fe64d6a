"""Routed experts."""

from typing import ClassVar

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.gemm import GemmOp, curve_of
from perfmodel.costs.split import Part, Split
from perfmodel.operations import Floats
from perfmodel.specs import serving_engines
from perfmodel.specs.calibrations.engine_constants import ExpertKernel


class ExpertsOp(GemmOp):
    """The routed experts of all MoE layers.

    - layers: number of MoE layers.
    - held_bytes: bytes of all expert weights that a device holds, whether a pass uses them or not.
    - architecture: architecture of the model (``model_type`` of its ``config.json``).
    - routed_bytes: bytes of the tokens' hidden vectors, counted once for each expert of a token.
    - of_prompt: whether the pass reads prompts.
    """

    added_up: ClassVar[tuple[str, ...]] = (*GemmOp.added_up, "layers", "held_bytes", "routed_bytes")

    layers: int = 0
    held_bytes: float = 0.0
    architecture: str = ""
    routed_bytes: Floats = 0.0
    of_prompt: bool = False

    def split(self, group: DeviceGroup) -> Split:
        constants = group.calibration.expert_kernels
        if constants and self.layers:
            name = curve_of(constants.kernels, self)
            kernel = constants.kernels[name]
            if self.of_prompt:
                kernel = constants.prompts.get(name, kernel)
            return self._by_own_kernels(group, kernel)
        return GemmOp.split(self, group)

    def _by_own_kernels(self, group: DeviceGroup, kernel: ExpertKernel) -> Split:
        """The time according to the constants of the experts' own kernels. These constants include the time
        of quantising and moving the inputs.
        """
        c = group.calibration
        factor = c.expert_factor.value
        start = self.layers * (factor * kernel.fixed_s + self._untuned_layer_s(group))
        loaded_share = min(kernel.bandwidth_fraction / factor, 1.0)
        computed_share = min(kernel.flops_fraction / factor, 1.0)
        loaded = self._read_bytes(c.expert_alone_tokens.value) * (group.byte_s / loaded_share)
        computed = self.cost.flops * (1.0 / (group.gpu.peak_flops(self.compute) * computed_share))
        parts: tuple[Part, ...] = (("fixed", start), ("param_load", loaded), ("flops", computed))
        if kernel.routed_passes:
            moved = self.routed_bytes * (kernel.routed_passes * group.byte_s)
            parts = (*parts, ("activations", moved))
        return parts, None

    def _untuned_layer_s(self, group: DeviceGroup) -> float:
        """Seconds of a layer in addition to its kernels, if the engine has not tuned these kernels."""
        c = group.calibration
        engine = serving_engines().get(c.stack)
        if engine and engine.tunes_experts(self.form, self.architecture, group.gpu, c.version):
            return 0.0
        return c.expert_layer_s.value

    def _read_bytes(self, alone_tokens: float) -> Floats:
        """Bytes of weights that the kernels read. In a pass of at most `alone_tokens` tokens, each token
        reads its own experts. A pass of more tokens never reads less.
        """
        touched = self.cost.weight_bytes
        if not alone_tokens:
            return touched
        bytes_of_a_token = self.cost.flops * (self.bytes_per_value / 2.0) / self.rows
        separate = np.minimum(bytes_of_a_token * np.minimum(self.rows, alone_tokens), self.held_bytes)
        return np.maximum(touched, separate)
