"""Drawn servers and loads: every number of the closed form and of the replay is as it was.

``python tests/queueing/test_numbers.py`` writes numbers.json anew, whose difference shows what moved.
"""

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.closed_form import mean_tpot_s, serve
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.policies.table import by_batch
from perfmodel.queueing.prefill_time import PrefillTime, prompt_s_of
from perfmodel.queueing.prefix import CachedPrompts, HitLaw, Reuse
from perfmodel.queueing.replay import replay
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.sessions import draw, sharing
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.engines.served_requests import PassOrder

KEPT = Path(__file__).with_name("numbers.json")
SERVERS = 60
LOADS = np.array([0.2, 0.7, 0.97, 1.1])
"""Shares of saturation."""


def prefill_of(draws: Random) -> PrefillTime:
    """Of prompts up to 16384 tokens."""
    longest_s = draws.uniform(0.2, 0.5)
    token_s = draws.uniform(1e-6, 1e-5)
    pass_s = draws.choice((0.0, 0.003))
    order = PassOrder.ALTERNATING if draws.random() < 0.3 else PassOrder.MIXED
    return PrefillTime(
        tokens=np.array([1.0, 300.0, 16384.0]),
        seconds=np.array([0.0, 0.006, longest_s]),
        token_s=token_s,
        pass_s=pass_s,
        cached_s=1e-10,
        order=order,
    )


def server(draws: Random, lengths: Lengths, limits: Limits, gamma: int, seats: int) -> StepTimes:
    """Passes of two slopes, prompts that share what a pass loads anyway."""
    seats = min(seats, (limits.max_num_batched_tokens - 1) // (gamma + 1))
    n = np.arange(1.0, seats + 1)
    fixed_s = draws.uniform(0.004, 0.02) * (1 + 0.1 * gamma)
    sequence_s = draws.uniform(1e-5, 8e-4)
    steeper_s = draws.uniform(0, 1e-3)
    crowded = np.maximum(n - seats // 3, 0)
    decode = fixed_s + sequence_s * n + steeper_s * crowded
    prefill = prefill_of(draws)
    gained = 1.0 + gamma * min(draws.uniform(0.3, 1.2), 1.0)
    decoding = n * (gamma + 1.0)
    ending = n * gained / lengths.decoded
    left = limits.max_num_batched_tokens - decoding
    passes = np.full(seats, 1.4)
    prompt_s = prompt_s_of(prefill, left, decoding, ending, passes, lengths.input_mean)
    kv_share = draws.uniform(0.3, 1.1) / seats
    own_s = draws.choice((0.0, 0.004, 0.03))
    passes_ahead = draws.choice((0.0, 0.5, 1.0))
    return StepTimes(
        gamma=gamma,
        tokens_per_iteration=gained,
        decode_s=decode,
        prompt_s=prompt_s,
        seats=seats,
        kv_share=kv_share,
        own_s=own_s,
        passes_ahead=passes_ahead,
        prefill=prefill,
    )


@dataclass(frozen=True)
class Drawn:
    """A drawn server with its load. most: requests per second that it can serve."""

    seed: int
    steps: StepTimes
    lengths: Lengths
    limits: Limits
    seats: int
    most: float
    seat: float
    bursts: float
    think_s: float


def drawn(seed: int) -> Drawn:
    """A server of one or two draft lengths; some read prompts again that a cache keeps."""
    draws = Random(seed)
    tokens = draws.uniform(60, 4000)
    seats = draws.choice((1, 3, 12, 40, 90))
    output = draws.uniform(3, 300)
    input_std = draws.choice((0, 0.4)) * tokens
    lengths = Lengths(tokens, output, input_std, draws.choice((0.0, 20.0)))
    max_seqs = draws.choice((seats, 256))
    limits = Limits(max_seqs, draws.choice((512, 2048, 8192)))
    gamma = draws.choice((0, 0, 1, 3, 7))
    steps = server(draws, lengths, limits, gamma, seats)
    if seed % 3 == 1:
        steps = replace(steps, cached=cached_of(steps, lengths, seed, draws.choice((0.0, 2.0))))
    if seed % 4 == 2:  # two lengths, by the running batch
        other = server(draws, lengths, limits, 5, seats)
        slower = min(capacity(each, lengths, limits).requests_per_s for each in (steps, other))
        steps = by_batch([steps, other], lengths, 0.8 * slower).steps
    most, seat = capacity(steps, lengths, limits)
    bursts = draws.choice((0.3, 1.0, 4.0))
    think_s = draws.choice((0.0, 1.5))
    return Drawn(seed, steps, lengths, limits, seats, most, float(seat), bursts, think_s)


def cached_of(steps: StepTimes, lengths: Lengths, seed: int, think_s: float) -> CachedPrompts:
    """What a cache keeps of sessions with a common beginning."""
    reuse = Reuse(lengths, 0.4 * lengths.input_mean, 0.7, 1 + seed % 4, 55.0, think_s)
    law = HitLaw(16, seed % 2)
    asks = steps.decode_s + steps.prompt_s
    kv_tokens = 1.7 / steps.kv_share
    return reuse.cached(law, kv_tokens, lengths, asks)


def numbers(seed: int) -> dict[str, list[float]]:
    """The figures of one drawn server: of the closed form, then of replays."""
    one = drawn(seed)
    clients = np.array([1.0, 2.0, 0.6 * one.seats + 1, 1.2 * one.seats, 5.0 * one.seats])
    open_loop = Load(one.lengths, rate=LOADS * one.most, burstiness=one.bursts)
    closed_loop = Load(one.lengths, clients=clients, think_s=one.think_s)
    closed_form = {
        "capacity": [one.most, one.seat],
        "open": predicted(one.steps, open_loop, one.limits),
        "closed": predicted(one.steps, closed_loop, one.limits),
    }
    return closed_form | replayed(one)


def replayed(one: Drawn) -> dict[str, list[float]]:
    """The figures of replays: at a rate, with a cap, of clients, of sessions, and of shared beginnings."""
    seed = one.seed
    plain = replace(one.steps, cached=None)
    requests = arrivals(one.lengths, 60, 0.8 * one.most, one.bursts, seed)
    shared_tokens = 32.0 + one.lengths.input_mean * (seed % 2)
    reused = Reuse(one.lengths, shared_tokens, 0.5, 1 + seed % 3, 20.0, 0.3)
    session_rate = None if seed % 5 == 4 else 0.5 * one.most
    sessions = draw(reused, 40, session_rate, 0.7, seed)
    shared = sharing(requests, reused, seed).first(50)

    def of_plain(*clients: int, **options: Any) -> list[float]:
        return sums(replay(plain, one.lengths, one.limits, requests, *clients, seed=seed, **options))

    return {
        "rate": of_plain(spread=0.1),
        "cap": of_plain(cap=2, around=2),
        "clients": of_plain(5, spread=0.1),
        "sessions": sums(replay(one.steps, one.lengths, one.limits, sessions)),
        "sharing": sums(replay(one.steps, one.lengths, one.limits, shared)),
    }


def predicted(steps: StepTimes, load: Load, limits: Limits) -> list[float]:
    """The figures of the closed form: means, quantiles and shares within limits."""
    served = serve(steps, load, limits, 0.1)
    np.testing.assert_allclose(served.tpot.mean, mean_tpot_s(steps, load, limits))
    times = (served.ttft, served.tpot, served.e2e)
    beyond_s = [1.3 * each.mean for each in times]
    limits_s = [0.8 * served.e2e.mean, served.tpot.mean, *beyond_s]
    quantiles = [each.quantiles(0.5, 0.99) for each in times]
    shares = [each.below(limit_s) for each in times for limit_s in limits_s]
    more = [served.gained(steps), *quantiles, *shares]
    return sums(served) + sums(served.e2e) + [sum(sums(figures)) for figures in more]


def sums(value: object) -> list[float]:
    """Of an array, weighted by the place of each number; of the fields of a class one after the other."""
    if is_dataclass(value):
        parts = [sums(getattr(value, field.name)) for field in fields(value)]
        return [*chain.from_iterable(parts)]
    flat = np.nan_to_num(np.ravel(np.asarray(value, float)), posinf=0.0)  # None is no number
    places = np.arange(1.0, flat.size + 1)
    return [float(f"{flat @ places:.9g}")]


@pytest.mark.parametrize("seed", range(SERVERS))
def test_every_number_is_as_it_was(seed: int) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[str(seed)]
    expected = {name: pytest.approx(values, rel=1e-6) for name, values in kept.items()}
    assert numbers(seed) == expected


if __name__ == "__main__":
    lines = (f'"{seed}": {json.dumps(numbers(seed))}' for seed in range(SERVERS))
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
