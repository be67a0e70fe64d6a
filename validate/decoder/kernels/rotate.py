"""Normalises and rotates the heads of a projection, and writes keys and values to the cache."""

import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.kernels.fp8_rows import _e4m3
from perfmodel.validate.decoder.model import Projected

WARPS = 1
"""Number of warps of a program, which computes one head."""


@triton.jit
def _rotate(  # type: ignore[no-untyped-def]
    qkv_at,
    cosine_at,
    sine_at,
    q_norm_at,
    k_norm_at,
    q_at,
    k_at,
    v_at,
    cache_k_at,
    cache_v_at,
    slots_at,
    k_b,
    k_h,
    k_s,
    v_b,
    v_h,
    v_s,
    cache_b,
    cache_h,
    cache_s,
    queries,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    NORM: tl.constexpr,
    CACHED: tl.constexpr,
    ROUNDED: tl.constexpr,
):
    """Program (token of a sequence, head): normalises, rotates and writes one head. Heads of values are only
    written.

    - qkv: [batch x queries, HEADS + 2 x KV_HEADS, D], contiguous: the heads of queries, keys and values.
    - cosine, sine: [batch x queries, HALF]. Dimensions i and i + HALF are rotated as a pair. Dimensions from
      2 x HALF on are not rotated.
    - q_norm, k_norm: [D], read if NORM.
    - q: [batch, HEADS, queries, D], contiguous.
    - k, v: [batch, KV_HEADS, queries, D], with strides; rounded to fp8 if ROUNDED.
    - cache_k, cache_v: [batch, KV_HEADS, slots, D], with strides. If CACHED, keys and values are also written
      to these caches, at `slots` [batch x queries].
    - BLOCK: at least D.

    `token` and `head` are 64-bit integers, because offsets in a cache of a million tokens exceed 32 bits.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    b = token // queries
    j = token % queries
    d = tl.arange(0, BLOCK)
    inside = d < D
    at = qkv_at + (token * (HEADS + 2 * KV_HEADS) + head) * D
    x = tl.load(at + d, mask=inside, other=0.0)
    if head < HEADS + KV_HEADS:
        kind = x.dtype
        # each dimension and its partner in the rotation; a dimension that is not rotated is its own partner
        partner = tl.where(d < HALF, d + HALF, tl.where(d < 2 * HALF, d - HALF, d))
        one = x.to(tl.float32)
        other = tl.load(at + partner, mask=inside).to(tl.float32)
        # one scale for the head; the type of the model rounds between the two steps, as in plain torch
        if NORM:
            norm_at = q_norm_at if head < HEADS else k_norm_at
            scale = tl.rsqrt(tl.sum(one * one, axis=0) / D + eps)
            one *= scale * tl.load(norm_at + d, mask=inside).to(tl.float32)
            other *= scale * tl.load(norm_at + partner, mask=inside).to(tl.float32)
            one = one.to(kind).to(tl.float32)
            other = other.to(kind).to(tl.float32)
        # a dimension that is not rotated has cosine 1 and sine 0
        turns = d < 2 * HALF
        cosine = tl.load(cosine_at + token * HALF + d % HALF, mask=turns, other=1.0).to(tl.float32)
        sine = tl.load(sine_at + token * HALF + d % HALF, mask=turns, other=0.0).to(tl.float32)
        x = (one * cosine + tl.where(d < HALF, -other, other) * sine).to(kind)
    if head < HEADS:
        tl.store(q_at + ((b * HEADS + head) * queries + j) * D + d, x, mask=inside)
    else:
        if ROUNDED:
            x = _e4m3(x.to(tl.float32)).to(x.dtype)
        is_key = head < HEADS + KV_HEADS
        h = head - HEADS if is_key else head - HEADS - KV_HEADS
        if is_key:
            place = b * k_b + h * k_h + j * k_s
        else:
            place = b * v_b + h * v_h + j * v_s
        tl.store((k_at if is_key else v_at) + place + d, x, mask=inside)
        if CACHED:
            slot = tl.load(slots_at + token)
            cache_at = cache_k_at if is_key else cache_v_at
            tl.store(
                cache_at + b * cache_b + h * cache_h + slot * cache_s + d,
                x.to(cache_at.dtype.element_ty),
                mask=inside,
            )


def rotate(
    given: Projected, out: tuple[Tensor, Tensor] | None, slots: Slots | None, fp8: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """See `Projected.rotate`.

    - fp8: whether keys and values are rounded to fp8.
    """
    layer = given.layer
    qkv = given.qkv.contiguous()
    batch, n, _ = qkv.shape
    heads = layer.heads
    kv_heads = layer.kv_heads
    d = layer.head_dim
    cosine, sine = given.turns
    q = qkv.new_empty(batch, heads, n, d)
    k, v = out or qkv.new_empty(2, batch, kv_heads, n, d)
    cache_k, cache_v, _, where = slots or (k, v, None, q)  # not used without a cache
    norms = layer.q_norm is not None
    q_norm, k_norm = (layer.q_norm, layer.k_norm) if norms else (q, q)  # not read without norms
    strides = (*k.stride()[:3], *v.stride()[:3], *cache_k.stride()[:3])
    grid = (batch * n, heads + 2 * kv_heads)
    _rotate[grid](
        qkv,
        cosine.contiguous(),
        sine.contiguous(),
        q_norm,
        k_norm,
        q,
        k,
        v,
        cache_k,
        cache_v,
        where.contiguous(),
        *strides,
        n,
        layer.eps,
        HEADS=heads,
        KV_HEADS=kv_heads,
        D=d,
        HALF=cosine.shape[-1],
        BLOCK=triton.next_power_of_2(d),
        NORM=norms,
        CACHED=slots is not None,
        ROUNDED=fp8,
        num_warps=WARPS,
    )
    return q, k, v
