"""The draft reads the whole cache in fewer bits per value."""

from perfmodel.kv.base import KVLayout, KVMethod, Step
from perfmodel.operations import Floats

SCALE_BYTES = 4.0
"""A scale and a zero point of one group, fp16 each."""


class Quantized(KVMethod):
    """Reads every cached token from a copy with `bits` bits per value. Each group of `group` values has a
    scale and a zero point.

    - bits: the default of 4 is from Tiwari et al. 2025 (QuantSpec).
    - group: number of values. By default, a group is one head's key or value.
    - shared: whether the target reads the same codes and further bits. Only the scales then need additional
      memory.
    """

    source = "Tiwari et al. 2025 (QuantSpec), arXiv 2502.10424"
    example = "quantized,bits=4"
    aliases = ("quant", "quantspec", "quantised")

    bits: float = 4.0
    group: int | None = None
    shared: bool = False

    budget = None

    def __post_init__(self) -> None:
        self.check("bits", 1 <= self.bits <= 16, "a number of bits in [1, 16]")
        self.check("group", self.group is None or self.group >= 1, "1 or more values")

    def read_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the codes (S * values * bits/8) and of the scales."""
        return context * (layout.values_per_token * self.bits / 8.0 + self._scales(layout))

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Reads the cache, finds the range of each group (two comparisons per value), scales and rounds the
        values, and writes the copy.
        """
        values = context * layout.values_per_token
        return Step(4.0 * values, values * layout.bytes_per_value + self.read_bytes(context, layout), 1.0)

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the copy, or only of its scales if the target shares the codes."""
        if self.shared:
            return context * self._scales(layout)
        return self.read_bytes(context, layout)

    def own_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the codes and scales."""
        return self.read_bytes(context, layout)

    def _scales(self, layout: KVLayout) -> float:
        return layout.values_per_token / (self.group or layout.head_dim) * SCALE_BYTES
