"""TTFT and TPOT never fall as the load rises: one server is asked twice, each time about one load."""

from random import Random
from typing import Any

from perfmodel.answers.load import traffic as load_of
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.errors import InputError
from tests.attack import watch
from tests.attack.loads import question

LEAST = 1e-3
"""Share by which a time may fall."""
CLIENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 129, 200, 256, 400)
KINDS = ("rate", "rate", "clients", "rate and clients")
PROMPTS = (200, 500)
REPLAYED = 0.1
"""Share of the pairs in which a replay is asked for."""


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Pairs of questions, by the kind of load."""
    rng = Random(f"{seed}:rates")
    while sum(tally.tried.values()) < count:
        asked = question(rng) | {"num_prompts": rng.choice(PROMPTS)}
        if rng.random() < REPLAYED:
            asked["replay"] = True
        kind = rng.choice(KINDS)
        try:
            pair = _loads(rng, kind, asked)
            if pair is None:
                continue
            low, high = (load_of.traffic(**asked, **load).rows for load in pair)
        except InputError:
            continue  # the model does not fit, say
        fault = fallen(low, high)
        tally.count(kind, False, fault and f"{fault}: {asked} {pair}")


def _loads(rng: Random, kind: str, asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Two loads, the lower one first; None for a server without room, or for equal loads."""
    if kind == "clients":
        asked.pop("burstiness")
        few, many = sorted(rng.sample(CLIENTS, 2))
        return {"max_concurrency": few}, {"max_concurrency": many}
    alone = {name: value for name, value in asked.items() if name not in ("burstiness", "replay")}
    rows = load_of.traffic(max_concurrency=1, closed_form=True, **alone).rows
    low = 10 ** rng.uniform(-2, 0.3) * rows[0].saturation_rate
    apart = rng.choice((1 + 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(0.05, 2)))
    rates = [float(f"{rate:.4g}") for rate in (low, low * apart)]
    if not low or rates[0] == rates[1]:
        return None
    cap = {} if kind == "rate" else {"max_concurrency": rng.choice((1, 4, 16, 64, 200))}
    lower, higher = ({"request_rate": rate} | cap for rate in rates)
    return lower, higher


def fallen(low: tuple[TrafficRow, ...], high: tuple[TrafficRow, ...]) -> str | None:
    """The first mean that is shorter at the higher load.

    A policy that is made for its load (a table) is another server at another load.
    """
    before = {row.gamma: row for row in low if isinstance(row.gamma, int)}
    for row in high:
        for name in ("tpot_s", "ttft_s"):
            was = getattr(before.get(row.gamma), name, None)
            now = getattr(row, name)
            if was is not None and now is not None and now.mean < was.mean * (1 - LEAST):
                return f"{name} with {row.gamma}: {was.mean:.5g}, then {now.mean:.5g} s"
    return None
