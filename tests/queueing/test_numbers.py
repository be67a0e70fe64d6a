"""Drawn servers and loads: every number of the closed form and of the replay is as it was.

``python tests/queueing/test_numbers.py`` writes numbers.json anew, whose difference shows what moved.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from perfmodel.queueing.closed import ServedLoad, mean_tpot_s, serve
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.occupancy import capacity
from perfmodel.queueing.policies.table import by_batch
from perfmodel.queueing.prefix import HitLaw, Reuse
from perfmodel.queueing.replay import arrivals, replay
from perfmodel.queueing.sessions import draw
from perfmodel.queueing.steps import Reading, StepTimes, prompt_s_of

KEPT = Path(__file__).with_name("numbers.json")
SERVERS = 24
LOADS = np.array([0.2, 0.7, 0.97, 1.1])
"""Shares of saturation."""


def server(draws: Random, lengths: Lengths, limits: Limits, gamma: int, seats: int) -> StepTimes:
    """Passes of two slopes, prompts that share what a pass loads anyway."""
    seats = min(seats, (limits.max_num_batched_tokens - 1) // (gamma + 1))
    n = np.arange(1.0, seats + 1)
    decode = draws.uniform(0.004, 0.02) * (1 + 0.1 * gamma) + draws.uniform(1e-5, 8e-4) * n
    decode += draws.uniform(0, 1e-3) * np.maximum(n - seats // 3, 0)
    reading = Reading(
        tokens=np.array([1.0, 300.0, 16384.0]),
        seconds=np.array([0.0, 0.006, draws.uniform(0.2, 0.5)]),
        token_s=draws.uniform(1e-6, 1e-5),
        pass_s=draws.choice((0.0, 0.003)),
        cached_s=1e-10,
        alone=draws.random() < 0.3,
    )
    gained = 1.0 + gamma * draws.uniform(0.3, 0.8)
    left, passes = limits.max_num_batched_tokens - n * (gamma + 1.0), np.full(seats, 1.4)
    tokens = n * (gamma + 1.0), n * gained / lengths.decoded
    return StepTimes(
        gamma=gamma,
        tokens_per_iteration=gained,
        decode_s=decode,
        prompt_s=prompt_s_of(reading, left, *tokens, passes, lengths.input_mean),
        seats=seats,
        kv_share=draws.uniform(0.3, 1.1) / seats,
        own_s=draws.choice((0.0, 0.004, 0.03)),
        passes_ahead=draws.choice((0.0, 0.5, 1.0)),
        reading=reading,
    )


def numbers(seed: int) -> dict[str, list[float]]:
    """Sums over the loads of each figure of one drawn server."""
    draws = Random(seed)
    tokens, seats = draws.uniform(60, 4000), draws.choice((1, 3, 12, 40, 90))
    lengths = Lengths(
        tokens, draws.uniform(3, 300), draws.choice((0, 0.4)) * tokens, draws.choice((0.0, 20.0))
    )
    limits = Limits(draws.choice((seats, 256)), draws.choice((512, 2048, 8192)))
    steps = server(draws, lengths, limits, draws.choice((0, 0, 1, 3, 7)), seats)
    if seed % 3 == 1:  # sessions with a common beginning
        reuse = Reuse(lengths, 0.4 * tokens, 0.7, 1 + seed % 4, 55.0, draws.choice((0.0, 2.0)))
        law, asks = HitLaw(16, seed % 2), steps.decode_s + steps.prompt_s
        steps = replace(steps, cached=reuse.cached(law, 1.7 / steps.kv_share, lengths, asks))
    if seed % 4 == 2:  # two lengths, by the running batch
        other = server(draws, lengths, limits, 5, seats)
        most = min(capacity(t, lengths, limits)[0] for t in (steps, other))
        steps = by_batch([steps, other], lengths, 0.8 * most)[0]
    most, seat = capacity(steps, lengths, limits)
    bursts, think_s = draws.choice((0.3, 1.0, 4.0)), draws.choice((0.0, 1.5))
    found = {"capacity": [most, float(seat)]}
    clients = np.array([1.0, 2.0, 0.6 * seats + 1, 1.2 * seats, 5.0 * seats])
    for name, load in (
        ("open", Load(lengths, rate=LOADS * most, burstiness=bursts)),
        ("closed", Load(lengths, clients=clients, think_s=think_s)),
    ):
        found[name] = list(figures(steps, serve(steps, load, limits, 0.1)))
        found[f"{name}, alone"] = mean_tpot_s(steps, load, limits).tolist()
    plain = replace(steps, cached=None)
    some, drawn = arrivals(lengths, 60, 0.8 * most, bursts, seed), {"seed": seed, "spread": 0.1}
    sessions = draw(Reuse(lengths, 32.0, 0.5, 2, 20.0, 0.3), 40, 0.5 * most, 1.0, seed)
    for name, met in (
        ("rate", replay(plain, lengths, limits, some, **drawn)),
        ("cap", replay(plain, lengths, limits, some, cap=2, around=2, **drawn)),
        ("clients", replay(plain, lengths, limits, some, 5, **drawn)),
        ("sessions", replay(steps, lengths, limits, sessions)),
    ):
        sums = met.ttft_s.sum(), met.tpot_s.sum(), met.e2e_s.sum(), met.mean_tpot_s
        found[name] = [*map(float, sums), met.running, met.duration_s, met.preemptions, met.hit_rate or 0.0]
    return found


def figures(steps: StepTimes, served: ServedLoad) -> Iterator[float]:
    """Sums over the loads that are served in time."""
    fine = ~served.saturated
    for times in (served.ttft, served.tpot, served.e2e):
        moments = (times.mean, times.variance, times.third, times.least)
        yield from (float(np.broadcast_to(part, fine.shape)[fine].sum()) for part in moments)
        yield from (float(times.quantiles(share)[:, fine].sum()) for share in (0.5, 0.99))
        yield float(np.broadcast_to(times.below(1.1 * times.mean), fine.shape)[fine].sum())
    loads = np.arange(1.0, fine.size + 1)
    parts = served.running, served.requests_per_s, served.saturated, served.metastable, served.gained(steps)
    yield from (float(part @ loads) for part in parts)
    yield float(np.sum(served.share @ np.arange(served.share.shape[1]) ** 2.0))


@pytest.mark.parametrize("seed", range(SERVERS))
def test_every_number_is_as_it_was(seed: int) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[str(seed)]
    assert numbers(seed) == {name: pytest.approx(values, rel=1e-6) for name, values in kept.items()}


if __name__ == "__main__":
    rounded = {
        seed: {name: [float(f"{x:.9g}") for x in row] for name, row in numbers(seed).items()}
        for seed in range(SERVERS)
    }
    lines = (f'"{seed}": {json.dumps(found)}' for seed, found in rounded.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
