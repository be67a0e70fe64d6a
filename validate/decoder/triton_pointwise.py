"""The small steps of a pass as three Triton kernels: residual and norm, heads into place, SiLU times up.

Each reads and writes every value once and rounds where `Pointwise` does, except products inside a rotation.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.fp8 import FP8, LEAST_PEAK
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.pointwise import Pointwise

BLOCK = 1024
"""Values per program of `_silu_mul`."""
WARPS = 4
"""Warps of a program for a row or a stretch of one."""
HEAD_WARPS = 1
"""Warps of a program for one head."""
EXPERT_BLOCK = 32, 128
"""Outputs and inputs of an expert that a program multiplies at a time."""
MAX_EXPERT_ROWS = 512
"""Most rows of a decoding pass. More rows (prefill) use a grouped product, and are in no graph."""


@triton.jit
def _add_norm(  # type: ignore[no-untyped-def]
    x_at, residual_at, weight_at, total_at, out_at, eps, HIDDEN: tl.constexpr, BLOCK: tl.constexpr
):
    """Program (row): total = residual + x, out = its norm."""
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    d = tl.arange(0, BLOCK)
    inside = d < HIDDEN
    x = tl.load(x_at + row + d, mask=inside, other=0.0).to(tl.float32)
    residual = tl.load(residual_at + row + d, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_at + d, mask=inside).to(tl.float32)
    rounded = (residual + x).to(total_at.dtype.element_ty)
    total = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(total * total, axis=0) / HIDDEN + eps)
    tl.store(total_at + row + d, rounded, mask=inside)
    tl.store(out_at + row + d, (total * scale * weight).to(out_at.dtype.element_ty), mask=inside)


@triton.jit
def _silu_mul(gate_up_at, out_at, INNER: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (row, stretch): SiLU of the first half of a row times the second half."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < INNER
    gate = tl.load(gate_up_at + row * 2 * INNER + at, mask=inside).to(tl.float32)
    up = tl.load(gate_up_at + row * 2 * INNER + INNER + at, mask=inside).to(tl.float32)
    gated = (gate / (1.0 + tl.exp(-gate))).to(out_at.dtype.element_ty).to(tl.float32)
    tl.store(out_at + row * INNER + at, (gated * up).to(out_at.dtype.element_ty), mask=inside)


@triton.jit
def _e4m3(x):  # type: ignore[no-untyped-def]
    """The nearest fp8 value, at most 448, of a float32, by arithmetic, because the interpreter rounds
    conversions wrongly.

    Three bits of the fraction are kept; below 2^-6 multiples of 2^-9, which are the units of 1.5 x 2^14.
    """
    x = tl.minimum(tl.maximum(x, -448.0), 448.0)
    word = x.to(tl.int32, bitcast=True)
    kept = ((word + 0x7FFFF + ((word >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(x) < 0.015625, (x + 24576.0) - 24576.0, kept)


@triton.jit
def _rows_to_fp8(  # type: ignore[no-untyped-def]
    x_at, codes_at, scale_at, K: tl.constexpr, BLOCK: tl.constexpr, LEAST: tl.constexpr
):
    """Program (row): the scale that maps its largest value to 448, and its codes."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), LEAST, tl.float32)
    for start in range(0, K, BLOCK):
        x = tl.load(x_at + row * K + start + d, mask=start + d < K, other=0.0).to(tl.float32)
        peak = tl.maximum(peak, tl.abs(x))
    scale = tl.max(peak, axis=0) / 448.0
    tl.store(scale_at + row, scale)
    for start in range(0, K, BLOCK):
        inside = start + d < K
        x = tl.load(x_at + row * K + start + d, mask=inside).to(tl.float32)
        tl.store(codes_at + row * K + start + d, _e4m3(x / scale).to(tl.float8e4nv), mask=inside)


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
    """Program (token of a sequence, head): one head normed, rotated and written to its place.

    Both numbers have 64 bits, because offsets in a cache of a million tokens exceed 32.
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
        partner = tl.where(d < HALF, d + HALF, tl.where(d < 2 * HALF, d - HALF, d))
        one = x.to(tl.float32)
        other = tl.load(at + partner, mask=inside).to(tl.float32)
        if NORM:
            norm_at = q_norm_at if head < HEADS else k_norm_at
            scale = tl.rsqrt(tl.sum(one * one, axis=0) / D + eps)
            one *= scale * tl.load(norm_at + d, mask=inside).to(tl.float32)
            other *= scale * tl.load(norm_at + partner, mask=inside).to(tl.float32)
            one = one.to(kind).to(tl.float32)
            other = other.to(kind).to(tl.float32)
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
    """Program (layer and sequence, token, KV head): one key or value from its place to its slot."""
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


@triton.jit
def _expert_rows(  # type: ignore[no-untyped-def]
    x_at,
    weight_at,
    expert_at,
    out_at,
    K: tl.constexpr,
    M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """Program (row, stretch of outputs): a row times the matrix [M, K] of its expert."""
    row = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    weights = weight_at + tl.load(expert_at + row) * M * K + m[:, None].to(tl.int64) * K
    total = tl.zeros((BLOCK_M,), tl.float32)
    there = m < M
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < K
        x = tl.load(x_at + row * K + k, mask=inside, other=0.0).to(tl.float32)
        part = tl.load(weights + k[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(part.to(tl.float32) * x[None, :], axis=1)
    tl.store(out_at + row * M + m, total.to(out_at.dtype.element_ty), mask=there)


def norm_warps(block: int) -> int:
    """Warps of `_add_norm`: one for 512 values, at most 8."""
    return min(8, max(1, block // 512))


def rows_to_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales [rows, 1] of x [rows, k], as `fp8.by_row` in one kernel."""
    codes = torch.empty(x.shape, dtype=FP8, device=x.device)
    scale = torch.empty(len(x), 1, dtype=torch.float32, device=x.device)
    _rows_to_fp8[(len(x),)](
        x.contiguous(), codes, scale, K=x.shape[1], BLOCK=BLOCK, LEAST=LEAST_PEAK, num_warps=WARPS
    )
    return codes, scale


class Fused(Pointwise):
    """The kernels. They have no gradients."""

    name = "triton"

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        residual = residual.contiguous()
        hidden = x.shape[-1]
        total = torch.empty_like(x)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(hidden)
        _add_norm[(x.numel() // hidden,)](
            x,
            residual,
            weight,
            total,
            out,
            eps,
            HIDDEN=hidden,
            BLOCK=block,
            num_warps=norm_warps(block),
        )
        return total, out

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        inner = gate_up.shape[-1] // 2
        gate_up = gate_up.contiguous()
        out = gate_up.new_empty(*gate_up.shape[:-1], inner)
        _silu_mul[(out.numel() // inner, triton.cdiv(inner, BLOCK))](
            gate_up, out, INNER=inner, BLOCK=BLOCK, num_warps=WARPS
        )
        return out

    def rotate(
        self, given: Projected, out: tuple[Tensor, Tensor] | None, slots: Slots | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer = given.layer
        qkv = given.qkv.contiguous()
        batch, n, _ = qkv.shape
        heads = layer.heads
        kv_heads = layer.kv_heads
        d = layer.head_dim
        cosine, sine = given.turns
        q = qkv.new_empty(batch, heads, n, d)
        k, v = out or qkv.new_empty(2, batch, kv_heads, n, d)
        cache_k, cache_v, _, where = slots or (k, v, None, q)  # not touched where there is no cache
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
            ROUNDED=self.fp8,
            num_warps=HEAD_WARPS,
        )
        return q, k, v

    def copy_tokens(self, source: Tensor, places: Tensor, into: Tensor, slots: Tensor) -> None:
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
            num_warps=HEAD_WARPS,
        )

    def by_expert(
        self, rows: Tensor, weights: Tensor, experts: Tensor, scale: Tensor | None = None
    ) -> Tensor:
        """See `Pointwise`. For few rows, because before Hopper torch's grouped product copies to the host.

        From Hopper on, fp8 is multiplied directly, each row with its own scale. Before, the weights of few
        rows are widened in registers.
        """
        hopper = rows.is_cuda and torch.cuda.get_device_capability(rows.device)[0] >= 9
        if hopper and scale is not None:
            codes, row_scales = rows_to_fp8(rows)
            ends = torch.searchsorted(experts, torch.arange(len(weights), device=experts.device), right=True)
            return torch._scaled_grouped_mm(
                codes,
                weights.transpose(1, 2),
                row_scales[:, 0],
                scale,
                offs=ends.to(torch.int32),
                out_dtype=rows.dtype,
            )
        if len(rows) > MAX_EXPERT_ROWS or hopper:
            return super().by_expert(rows, weights, experts, scale)
        (m, k), out = weights.shape[1:], rows.new_empty(len(rows), weights.shape[1])
        _expert_rows[(len(rows), triton.cdiv(m, EXPERT_BLOCK[0]))](
            rows.contiguous(),
            weights,
            experts,
            out,
            K=k,
            M=m,
            BLOCK_M=EXPERT_BLOCK[0],
            BLOCK_K=EXPERT_BLOCK[1],
            num_warps=WARPS,
        )
        if scale is None:
            return out
        return (out * scale[experts]).to(rows.dtype)
