"""Drawn servers and loads: every number of the closed form and of the replay is as it was.

``python tests/queueing/test_numbers.py`` writes numbers.json anew, whose difference shows what moved.
"""

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.closed import mean_tpot_s, serve
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies.table import by_batch
from perfmodel.queueing.prefix import HitLaw, Reuse
from perfmodel.queueing.replay import replay
from perfmodel.queueing.sessions import draw, sharing
from perfmodel.queueing.steps import Reading, StepTimes, prompt_s_of
from perfmodel.specs.engines.serving import PassOrder

KEPT = Path(__file__).with_name("numbers.json")
SERVERS = 60
LOADS = np.array([0.2, 0.7, 0.97, 1.1])
"""Shares of saturation."""


def server(draws: Random, lengths: Lengths, limits: Limits, gamma: int, seats: int) -> StepTimes:
    """Passes of two slopes, prompts that share what a pass loads anyway."""
    seats = min(seats, (limits.max_num_batched_tokens - 1) // (gamma + 1))
    n = np.arange(1.0, seats + 1)
    fixed_s = draws.uniform(0.004, 0.02) * (1 + 0.1 * gamma)
    sequence_s = draws.uniform(1e-5, 8e-4)
    steeper_s = draws.uniform(0, 1e-3)
    decode = fixed_s + sequence_s * n + steeper_s * np.maximum(n - seats // 3, 0)
    reading = Reading(
        tokens=np.array([1.0, 300.0, 16384.0]),
        seconds=np.array([0.0, 0.006, draws.uniform(0.2, 0.5)]),
        token_s=draws.uniform(1e-6, 1e-5),
        pass_s=draws.choice((0.0, 0.003)),
        cached_s=1e-10,
        order=PassOrder.ALTERNATING if draws.random() < 0.3 else PassOrder.MIXED,
    )
    gained = 1.0 + gamma * min(draws.uniform(0.3, 1.2), 1.0)
    decoding = n * (gamma + 1.0)
    ending = n * gained / lengths.decoded
    left = limits.max_num_batched_tokens - decoding
    passes = np.full(seats, 1.4)
    return StepTimes(
        gamma=gamma,
        tokens_per_iteration=gained,
        decode_s=decode,
        prompt_s=prompt_s_of(reading, left, decoding, ending, passes, lengths.input_mean),
        seats=seats,
        kv_share=draws.uniform(0.3, 1.1) / seats,
        own_s=draws.choice((0.0, 0.004, 0.03)),
        passes_ahead=draws.choice((0.0, 0.5, 1.0)),
        reading=reading,
    )


def numbers(seed: int) -> dict[str, list[float]]:
    """The figures of one drawn server."""
    draws = Random(seed)
    tokens = draws.uniform(60, 4000)
    seats = draws.choice((1, 3, 12, 40, 90))
    lengths = Lengths(
        tokens, draws.uniform(3, 300), draws.choice((0, 0.4)) * tokens, draws.choice((0.0, 20.0))
    )
    limits = Limits(draws.choice((seats, 256)), draws.choice((512, 2048, 8192)))
    steps = server(draws, lengths, limits, draws.choice((0, 0, 1, 3, 7)), seats)
    if seed % 3 == 1:  # sessions with a common beginning
        reuse = Reuse(lengths, 0.4 * tokens, 0.7, 1 + seed % 4, 55.0, draws.choice((0.0, 2.0)))
        law = HitLaw(16, seed % 2)
        asks = steps.decode_s + steps.prompt_s
        steps = replace(steps, cached=reuse.cached(law, 1.7 / steps.kv_share, lengths, asks))
    if seed % 4 == 2:  # two lengths, by the running batch
        other = server(draws, lengths, limits, 5, seats)
        most = min(capacity(t, lengths, limits)[0] for t in (steps, other))
        steps = by_batch([steps, other], lengths, 0.8 * most)[0]
    most, seat = capacity(steps, lengths, limits)
    bursts = draws.choice((0.3, 1.0, 4.0))
    think_s = draws.choice((0.0, 1.5))
    found = {"capacity": [most, float(seat)]}
    clients = np.array([1.0, 2.0, 0.6 * seats + 1, 1.2 * seats, 5.0 * seats])
    for name, load in (
        ("open", Load(lengths, rate=LOADS * most, burstiness=bursts)),
        ("closed", Load(lengths, clients=clients, think_s=think_s)),
    ):
        served = serve(steps, load, limits, 0.1)
        tails = (0.5, 0.99)
        np.testing.assert_allclose(served.tpot.mean, mean_tpot_s(steps, load, limits))
        times = served.ttft, served.tpot, served.e2e
        limits_s = [0.8 * served.e2e.mean, served.tpot.mean, *(1.3 * t.mean for t in times)]
        more = [served.gained(steps), *(t.quantiles(*tails) for t in times)]
        more += [t.below(limit) for t in times for limit in limits_s]
        found[name] = sums(served) + sums(served.e2e) + [sum(sums(of)) for of in more]
    plain = replace(steps, cached=None)
    some = arrivals(lengths, 60, 0.8 * most, bursts, seed)
    reused = Reuse(lengths, 32.0 + tokens * (seed % 2), 0.5, 1 + seed % 3, 20.0, 0.3)
    sessions = draw(reused, 40, None if seed % 5 == 4 else 0.5 * most, 0.7, seed)
    found["rate"] = sums(replay(plain, lengths, limits, some, seed=seed, spread=0.1))
    found["cap"] = sums(replay(plain, lengths, limits, some, seed=seed, cap=2, around=2))
    found["clients"] = sums(replay(plain, lengths, limits, some, 5, seed=seed, spread=0.1))
    found["sessions"] = sums(replay(steps, lengths, limits, sessions))
    found["sharing"] = sums(replay(steps, lengths, limits, sharing(some, reused, seed).first(50)))
    return found


def sums(value: object) -> list[float]:
    """Of an array, weighted by the place of each number; of the fields of a class one after the other."""
    if is_dataclass(value):
        return [number for f in fields(value) for number in sums(getattr(value, f.name))]
    flat = np.nan_to_num(np.ravel(np.asarray(value, float)), posinf=0.0)  # None is no number
    return [float(f"{flat @ np.arange(1.0, flat.size + 1):.9g}")]


@pytest.mark.parametrize("seed", range(SERVERS))
def test_every_number_is_as_it_was(seed: int) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[str(seed)]
    assert numbers(seed) == {name: pytest.approx(values, rel=1e-6) for name, values in kept.items()}


if __name__ == "__main__":
    lines = (f'"{seed}": {json.dumps(numbers(seed))}' for seed in range(SERVERS))
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
