"""The server's answer in closed form: running batch, throughput and latencies over any number of loads at once.

Open loop: the chain of `perfmodel.serving.chain`. Closed loop: C clients, each decoding a share f of the time, see
(C - 1) f others decode and their prompts arrive, so that

    s = T(1 + (C - 1) f) + (C - 1) f A / (D - 1) tau        f = decoding / (decoding + TTFT), decoding = (D - 1) s / A

(the arrival theorem of Reiser and Lavenberg 1980: a client sees the system of C - 1).
"""

from dataclasses import dataclass, fields

import numpy as np

from perfmodel.operations import Array
from perfmodel.serving.chain import capacity, occupancy, prompts_per_pass
from perfmodel.serving.latency import as_passes_end, at_any_time, first_token, per_token
from perfmodel.serving.load import Lengths, Limits, Load
from perfmodel.serving.moments import Moments, mixed, sometimes
from perfmodel.serving.steps import StepTimes

BLOCK = 512
"""Loads answered at once: memory stays flat beside the result."""
HALVINGS = 30
REGULAR = 1.0 / 6.0
"""Variance over mean of the prompts that a client meets: each other one sends about once while it decodes."""


@dataclass(frozen=True, slots=True)
class Served:
    """Over ``[load]``. Times in seconds, of requests; saturated: more arrives than is served, and TTFT has no end.

    running: requests that decode, mean over time. kv_share: of the KV room. share: of time by n, over ``[load, n]``.
    """

    running: Array
    requests_per_s: Array
    saturated: Array
    kv_share: Array
    ttft: Moments
    tpot: Moments
    e2e: Moments
    saturation_rate: float
    share: Array


def serve(steps: StepTimes, load: Load, limits: Limits, spread: float = 0.0) -> Served:
    """Answer every load at one draft length. spread: standard deviation of acceptance between requests."""
    given = np.atleast_1d(np.asarray(load.rate if load.clients is None else load.clients, float))
    answer = _open if load.clients is None else _closed
    parts = [answer(steps, load, limits, spread, given[at : at + BLOCK]) for at in range(0, given.size, BLOCK)]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _open(steps: StepTimes, load: Load, limits: Limits, spread: float, rate: Array) -> Served:
    lengths = load.lengths
    most, at = capacity(steps, lengths, limits)
    o = occupancy(steps, lengths, rate, most, load.burstiness)
    served = np.minimum(rate, most)
    n = np.arange(o.share.shape[1], dtype=float)
    burst = (1.0 + 1.0 / load.burstiness) / 2.0  # Allen and Cunneen: waiting grows with the variance of gaps
    per_pass = prompts_per_pass(steps, lengths, limits, n)
    meeting = at_any_time(steps, lengths, n, served * burst, o.share, per_pass)
    ttft = first_token(steps, lengths, n, o.share, per_pass, meeting)
    with np.errstate(invalid="ignore"):
        room = o.waiting / served * burst
    chance = np.clip(o.full, 1e-12, 1.0)
    ttft = ttft + sometimes(np.where(room > 0, chance, 0.0), np.where(room > 0, np.minimum(room, 1e12) / chance, 0.0))
    running = np.where(o.saturated, float(at), o.running)
    mean = running / served / lengths.decoded
    busy = o.share[:, 1:] * n[1:]  # as a request sees it: by the requests that are there
    busy = busy / np.maximum(busy.sum(1, keepdims=True), 1e-300)
    typical = np.sum(busy * o.pass_s, 1)
    batch = mixed(busy, Moments(o.pass_s / np.maximum(typical, 1e-300)[:, None]))
    prompts = served * mean * lengths.decoded
    prompts = Moments(prompts, prompts * burst, prompts)
    tpot = per_token(steps, lengths, mean, prompts, steps.prompt_at(np.maximum(running, 1.0)), batch, spread)
    return _served(steps, lengths, running, served, o.saturated, ttft, tpot, most, o.share)


def _closed(steps: StepTimes, load: Load, limits: Limits, spread: float, clients: Array) -> Served:
    lengths, gained = load.lengths, steps.tokens_per_iteration
    most, _ = capacity(steps, lengths, limits)
    inside = np.minimum(clients, float(steps.seats))
    low, high = np.zeros_like(inside), np.ones_like(inside)
    for _ in range(HALVINGS):
        share = (low + high) / 2.0
        decoding, ttft, _ = _cycle(steps, lengths, limits, inside, share)
        over = share * (decoding + ttft.mean) > decoding
        high, low = np.where(over, share, high), np.where(over, low, share)
    decoding, ttft, batch = _cycle(steps, lengths, limits, inside, share)
    served = inside / (decoding + ttft.mean)
    room = (clients - inside) / served
    ttft = ttft + Moments(room, np.square(0.1 * room))
    others = (inside - 1.0) * share
    mean = decoding / lengths.decoded
    prompts = Moments(others, REGULAR * others)
    tpot = per_token(steps, lengths, mean, prompts, steps.prompt_at(batch), Moments(1.0), spread)
    n = np.arange(steps.seats + 1.0)
    near = np.clip(1.0 - np.abs(n - (inside * share)[:, None]), 0.0, 1.0)
    return _served(steps, lengths, inside * share, served, np.zeros(clients.shape, bool), ttft, tpot, most, near)


def _cycle(
    steps: StepTimes, lengths: Lengths, limits: Limits, clients: Array, share: Array
) -> tuple[Array, Moments, Array]:
    """Seconds that a client decodes, its time to the first token, and the batch it decodes in, at a share of time."""
    others = (clients - 1.0) * share
    batch = 1.0 + others
    ends = others * steps.tokens_per_iteration / lengths.decoded  # others that end in a pass, each followed by a prompt
    pass_s = steps.decode_at(batch) + ends * steps.prompt_at(batch)
    decoding = lengths.decoded * pass_s / steps.tokens_per_iteration
    alone = (1.0 - share) ** (clients - 1.0)  # no one else decodes
    seen = np.stack([alone, 1.0 - alone], -1)
    around = np.stack([np.zeros_like(others), np.maximum(others, 1.0)], -1)
    per_pass = prompts_per_pass(steps, lengths, limits, around)
    meeting = as_passes_end(steps, lengths, around, others / decoding, seen, per_pass)
    return decoding, first_token(steps, lengths, around, seen, per_pass, meeting), batch


def _served(
    steps: StepTimes,
    lengths: Lengths,
    running: Array,
    served: Array,
    saturated: Array,
    ttft: Moments,
    tpot: Moments,
    most: float,
    share: Array,
) -> Served:
    mean, variance = lengths.decoded, lengths.output_std**2
    # a product of two independent times: tokens and seconds of each
    e2e = Moments(mean * tpot.mean, mean**2 * tpot.variance + variance * (tpot.mean**2 + tpot.variance), mean**3 * tpot.third)
    return Served(
        running, served, saturated, np.minimum(running * steps.kv_share, 1.0), ttft, tpot, ttft + e2e, most, share
    )


def _joined(parts: list[Served]) -> Served:
    def whole(name: str) -> object:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Moments):
            sizes = [part.running.shape for part in parts]
            return Moments(*(
                np.concatenate([np.broadcast_to(getattr(v, f.name), s) for v, s in zip(values, sizes, strict=True)])
                for f in fields(Moments)
            ))
        return values[0] if isinstance(values[0], float) else np.concatenate(values)

    return Served(*(whole(f.name) for f in fields(Served)))  # type: ignore[arg-type]
