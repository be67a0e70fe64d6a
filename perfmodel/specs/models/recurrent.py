"""Layers that keep one state per sequence instead of a cache: the field `linear_attention` of a model."""

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
"""The kinds of recurrent layers, by their words in the files of models."""


class LinearAttention(RecurrentShape):
    """Layers that keep one state per sequence instead of a cache. `recurrent_kinds` has a class for each
    kind.

    The state has num_value_heads x key_head_dim x value_head_dim values per layer, and `conv_kernel - 1`
    inputs of the convolution. A short convolution has only these inputs.
    """

    kind: Literal["gated_delta", "mamba2", "kimi_delta", "conv", "mamba1", "lightning"]

    @property
    def convolved(self) -> int:
        """Number of channels of the convolution."""
        return KINDS[self.kind].convolved(self)

    @property
    def projected(self) -> int:
        """Number of columns of the input projections."""
        return KINDS[self.kind].projected(self)

    @property
    def state_values(self) -> int:
        """Number of values of the state of one sequence in one layer, without the inputs of the
        convolution.
        """
        return KINDS[self.kind].state_values(self)

    @property
    def flops_per_value(self) -> int:
        """Number of FLOPs per token and value of the state."""
        return KINDS[self.kind].flops_per_value

    @property
    def small_params(self) -> int:
        """Number of parameters of one layer, without the matrices of its projections."""
        return KINDS[self.kind].small_params(self)

    def params(self, hidden: int) -> int:
        """Number of parameters of one layer, without the norm before it.

        - hidden: hidden size of the model.
        """
        return hidden * (self.projected + self.inner) + self.small_params
