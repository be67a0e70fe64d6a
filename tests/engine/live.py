"""A real engine, start to end: ``python -m tests.engine.live FOLDER [MACHINE]`` (what `make test-engine`
runs).

vLLM on this CPU is timed by our driver and by its own benchmark (`live_runs`); constants are fitted to some
points and judged on others (`held_out`): a draft length and a batch that no fitted row has. Its benchmark
also sends requests at three rates, without a draft and with one, which the traffic model predicts from that
calibration. N-grams are drafted for four clients, and the acceptance that is read from the page of metrics is
held against its count of iterations. Records, calibration and summary go to results/MACHINE.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perfmodel.answers.question import Query
from perfmodel.specs import load_calibration
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.acceptance.vllm import read_counters
from perfmodel.validate.engine.calibrate import calibrate
from perfmodel.validate.engine.calibration_words import lines
from perfmodel.validate.engine.client import LiveServer
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.engine.held_out import BASE, QUIET_LOAD, is_held_out, judge, missed
from tests.engine.install import VERSION, main as install
from tests.engine.lines import main as take_lines
from tests.engine.live_runs import NEW_TOKENS, bench, collect, device
from tests.engine.rates import errors as under_rates
from tests.engine.servers import served

ROOT = Path(__file__).parents[2]

WANTED = {"tpot": 0.06, "speedup": 0.08, "tokens_per_iteration": 0.03}
"""Figure -> largest mean error on points held out, on a quiet machine."""


class RunErrors(NamedTuple):
    """The errors of a run by figure."""

    run: str
    errors: dict[str, float]


def looked_up(engine: Path) -> float:
    """Tokens per iteration of n-grams as imported, over those of the server's own count of iterations, less
    1.

    It counts one time between tokens for every sequence and iteration. The chunks of several clients cannot
    be counted, because they arrive merged.
    """
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    with served(engine, engine / "server-ngram.log", config) as url:
        load = ["--max-concurrency", "4", "--num-prompts", "8"]
        bench(engine, url, engine / "bench-ngram.json", NEW_TOKENS, load)
        page = LiveServer.at(url).get("/metrics") or ""
    counted = read_counters(url, page)
    iterations = sum(n for _, n in samples(url, page, "vllm:inter_token_latency_seconds_count"))
    return counted.tokens_per_iteration * iterations / counted.decoded - 1


def timings(folder: Path, pattern: str) -> list[Timing]:
    """The timings in all files of a pattern."""
    return [timing for path in sorted(folder.glob(pattern)) for timing in read(path, GivenFacts())]


def attempts(folder: Path) -> Iterator[RunErrors]:
    """A calibration from the server, one from its benchmark files; both judged on the same points held
    out.
    """
    model, hardware, draft = (str(folder / name) for name in ("target.json", "device.yaml", "draft.json"))
    query = Query(model, hardware, 1, 1, draft=draft, alpha=0.5, calibration=BASE)
    driven = timings(folder, "engine-*-K*.json")
    benched = timings(folder, "bench-K*.json")
    held_out = [t for t in driven if is_held_out(t)]
    plain = [t for t in driven if not t.gamma and not is_held_out(t)]
    subject = EngineSubject.of(query, "vllm", VERSION)
    base = load_calibration(BASE)
    for name, rows in (("server", driven), ("bench files", benched)):
        fitted = [t for t in rows if not is_held_out(t)]
        calibrated = calibrate(fitted, query, [base], subject, (name,))
        judged = judge(calibrated, query, held_out, plain)
        print(f"\nfrom its {name}:")
        print("\n".join(lines(calibrated)))
        print("points held out: TPOT measured, predicted")
        print("\n".join(judged.lines))
        yield RunErrors(name, judged.errors)
    for run, errors in under_rates(folder, query, calibrated.calibration):  # of the benchmark's own files
        print(f"{run}: " + ", ".join(f"{figure} {error:+.1%}" for figure, error in errors.items()))
        yield RunErrors(run, errors)


def main(engine: Path, machine: str) -> int:
    """0 where the errors are as wanted, or the machine was busy."""
    install(engine)
    if take_lines(engine):
        return 1
    os.chdir(ROOT)  # a record holds no path of this machine
    folder = Path("results") / machine
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("target", "draft"):
        (folder / f"{name}.json").write_text((engine / "models" / name / "config.json").read_text())
    load = os.getloadavg()[0]
    device(folder)
    collect(engine, folder)
    summary = dict(attempts(folder))
    summary["n-grams"] = {"tokens_per_iteration": abs(looked_up(engine))}
    print(json.dumps(summary, indent=2))
    record = {"load_average": load, "errors": summary}
    (folder / "summary.json").write_text(json.dumps(record, indent=2) + "\n")
    too_large = list(missed(summary, WANTED))
    for line in too_large:
        print("above what is wanted: " + line)
    if too_large and load > QUIET_LOAD:
        print(f"the machine was busy (load {load:.2f}): shown, not judged")
    return int(bool(too_large) and load <= QUIET_LOAD)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "cpu-engine"))
