"""Layers that keep a state per sequence instead of a cache: `linear_attention` of a model."""

from typing import Literal

from perfmodel.specs.models.recurrent_kinds import (
    Convolution,
    GatedDelta,
    KimiDelta,
    Lightning,
    Mamba1,
    Mamba2,
    RecurrentKind,
    RecurrentShape,
)

KINDS: dict[str, RecurrentKind] = {
    "gated_delta": GatedDelta(),
    "mamba2": Mamba2(),
    "kimi_delta": KimiDelta(),
    "conv": Convolution(),
    "mamba1": Mamba1(),
    "lightning": Lightning(),
}
"""Word of a model's file -> sizes of this kind."""


class LinearAttention(RecurrentShape):
    """Layers that keep a state per sequence instead of a cache; `recurrent_kinds` has a class for each kind.

    The state has num_value_heads x key_head_dim x value_head_dim values per layer (a short convolution has
    none), and `conv_kernel - 1` inputs of the convolution.
    """

    kind: Literal["gated_delta", "mamba2", "kimi_delta", "conv", "mamba1", "lightning"]

    @property
    def convolved(self) -> int:
        """Channels of the convolution."""
        return KINDS[self.kind].convolved(self)

    @property
    def projected(self) -> int:
        """Columns of the input projections."""
        return KINDS[self.kind].projected(self)

    @property
    def state_values(self) -> int:
        """Values of the state of one sequence and layer, without the inputs of the convolution."""
        return KINDS[self.kind].state_values(self)

    @property
    def flops_per_value(self) -> int:
        """FLOPs of one token per value of the state."""
        return KINDS[self.kind].flops_per_value

    @property
    def small_params(self) -> int:
        """Parameters of one layer without the matrices of its projections."""
        return KINDS[self.kind].small_params(self)

    def params(self, hidden: int) -> int:
        """Parameters of one layer without the norm before it.

        - hidden: width of the model.
        """
        return hidden * (self.projected + self.inner) + self.small_params
