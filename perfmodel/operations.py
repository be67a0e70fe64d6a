"""FLOPs and bytes of an operation of a forward pass, and the numeric types of all formulas."""

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
"""Kinds of attention heads for which engines have separate kernels: with attention sinks, of more than
`WIDE_HEAD` values, or of a latent cache (MLA).
"""
WIDE_HEAD = 256
"""Values of a head above which FlashAttention has no kernel (vLLM 0.17, flash_attn.py:152)."""


class Cost(Immutable):
    """FLOPs and bytes on one device. Fields broadcast over ``[batch, context, query]``.

    flops: multiply and add count as 2, in matrix products and attention only (element-wise FLOPs never limit
    a pass). weight_bytes: parameters read. kv_bytes: cached keys and values read. activation_bytes: all other
    moved bytes: inputs and outputs of each op and the new tokens' keys and values.
    """

    flops: Floats = 0.0
    weight_bytes: Floats = 0.0
    kv_bytes: Floats = 0.0
    activation_bytes: Floats = 0.0

    @property
    def bytes(self) -> Floats:
        """All bytes moved."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes


def summed(values: Sequence[Floats]) -> Floats:
    """The sum of values that broadcast, smaller arrays first. No input is changed."""
    total: Floats = 0.0
    arrays = list[Array]()
    for each in values:
        if isinstance(each, np.ndarray):
            arrays.append(each)
        else:
            total = total + each
    for each in sorted(arrays, key=attrgetter("size")):
        if isinstance(total, np.ndarray) and total.shape == each.shape:
            total += each  # into the array that the line below made
        else:
            total = total + each
    return total
