"""The kinds of recurrent layers, with the sizes of their convolution, projections and state."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.models.components import Size, SomeLayers

STATE_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""Format of recurrent states in the words of the engines and of config.json -> in ours."""


class RecurrentShape(Frozen):
    """Number and width of the heads of recurrent layers.

    Mamba-2 calls `num_value_heads` heads, `key_head_dim` state size and `value_head_dim` head size; its
    groups are `num_key_heads`.

    - full_rank_gate: Kimi's gate is one projection, not two.
    - gated_norm: there is a norm before the output (Mamba-2).
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
        """Width of values, gate and output."""
        return self.num_value_heads * self.value_head_dim

    @property
    def keys(self) -> int:
        """Width of keys, and of queries."""
        return self.num_key_heads * self.key_head_dim


class RecurrentKind(ABC):
    """Sizes of one layer, by its shape.

    - flops_per_value: FLOPs of one token per value of the state, 2 for each product: the outer product and
      the read at the query (Mamba-2, arXiv 2405.21060).
    """

    flops_per_value: ClassVar[int] = 4

    def convolved(self, shape: RecurrentShape) -> int:
        """Channels of the convolution: values, keys and queries."""
        return shape.inner + 2 * shape.keys

    @abstractmethod
    def projected(self, shape: RecurrentShape) -> int:
        """Columns of the input projections."""

    @abstractmethod
    def small_params(self, shape: RecurrentShape) -> int:
        """Parameters other than the input projections of the hidden state and the output projection."""

    def state_values(self, shape: RecurrentShape) -> int:
        """Values of the state of one sequence."""
        return shape.num_value_heads * shape.key_head_dim * shape.value_head_dim


class GatedDelta(RecurrentKind):
    """The gated delta rule (Qwen3-Next, arXiv 2412.06464), which also reads the state at the key."""

    flops_per_value = 6

    def projected(self, shape: RecurrentShape) -> int:
        """The convolved channels, the gate, and two numbers per head: rate of writing and decay."""
        return self.convolved(shape) + shape.inner + 2 * shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """The convolution, two numbers per head (decay and its time step) and the norm of a head."""
        convolution = self.convolved(shape) * shape.conv_kernel
        return convolution + 2 * shape.num_value_heads + shape.value_head_dim


class KimiDelta(RecurrentKind):
    """Kimi's delta attention: a decay for each channel of a key, from a low-rank projection."""

    flops_per_value = 6

    def projected(self, shape: RecurrentShape) -> int:
        """Queries, keys and values, the gate or its low rank, the low rank of the decay, and one number per
        head.
        """
        gate = shape.inner if shape.full_rank_gate else shape.value_head_dim
        return self.convolved(shape) + gate + shape.key_head_dim + shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """The convolution, projections from the low ranks, a decay per head, its time step per channel and
        the norm of a head.
        """
        convolution = self.convolved(shape) * shape.conv_kernel
        ranks = shape.key_head_dim + (0 if shape.full_rank_gate else shape.value_head_dim)
        decay = shape.num_value_heads + shape.inner
        return convolution + ranks * shape.inner + decay + shape.value_head_dim


class Mamba2(RecurrentKind):
    """Mamba-2 (Nemotron-H, arXiv 2405.21060)."""

    def projected(self, shape: RecurrentShape) -> int:
        """The convolved channels, the gate, and one time step per head."""
        return self.convolved(shape) + shape.inner + shape.num_value_heads

    def small_params(self, shape: RecurrentShape) -> int:
        """The convolution with its bias, three numbers per head (decay, skip and bias of the time step), and
        the norm if there is one.
        """
        convolution = self.convolved(shape) * (shape.conv_kernel + 1)
        norm = shape.inner if shape.gated_norm else 0
        return convolution + 3 * shape.num_value_heads + norm


class Mamba1(RecurrentKind):
    """Mamba-1 (Jamba): a state of `key_head_dim` values for each channel."""

    def convolved(self, shape: RecurrentShape) -> int:
        """The values alone."""
        return shape.inner

    def projected(self, shape: RecurrentShape) -> int:
        """The values and the gate."""
        return 2 * shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """The convolution with its bias, and for each channel its decays, skip and bias of the time step."""
        convolution = shape.conv_kernel + 1
        return shape.inner * (convolution + shape.key_head_dim + 2)


class Convolution(RecurrentKind):
    """A short convolution alone (LFM2): gated inputs and outputs; only its last inputs are kept."""

    def convolved(self, shape: RecurrentShape) -> int:
        """The values alone."""
        return shape.inner

    def projected(self, shape: RecurrentShape) -> int:
        """The values, and a gate before and after the convolution."""
        return 3 * shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """The convolution."""
        return shape.inner * shape.conv_kernel

    def state_values(self, shape: RecurrentShape) -> int:
        """None."""
        return 0


class Lightning(RecurrentKind):
    """Lightning attention (MiniMax-Text-01): gated, without a convolution."""

    def projected(self, shape: RecurrentShape) -> int:
        """Values, keys, queries and the gate."""
        return self.convolved(shape) + shape.inner

    def small_params(self, shape: RecurrentShape) -> int:
        """The norm before the output."""
        return shape.inner
