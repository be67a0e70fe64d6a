"""Selects the units (pages or tokens) with the largest scores."""

import triton
import triton.language as tl

from perfmodel.validate.decoder.kernels.split_kv import UNSEEN

SEARCHED = 8192
"""Largest number of scores per step of the search."""
WARPS = 16
"""Number of warps of a program, which searches the scores of one KV head."""
LEAST = tl.constexpr(-(2**31))
"""The smallest integer that `_ordered` returns. It marks units beyond the end."""


@triton.jit
def _ordered(vote_at, t, units):  # type: ignore[no-untyped-def]
    """Integers for the units `t` that have the same order as the votes, which are floats. Units beyond the
    end have the smallest integer.
    """
    bits = tl.load(vote_at + t, mask=t < units).to(tl.int32, bitcast=True)
    return tl.where(t < units, tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits), LEAST)


@triton.jit
def _vote(  # type: ignore[no-untyped-def]
    score_at, vote_at, lse_at, length, pair, units, tiles, ROWS: tl.constexpr, PAD: tl.constexpr
):
    """Stores the vote of each unit: the sum of its attention weights over all rows, or -1 beyond the
    length.
    """
    rows = tl.arange(0, PAD)
    top = tl.full((PAD,), UNSEEN, tl.float32)
    total = tl.zeros((PAD,), tl.float32)
    for tile in range(tiles):
        lse = tl.load(lse_at + (pair * tiles + tile) * ROWS + rows, mask=rows < ROWS, other=UNSEEN)
        higher = tl.maximum(top, lse)
        total = total * tl.exp(top - higher) + tl.exp(lse - higher)
        top = higher
    whole = top + tl.log(total)
    for start in range(0, units, 64):
        t = start + tl.arange(0, 64)
        there = (rows < ROWS)[:, None] & (t < length)[None, :]
        score = tl.load(
            score_at + (pair * ROWS + rows[:, None]) * units + t[None, :], mask=there, other=UNSEEN
        )
        vote = tl.sum(tl.where(there, tl.exp(score - whole[:, None]), 0.0), axis=0)
        tl.store(vote_at + pair * units + t, tl.where(t < length, vote, -1.0), mask=t < units)


@triton.jit
def _threshold(vote_at, units, COUNT: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The largest integer that at least COUNT units reach. The search finds two bits of this integer per
    step.

    Each step counts the units that reach each of three values. One 64-bit sum contains the three counts, with
    21 bits each.
    """
    low = tl.full((), LEAST, tl.int64)
    for done in range(0, 32, 2):
        step = tl.full((), 1, tl.int64) << (30 - done)
        reach = tl.zeros((), tl.int64)
        for start in range(0, units, TILE):
            key = _ordered(vote_at, start + tl.arange(0, TILE), units)
            counts = tl.zeros((TILE,), tl.int64)
            for nth in tl.static_range(1, 4):
                counts += (key >= (low + nth * step).to(tl.int32)).to(tl.int64) << 21 * (nth - 1)
            reach += tl.sum(counts, axis=0)
        for nth in tl.static_range(3):
            low += tl.where(((reach >> 21 * nth) & 0x1FFFFF) >= COUNT, step, 0)
    return low.to(tl.int32)


@triton.jit
def _best(  # type: ignore[no-untyped-def]
    score_at,
    vote_at,
    lse_at,
    lengths_at,
    index_at,
    units,
    tiles,
    HEADS: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    COUNT: tl.constexpr,
    TILE: tl.constexpr,
    VOTES: tl.constexpr,
):
    """Program (sequence x KV head): stores the numbers of the COUNT units with the largest votes, in rising
    order. If units have equal votes, the first ones are selected.

    - vote: [sequences x HEADS, units] float32. If VOTES, the program first computes and stores the votes.
    - score, lse: the results of `_token_scores`; read if VOTES.
    - lengths: [sequences], the numbers of cached tokens; read if VOTES.
    - index: [sequences x HEADS, COUNT] int32, the stored numbers.
    - TILE: the number of votes that are read at a time.
    - PAD: a power of two, at least ROWS.
    """
    pair = tl.program_id(0).to(tl.int64)
    if VOTES:
        length = tl.load(lengths_at + pair // HEADS).to(tl.int32)
        _vote(score_at, vote_at, lse_at, length, pair, units, tiles, ROWS, PAD)
        tl.debug_barrier()
    vote_at = vote_at + pair * units
    low = _threshold(vote_at, units, COUNT, TILE)
    above = tl.zeros((), tl.int32)
    index_at = index_at + pair * COUNT
    for start in range(0, units, TILE):
        above += tl.sum((_ordered(vote_at, start + tl.arange(0, TILE), units) > low).to(tl.int32), axis=0)
    taken = tl.zeros((), tl.int32)
    equal = tl.zeros((), tl.int32)
    for start in range(0, units, TILE):
        t = start + tl.arange(0, TILE)
        key = _ordered(vote_at, t, units)
        same = (key == low).to(tl.int32)
        take = ((key > low) | ((same != 0) & (equal + tl.cumsum(same, axis=0) <= COUNT - above))).to(tl.int32)
        tl.store(index_at + (taken + tl.cumsum(take, axis=0) - 1), t, mask=take != 0)
        taken += tl.sum(take, axis=0)
        equal += tl.sum(same, axis=0)
