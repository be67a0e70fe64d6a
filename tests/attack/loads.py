"""``python -m tests.attack.loads [COUNT [SEED]]``: what holds of any server under load, whatever is asked.

Throughput of clients does not fall with their number nor exceed capacity; no more decode than there are
seats; the share within the SLO does not rise with load; and where no warning says otherwise TPOT does not
fall with it and is within `CLOSE` of the replay.
"""

import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from perfmodel.answers.load.traffic import Traffic, traffic
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.errors import InputError

SEED, CLOSE, SLACK = 40, 0.1, 1e-3
REPLAYED, REQUESTS, ANSWERS = 0.15, 600, 40
"""Share of the questions that are replayed too; by so many requests, or times those that run at once."""
SERVERS = (
    ("llama-3.1-8b", "h100", 1),
    ("llama-3.1-8b", "a100", 1),
    ("qwen3-8b", "l40s", 1),
    ("qwen3-32b", "h100", 2),
    ("gpt-oss-120b", "h200", 1),
    ("gpt-oss-120b", "h100", 2),
    ("llama-3.1-70b", "h100", 4),
    ("deepseek-r1", "b200", 8),
)
RATES, CLIENTS = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.05), (1, 2, 4, 8, 16, 32, 64, 128, 256)


def question(rng: Random) -> dict[str, Any]:
    """A server and requests; its draft, if any, is EAGLE-3 of a given acceptance."""
    model, hardware, tp = rng.choice(SERVERS)
    inputs, outputs = (round(10 ** rng.uniform(1.3, most)) for most in (4.2, 3.3))
    drafts = {"gamma": rng.choice((0, 0, 1, 3, 5)), "draft": "eagle3", "alpha": rng.choice((0.3, 0.6, 0.85))}
    return drafts | {
        "model": model,
        "hardware": hardware,
        "tp": tp,
        "engine": rng.choice(("vllm", "vllm", "sglang", "trtllm")),
        "input_len": inputs,
        "output_len": max(outputs, 2),
        "input_std": rng.choice((0.0, 0.5 * inputs)),
        "output_std": rng.choice((0.0, 0.5 * outputs)),
        "max_num_batched_tokens": rng.choice((512, 2048, 8192, 16384)),
        "max_num_seqs": rng.choice((None, 8, 64)),
        "slo": {"ttft": 10 ** rng.uniform(2, 4), "tpot": 10 ** rng.uniform(0.7, 2)},
        "burstiness": rng.choice((1.0, 1.0, 0.3, 3.0)),
    }


def broken(rng: Random) -> Iterator[str]:
    """What does not hold of one drawn question, at rates and with clients."""
    asked = question(rng)
    alone = traffic(max_concurrency=1, **asked)
    seats = asked["max_num_seqs"] or 4096
    for row in alone.rows[: 1 + bool(asked["gamma"])]:
        if not row.saturation_rate:
            return
    most = alone.rows[-1].saturation_rate
    for load in (
        {"max_concurrency": CLIENTS},
        {"request_rate": tuple(float(f"{s * most:.4g}") for s in RATES)},
    ):
        answer = traffic(**load, **asked)
        for gamma in {row.gamma for row in answer.rows}:
            rows = [row for row in answer.rows if row.gamma == gamma]
            for told in unlike(rows, seats, clients="max_concurrency" in load):
                yield f"{told}: {asked | {'gamma': gamma}} {load}"
        if rng.random() < REPLAYED:
            at = rng.randrange(1, 7)
            one = {name: values[at] for name, values in load.items()}
            running = max(row.running_mean for row in traffic(**one, **asked).rows)
            served = traffic(**one, **asked, num_prompts=max(REQUESTS, round(ANSWERS * running)), replay=True)
            yield from (f"{told}: {asked} {one}" for told in apart(served))


def unlike(rows: list[TrafficRow], seats: int, clients: bool) -> Iterator[str]:
    """What does not hold of the rows of one length, by load."""
    served = np.array([row.requests_per_s for row in rows])
    doubted = [any("--replay" in note for note in row.warnings) for row in rows]
    tpot = np.array([row.tpot_s.mean for row, doubt in zip(rows, doubted, strict=True) if not doubt])
    share = np.array([row.slo_share or 0.0 for row in rows])
    if clients and (np.diff(served) < -SLACK * served[1:]).any():
        yield "throughput falls with clients"
    if (served > rows[0].saturation_rate * (1 + SLACK)).any():
        yield "more than capacity is served"
    if max(row.running_mean for row in rows) > seats * (1 + SLACK):
        yield "more decode than there are seats"
    if (np.diff(tpot) < -SLACK * tpot[1:]).any():
        yield "TPOT falls with load"
    if (np.diff(share) > SLACK).any():
        yield "the share within the SLO rises with load"


def apart(answer: Traffic) -> Iterator[str]:
    """Rows that no warning speaks of, and their replays."""
    assert answer.replay is not None
    replays = {row.gamma: row for row in answer.replay}
    for row in answer.rows:
        met = replays.get(row.gamma)
        if met is None or row.ttft_s is None or any("--replay" in note for note in row.warnings):
            continue
        off = row.tpot_s.mean / max(met.tpot_s.mean, 1e-9) - 1
        if abs(off) > CLOSE:
            yield f"TPOT {off:+.0%} of the replay"


def main(count: int = 5000, seed: int = SEED) -> int:
    """Ask so many; exit status 1 where something did not hold."""
    rng, found, refused = Random(seed), 0, 0
    for _ in range(count):
        try:
            for told in broken(rng):
                found += 1
                print(told, flush=True)
        except InputError:
            refused += 1
    print(f"{count} questions, {refused} refused, {found} broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
