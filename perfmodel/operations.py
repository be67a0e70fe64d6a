"""The FLOPs and bytes of an operation of a forward pass, and the numeric types that all formulas use."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfmodel.immutable import Immutable

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Floats = Array | float
Head = Literal["usual", "sinks", "wide", "latent"]
"""Kinds of attention heads for which engines have separate kernels: usual heads, heads with attention sinks,
heads of more than `WIDE_HEAD` values, and heads over a latent cache (MLA).
"""
WIDE_HEAD = 256
"""Largest number of values of a head for which FlashAttention has a kernel (vLLM 0.17, flash_attn.py:152)."""


class Cost(Immutable):
    """The FLOPs and bytes of an operation on one device. The fields broadcast over ``[batch, context,
    query]``.

    - flops: FLOPs of matrix products and attention. A multiplication and an addition count as 2. Element-wise
      FLOPs are not counted, because they never limit a pass.
    - weight_bytes: bytes of parameters that are read.
    - kv_bytes: bytes of cached keys and values that are read.
    - activation_bytes: all other moved bytes. These are the inputs and outputs of the operation, and the keys
      and values of new tokens.
    """

    flops: Floats = 0.0
    weight_bytes: Floats = 0.0
    kv_bytes: Floats = 0.0
    activation_bytes: Floats = 0.0

    @property
    def bytes(self) -> Floats:
        """All bytes that the operation moves."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes


def summed(values: Sequence[Floats]) -> Floats:
    """The sum of values that broadcast. Smaller arrays are added first. No input is changed."""
    total: Floats = 0.0
    arrays = list[Array]()
    for each in values:
        if isinstance(each, np.ndarray):
            arrays.append(each)
        else:
            total = total + each
    for each in sorted(arrays, key=attrgetter("size")):
        if isinstance(total, np.ndarray) and total.shape == each.shape:
            total += each  # the line below created this array, so no input changes
        else:
            total = total + each
    return total
