"""TTFT and TPOT never fall as the load rises: one server is asked twice, each time about one load."""

from collections.abc import Iterator
from dataclasses import fields
from random import Random
from typing import Any

from perfmodel.answers.load import traffic as load_of
from perfmodel.answers.load.traffic_rows import Percentiles
from perfmodel.errors import InputError
from tests.attack import watch
from tests.attack.loads import question

LEAST, LEAST_OF_PERCENTILES = 1e-3, 2e-2
"""Share by which a mean may fall, and a percentile."""
CLIENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 129, 200, 256, 400)
KINDS = ("rate", "rate", "clients", "rate and clients", "two pools, rate", "two pools, clients")
PROMPTS = (200, 500)
REPLAYED = 0.1
"""Share of the pairs in which a replay is asked for."""
OF_ONE_SERVER = ("tp", "dp", "ep", "max_num_seqs")
PREFILL, DECODE = ("1x1", "2x4", "3x2", "4x8:dp8,ep8"), ("1x1", "1x4", "2x8", "1x32:dp32,ep32", "5x4")
DEVICES = ("h100", "h200", "b200", "gb200")
"""Devices whose links between pools are known."""
OF_POOLS = ("tpot_s", "tpot_p90_s", "tpot_p99_s", "ttft_s", "ttft_p90_s", "ttft_p99_s")


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Pairs of questions, by the kind of load."""
    rng = Random(f"{seed}:rates")
    while sum(tally.tried.values()) < count:
        asked = question(rng) | {"num_prompts": rng.choice(PROMPTS)}
        if rng.random() < REPLAYED:
            asked["replay"] = True
        kind = rng.choice(KINDS)
        if kind.startswith("two pools"):
            asked = _of_pools(rng, asked)
        try:
            pair = _loads(rng, kind, asked)
            if pair is None:
                continue
            low, high = (load_of.traffic(**asked, **load) for load in pair)
        except InputError:
            continue  # the model does not fit, say
        fault = fallen(low, high)
        tally.count(kind, False, fault and f"{fault}: {asked} {pair}")


def _of_pools(rng: Random, asked: dict[str, Any]) -> dict[str, Any]:
    """The question about two pools instead of one server."""
    kept = {name: value for name, value in asked.items() if name not in OF_ONE_SERVER}
    sizes = {"prefill": rng.choice(PREFILL), "decode": rng.choice(DECODE)}
    return kept | sizes | {"hardware": rng.choice(DEVICES), "gamma": rng.choice((0, 1, 3, (1, 5)))}


def _loads(rng: Random, kind: str, asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Two loads, the lower one first; None for a server without room, or for equal loads."""
    if kind.endswith("clients") and "rate" not in kind:
        asked.pop("burstiness")
        few, many = sorted(rng.sample(CLIENTS, 2))
        return {"max_concurrency": few}, {"max_concurrency": many}
    alone = {name: value for name, value in asked.items() if name not in ("burstiness", "replay")}
    most = _most(load_of.traffic(max_concurrency=1, closed_form=True, **alone))
    low = 10 ** rng.uniform(-2, 0.3) * most
    apart = rng.choice((1 + 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(0.05, 2)))
    rates = [float(f"{rate:.4g}") for rate in (low, low * apart)]
    if not low or rates[0] == rates[1]:
        return None
    cap = {"max_concurrency": rng.choice((1, 4, 16, 64, 200))} if kind == "rate and clients" else {}
    lower, higher = ({"request_rate": rate} | cap for rate in rates)
    return lower, higher


def _most(answer: load_of.Traffic) -> float:
    """The highest rate of the baseline, in requests per second."""
    if answer.pools is None:
        return answer.rows[0].saturation_rate
    row = answer.pools.rows[0]
    return row.request_rate / max(row.prefill_used, row.decode_used)


def fallen(low: load_of.Traffic, high: load_of.Traffic) -> str | None:
    """The first time that is shorter at the higher load.

    Of a policy that changes its drafts with the load the answer says that they may be.
    """
    before = dict(_times(low))
    for name, now in _times(high):
        was = before.get(name, 0.0)
        least = LEAST if "mean" in name else LEAST_OF_PERCENTILES
        if now < was * (1 - least):
            return f"{name}: {was:.5g}, then {now:.5g} s"
    return None


def _times(answer: load_of.Traffic) -> Iterator[tuple[str, float]]:
    """TTFT and TPOT of fixed draft lengths: means and percentiles, by name."""
    for row in answer.rows if answer.pools is None else ():
        for name in ("tpot_s", "ttft_s"):
            times = getattr(row, name)
            for field in fields(Percentiles) if times is not None and isinstance(row.gamma, int) else ():
                yield f"{name} {field.name} with {row.gamma}", getattr(times, field.name)
    for pool_row in answer.pools.rows if answer.pools is not None else ():
        for name in OF_POOLS:
            of = name if "_p9" in name else f"{name} mean"
            yield f"{of} of pools with {pool_row.gamma}", getattr(pool_row, name)
