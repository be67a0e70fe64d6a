"""Copies tokens from places in one KV cache to slots of another."""

import triton
import triton.language as tl
from torch import Tensor

WARPS = 1
"""Number of warps of a program, which copies one head."""


@triton.jit
def _copy_tokens(  # type: ignore[no-untyped-def]
    from_at,
    into_at,
    places_at,
    slots_at,
    from_l,
    from_b,
    from_h,
    from_s,
    into_l,
    into_b,
    into_h,
    into_s,
    tokens,
    BATCH: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Program (layer and sequence, token, KV head): copies one key or value from its place to its slot.

    - from: [layers, BATCH, HEADS, places, D], with strides.
    - into: [layers, BATCH, HEADS, slots, D], with strides.
    - places, slots: the place and the slot of each token, [BATCH, tokens].
    - BLOCK: at least D.
    """
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1)
    h = tl.program_id(2).to(tl.int64)
    layer = row // BATCH
    b = row % BATCH
    d = tl.arange(0, BLOCK)
    place = tl.load(places_at + b * tokens + j)
    slot = tl.load(slots_at + b * tokens + j)
    inside = d < D
    x = tl.load(from_at + layer * from_l + b * from_b + h * from_h + place * from_s + d, mask=inside)
    tl.store(into_at + layer * into_l + b * into_b + h * into_h + slot * into_s + d, x, mask=inside)


def copy_tokens(source: Tensor, places: Tensor, into: Tensor, slots: Tensor) -> None:
    """See `Pointwise.copy_tokens`."""
    layers, batch, heads, _, d = source.shape
    count = places.shape[1]
    strides = (*source.stride()[:4], *into.stride()[:4])
    _copy_tokens[(layers * batch, count, heads)](
        source,
        into,
        places.contiguous(),
        slots.contiguous(),
        *strides,
        count,
        BATCH=batch,
        HEADS=heads,
        D=d,
        BLOCK=triton.next_power_of_2(d),
        num_warps=WARPS,
    )
