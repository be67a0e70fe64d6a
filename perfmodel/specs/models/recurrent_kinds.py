"""The kinds of recurrent layers. Each kind has the sizes of its convolution, projections and state."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.models.components import Size, SomeLayers

STATE_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""The name in this package for the name of a state's format in engines and in config.json."""


class RecurrentShape(Frozen):
    """The number and width of the heads of recurrent layers.

    Mamba-2 has other names for these fields. `num_value_heads` is its number of heads, and `num_key_heads`
    its number of groups. `key_head_dim` is its state size, and `value_head_dim` its head size.

    - full_rank_gate: whether the gate of Kimi's layers is one projection instead of two.
    - gated_norm: whether there is a norm before the output (Mamba-2).
    """

    layers: SomeLayers
    num_key_heads: Size
    num_value_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    conv_kernel: Size = 4
    state_dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    full_rank_gate: bool = True
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Width of the values, of the gate and of the output, over all heads."""
        return self.num_value_heads * self.value_head_dim

    @property
    def keys(self) -> int:
        """Width of the keys, and of the queries, over all heads."""
        return self.num_key_heads * self.key_head_dim


class RecurrentKind(ABC):
    """The base class of the kinds of recurrent layers. A kind computes the sizes of one layer from its shape.

    - flops_per_value: FLOPs per token and value of the state. The outer product and the read at the query
      take 2 FLOPs each (Mamba-2, arXiv 2405.21060).
    """

    flops_per_value: ClassVar[int] = 4

    def convolved(self, shape: RecurrentShape) -> int:
        """Number of channels of the convolution: values, keys and queries."""
        return shape.inner + 2 * shape.keys

    @abstractmethod
    def projected(self, shape: RecurrentShape) -> int:
        """Columns of the input projections."""

    @abstractmethod
    def small_params(self, shape: RecurrentShape) -> int:
        """Number of parameters other than the input projections of the hidden state and the output
        projection.
        """

    def state_values(self, shape: RecurrentShape) -> int:
        """Number of values of the state of one sequence."""
        return shape.num_value_heads * shape.key_head_dim * shape.value_head_dim


class GatedDelta(RecurrentKind):
    """The gated delta rule (Qwen3-Next, arXiv 2412.06464). This rule also reads the state at the key."""

    flops_per_value = 6

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for the convolved channels, the gate, and two numbers per head (rate of writing and
        decay).
        """
        return self.convolved(shape) + shape.inner + 2 * shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the convolution, of two numbers per head (decay and its time step), and of the norm
        of a head.
        """
        convolution = self.convolved(shape) * shape.conv_kernel
        return convolution + 2 * shape.num_value_heads + shape.value_head_dim


class KimiDelta(RecurrentKind):
    """Kimi's delta attention. A low-rank projection computes a decay for each channel of a key."""

    flops_per_value = 6

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for queries, keys and values, the gate or its low rank, the low rank of the decay, and one
        number per head.
        """
        gate = shape.inner if shape.full_rank_gate else shape.value_head_dim
        return self.convolved(shape) + gate + shape.key_head_dim + shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the convolution, of the projections from the low ranks, of a decay per head, of its
        time step per channel, and of the norm of a head.
        """
        convolution = self.convolved(shape) * shape.conv_kernel
        ranks = shape.key_head_dim + (0 if shape.full_rank_gate else shape.value_head_dim)
        decay = shape.num_value_heads + shape.inner
        return convolution + ranks * shape.inner + decay + shape.value_head_dim


class Mamba2(RecurrentKind):
    """Mamba-2 (Nemotron-H, arXiv 2405.21060)."""

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for the convolved channels, the gate, and one time step per head."""
        return self.convolved(shape) + shape.inner + shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the convolution with its bias, of three numbers per head (decay, skip and bias of the
        time step), and of the norm if there is one.
        """
        convolution = self.convolved(shape) * (shape.conv_kernel + 1)
        norm = shape.inner if shape.gated_norm else 0
        return convolution + 3 * shape.num_value_heads + norm


class Mamba1(RecurrentKind):
    """Mamba-1 (Jamba). The state has `key_head_dim` values for each channel."""

    def convolved(self, shape: RecurrentShape) -> int:
        """Channels for the values only."""
        return shape.inner

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for the values and the gate."""
        return 2 * shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the convolution with its bias, and of the decays, the skip and the bias of the time
        step for each channel.
        """
        convolution = shape.conv_kernel + 1
        return shape.inner * (convolution + shape.key_head_dim + 2)


class Convolution(RecurrentKind):
    """A short convolution with gated inputs and outputs (LFM2). The state consists only of the last
    inputs.
    """

    def convolved(self, shape: RecurrentShape) -> int:
        """Channels for the values only."""
        return shape.inner

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for the values, and for a gate before and after the convolution."""
        return 3 * shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the convolution."""
        return shape.inner * shape.conv_kernel

    def state_values(self, shape: RecurrentShape) -> int:
        """Always 0, because only the inputs of the convolution are stored."""
        return 0


class Lightning(RecurrentKind):
    """Lightning attention (MiniMax-Text-01), with a gate and without a convolution."""

    def projected(self, shape: RecurrentShape) -> int:
        """Columns for values, keys, queries and the gate."""
        return self.convolved(shape) + shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters of the norm before the output."""
        return shape.inner
