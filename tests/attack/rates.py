"""TTFT and TPOT never fall as the load rises: one server is asked several times, each time about one load."""

import itertools
from collections.abc import Iterator
from dataclasses import fields
from random import Random
from typing import Any

from perfmodel.answers.load import traffic as load_of
from perfmodel.answers.load.traffic_rows import Percentiles
from perfmodel.errors import InputError
from tests.attack import watch
from tests.attack.better import LAYOUTS
from tests.attack.loads import question

LEAST = 1e-3
"""Share by which a mean may fall."""
LEAST_OF_PERCENTILES = 2e-2
"""Share by which a percentile may fall."""
CLIENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 129, 200, 256, 400)
KINDS = ("rate", "rate", "clients", "rate and clients", "two pools, rate", "two pools, clients")
LOADS = 4
"""Loads of a server, of which every two are a pair."""
PROMPTS = (200, 500)
REPLAYED = 0.1
"""Share of the servers for which a replay is asked."""
OVER_NODES = 0.1
"""Share of the servers whose groups lie on several nodes."""
OF_ONE_SERVER = ("tp", "dp", "ep", "max_num_seqs")
PREFILL = ("1x1", "2x4", "3x2", "4x8:dp8,ep8")
DECODE = ("1x1", "1x4", "2x8", "1x32:dp32,ep32", "5x4")
DEVICES = ("h100", "h200", "b200", "gb200")
"""Devices whose links between pools are known."""
LINKS = (None, None, "50,0.36,0.4", "1")
DECODE_DRAFTS = ("run", "run", "none", "ngram")
OF_POOLS = ("tpot_s", "tpot_p90_s", "tpot_p99_s", "ttft_s", "ttft_p90_s", "ttft_p99_s")


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Pairs of questions, by the kind of load."""
    rng = Random(f"{seed}:rates")
    while sum(tally.tried.values()) < count:
        kind = rng.choice(KINDS)
        server = _server(rng, kind)
        try:
            loads = _loads(rng, kind, server)
            answers = [load_of.traffic(**server, **load) for load in loads]
        except InputError:
            continue  # the model does not fit, say
        for (lower, low), (higher, high) in itertools.combinations(zip(loads, answers, strict=True), 2):
            fault = fallen(low, high)
            tally.count(kind, False, fault and f"{fault}: {server} {lower} {higher}")


def _server(rng: Random, kind: str) -> dict[str, Any]:
    """A question without a load."""
    server = question(rng) | {"num_prompts": rng.choice(PROMPTS)}
    if rng.random() < REPLAYED:
        server["replay"] = True
    if kind.startswith("two pools"):
        return _of_pools(rng, server)
    if rng.random() < OVER_NODES:
        server |= {"hardware": rng.choice(DEVICES), "ep": 1, "dp": 1} | rng.choice(LAYOUTS)
    return server


def _of_pools(rng: Random, asked: dict[str, Any]) -> dict[str, Any]:
    """The question about two pools instead of one server."""
    kept = {name: value for name, value in asked.items() if name not in OF_ONE_SERVER}
    pools = {
        "prefill": rng.choice(PREFILL),
        "decode": rng.choice(DECODE),
        "kv_link": rng.choice(LINKS),
        "decode_draft": rng.choice(DECODE_DRAFTS),
        "prefill_draft": rng.choice(("run", "none")),
    }
    return kept | pools | {"hardware": rng.choice(DEVICES), "gamma": rng.choice((0, 1, 3, (1, 5)))}


def _loads(rng: Random, kind: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Different loads that rise; none for a server without room."""
    if kind.endswith("clients") and "rate" not in kind:
        asked.pop("burstiness")
        return [{"max_concurrency": clients} for clients in sorted(rng.sample(CLIENTS, LOADS))]
    alone = {name: value for name, value in asked.items() if name not in ("burstiness", "replay")}
    most = _most(load_of.traffic(max_concurrency=1, closed_form=True, **alone))
    rate = 10 ** rng.uniform(-2, 0.3) * most
    rates = set[float]()
    for _ in range(LOADS if most else 0):
        rates.add(float(f"{rate:.4g}"))
        rate *= rng.choice((1 + 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(0.05, 1)))
    cap = {"max_concurrency": rng.choice((1, 4, 16, 64, 200))} if kind == "rate and clients" else {}
    return [{"request_rate": each} | cap for each in sorted(rates)]


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
