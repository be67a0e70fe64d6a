"""``python -m tests.attack.loads [COUNT [SEED]]``: what holds of any server under load, whatever is asked.

Throughput of clients does not fall with their number (unless a table changes) nor exceed capacity; no more
decode than there are seats; the share within the SLO does not rise with load; no number is negative or
endless; and where no warning says otherwise TPOT of one length does not fall with load, and of any is within
`CLOSE` of the replay.
"""

import math
import sys
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from perfmodel.answers.load import traffic as load_of
from perfmodel.answers.load.traffic_rows import MadeBy, TrafficRow, flat
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs.boundary.files import bundled_names

SEED = 40
CLOSE = 0.1
SLACK = 1e-3
REPLAYED = 0.15
"""Share of the questions that are replayed too."""
REQUESTS = 600
"""Requests of a replay at least."""
ANSWERS = 40
"""Requests of a replay for each that runs at once, at least."""
MOST = 40_000
"""Requests of a replay at most."""
SERVERS = (
    ("llama-3.1-8b", "h100", 1),
    ("qwen3-8b", "l40s", 1),
    ("gemma-3-27b", "h100", 1),
    ("gpt-oss-120b", "h100", 2),
    ("llama-3.1-70b", "h100", 4),
    ("qwen3.5-35b-a3b", "h200", 1),
    ("glm-4.5-air", "h200", 4),
    ("deepseek-v3.2", "h200", 8),
    ("deepseek-r1", "b200", 8),
)
RATES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.05)
CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
POLICIES = ("auto", "table", "confidence", "adaptive", "tail", "profiled")
DRAFTS = ("eagle3", "eagle3", "mtp", "ngram", "self", "dflash", "medusa", "suffix", "llama-3.2-1b", None)
ENGINES = ("vllm", "vllm", "sglang", "sglang", "trtllm", "llamacpp", "magicdec", "gpt-fast")
CHOICES = {
    "max_num_batched_tokens": (512, 2048, 8192, 16384),
    "max_num_seqs": (None, None, 1, 8, 64),
    "burstiness": (1.0, 1.0, 0.3, 3.0),
    "gamma": (0, 1, 3, (1, 5), *POLICIES),
    "draft": DRAFTS,
    "alpha": (0.0, 0.3, 0.6, 0.85, 0.99),
    "acceptance_std": (None, 0.0, 0.2),
}
SESSIONS = {"turns": (2, 5, 20), "think_time": (0, 2, 60)}
FORMATS = {"weights": ("bf16", "fp8", "nvfp4"), "kv_dtype": ("bf16", "fp8")}


def question(rng: Random) -> dict[str, Any]:
    """A server, well-known or any, its draft, requests, and what these have in common."""
    any_model = rng.choice(bundled_names("models"))
    any_device = rng.choice(bundled_names("gpus"))
    any_server = (any_model, any_device, rng.choice((1, 2, 4, 8)))
    one_in_three = [any_server] * len(SERVERS)
    usual = (*SERVERS, *SERVERS)
    model, hardware, tp = rng.choice((*usual, *one_in_three))
    inputs = round(10 ** rng.uniform(1.3, 4.2))
    outputs = round(10 ** rng.uniform(1.3, 3.3))
    prefix = drawn(rng, {"prefix_len": (round(0.3 * inputs), inputs), "prefix_hits": (0.0, 0.5, 1.0)})
    sessions = {"turn_input_len": 300} | drawn(rng, SESSIONS)
    formats = drawn(rng, FORMATS)
    groups = {"dp": tp, "ep": rng.choice((1, tp))}
    ttft_ms = 10 ** rng.uniform(2, 4)
    slo = {"slo": {"ttft": ttft_ms, "tpot": 10 ** rng.uniform(0.7, 2)}}
    settings = {
        "model": model,
        "hardware": hardware,
        "tp": tp,
        "engine": rng.choice(ENGINES),
        "input_len": inputs,
        "output_len": max(outputs, 2),
    }
    settings |= drawn(rng, {"input_std": (0.0, 0.5 * inputs), "output_std": (0.0, 0.5 * outputs)})
    settings |= drawn(rng, CHOICES)
    more = ((prefix, 0.25), (sessions, 0.2), (formats, 0.3), (groups, 0.2), (slo, 0.5))
    for some, share in more:
        if rng.random() < share:
            settings |= some
    return settings


def drawn(rng: Random, choices: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: rng.choice(values) for name, values in choices.items()}


def broken(rng: Random) -> Iterator[str]:
    """What does not hold of one drawn question, at rates and with clients."""
    settings = question(rng)
    closed = settings | {"closed_form": True}
    most = min(row.saturation_rate for row in load_of.traffic(max_concurrency=1, **closed).rows)
    seats = (settings["max_num_seqs"] or 4096) * settings.get("dp", 1)
    if not most:
        return
    rates = tuple(float(f"{max(share * most, 1e-6):.4g}") for share in RATES)
    for load in ({"max_concurrency": CLIENTS}, {"request_rate": rates}):
        answer = load_of.traffic(**load, **closed)
        changes = {drawn.gamma for drawn in answer.drafts if len(drawn.table or ()) > 1}
        for gamma in {row.gamma for row in answer.rows}:
            rows = [row for row in answer.rows if row.gamma == gamma]
            for fault in unlike(rows, seats, "max_concurrency" in load and gamma not in changes):
                yield f"{fault}: {settings | {'at': gamma}} {load}"
        if rng.random() < REPLAYED:
            at = rng.randrange(1, 7)
            one = {name: values[at] for name, values in load.items()}
            count = long_enough(settings, load_of.traffic(**one, **closed).rows)
            if count <= MOST:
                predicted = load_of.traffic(**one, **closed)
                served = load_of.traffic(**one, **settings, num_prompts=count, replay=True)
                yield from (f"{fault}: {settings} {one}" for fault in apart(predicted, served))


def long_enough(settings: dict[str, Any], rows: tuple[TrafficRow, ...]) -> int:
    """Requests after which a server no longer shows its start: of sessions sixty times those under way."""
    turns = settings.get("turns", 1)
    rate = max(row.requests_per_s for row in rows)
    longest_s = max(row.e2e_s.mean if row.e2e_s else math.inf for row in rows)
    stay = settings.get("think_time", 0) + longest_s
    sessions = 60 * turns * rate * stay if turns > 1 else 0.0
    running = max(row.running_mean for row in rows)
    count = max(REQUESTS, ANSWERS * running, sessions)
    return math.ceil(min(count, MOST + 1))


def falls(values: Array) -> bool:
    """Whether one value is less than the one before, by more than rounding."""
    slack = SLACK * values[1:]
    return bool((np.diff(values) < -slack).any())


def unlike(rows: list[TrafficRow], seats: int, clients: bool) -> list[str]:
    """What does not hold of the rows of one length, by load."""
    served = np.array([row.requests_per_s for row in rows])
    tpot = np.array([row.tpot_s.mean for row in rows if not row.doubts])
    shares = np.array([row.slo_share or 0.0 for row in rows])
    cells = [cell for row in rows for cell in flat(row).values()]
    numbers = [cell for cell in cells if isinstance(cell, float)]
    running = max(row.running_mean for row in rows)
    fixed = isinstance(rows[0].gamma, int)
    capacity = rows[0].saturation_rate * (1 + SLACK)
    rising = (np.diff(shares) > SLACK).any()
    wrong = {
        "a number is negative or endless": not all(0 <= number < math.inf for number in numbers),
        "throughput falls with clients": clients and falls(served),
        "more than capacity is served": (served > capacity).any(),
        "more decode than there are seats": running > seats * (1 + SLACK),
        "TPOT falls with load": fixed and falls(tpot),
        "the share within the SLO rises with load": rising,
    }
    return [fault for fault, is_wrong in wrong.items() if is_wrong]


def apart(predicted: load_of.Traffic, served: load_of.Traffic) -> list[str]:
    """Rows of the closed form without a doubt that a replay contradicts."""
    replays = {row.gamma: row.tpot_s.mean for row in served.rows if row.made_by is MadeBy.REPLAY}
    certain = [row for row in predicted.rows if row.ttft_s and not row.doubts]
    rows = [row for row in certain if row.gamma in replays]
    off = [row.tpot_s.mean / max(replays[row.gamma], 1e-9) - 1 for row in rows]
    return [f"TPOT {each:+.0%} of the replay" for each in off if abs(each) > CLOSE]


def main(count: int = 5000, seed: int = SEED) -> int:
    """Ask so many; exit status 1 where something did not hold."""
    rng = Random(seed)
    failures = 0
    refused = 0
    warnings.simplefilter("error")
    for _ in range(count):
        try:
            for fault in broken(rng):
                failures += 1
                print(fault, flush=True)
        except InputError:
            refused += 1
    print(f"{count} questions, {refused} refused, {failures} broken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
