"""A real engine, start to end: ``python -m tests.engine.live FOLDER [MACHINE]`` (what `make test-engine`
runs).

vLLM on this CPU is timed by our driver and by its own benchmark; constants are fitted to some points and
judged on others: a draft length and a batch that no fitted row has. Its benchmark also sends requests at
three rates, without a draft and with one, which the traffic model predicts from that calibration. N-grams are
drafted for four clients, and the acceptance that is read from the page of metrics is held against its count
of iterations. Records, calibration and summary go to results/MACHINE.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from perfmodel.answers.question import Query
from perfmodel.cli import run as perfmodel
from perfmodel.specs import load_calibration
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.acceptance.vllm import read_counters
from perfmodel.validate.engine.calibrate import EngineCalibration, calibrate, lines, speedup_logs
from perfmodel.validate.engine.client import LiveServer
from perfmodel.validate.engine.fit import rows_of
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.engine.install import VERSION, main as install
from tests.engine.lines import main as take_lines
from tests.engine.rates import OUTPUT, RATE_GAMMAS, REQUESTS, errors as under_rates, rates
from tests.engine.servers import environment, served

ROOT = Path(__file__).parents[2]

GAMMAS = (0, 2, 3, 5)
HELD_OUT_GAMMA = 3
HELD_OUT_BATCH = 2
BATCHES = (1, 2, 4, 8)
PROMPTS = (256, 768)
NEW_TOKENS = 160
BENCH_TOKENS = 3 * NEW_TOKENS
"""New tokens of the benchmark's one round: as many as the driver's three rounds have."""
BASE = "ideal"
"""An engine's kernels are its own: nothing is taken from those of our decoder but the device's peaks."""
WANTED = {"tpot": 0.06, "speedup": 0.08, "tokens_per_iteration": 0.03}
"""Largest mean error on points held out, on a quiet machine."""
QUIET_LOAD = 0.5
"""ServerLoad average of the minute before, above which the machine is called busy and the errors are only
shown.
"""


def collect(engine: Path, folder: Path) -> None:
    """Time every server that is not in the folder yet, by our driver and by vLLM's own benchmark."""
    for gamma in GAMMAS:
        config = {
            "method": "draft_model",
            "model": str(engine / "models" / "draft"),
            "num_speculative_tokens": gamma,
        }
        timed = bool(list(folder.glob(f"engine-*-K{gamma}.json")))
        missing = [
            b for b in BATCHES if b != HELD_OUT_BATCH and not (folder / f"bench-K{gamma}-{b}.json").exists()
        ]
        open_loop = gamma in RATE_GAMMAS and not list(folder.glob(f"rate-K{gamma}-*.json"))
        if timed and not missing and not open_loop:
            continue
        with served(engine, engine / f"server-K{gamma}.log", config if gamma else None) as url:
            flags = {
                "--url": url,
                "--model": folder / "target.json",
                "--hardware": folder / "device.yaml",
                "--draft": folder / "draft.json",
                "--calibration": BASE,
                "--batches": ",".join(map(str, BATCHES)),
                "--prompts": ",".join(map(str, PROMPTS)),
                "--new-tokens": NEW_TOKENS,
                "--machine": folder.name,
                "--results": folder.parent,
            }
            if not timed and perfmodel(["validate", "engine", *spelled(flags)]):
                raise SystemExit("the driver failed")
            for batch in missing:
                closed = ["--max-concurrency", str(batch), "--num-prompts", str(batch)]
                bench(engine, url, folder / f"bench-K{gamma}-{batch}.json", BENCH_TOKENS, closed)
            for rate in rates(folder / f"bench-K0-{BATCHES[-1]}.json") if open_loop else ():
                opened = ["--request-rate", str(rate), "--num-prompts", str(REQUESTS)]
                bench(engine, url, folder / f"rate-K{gamma}-{rate}.json", OUTPUT, opened)


def spelled(flags: dict[str, object]) -> list[str]:
    """Flags with their values, as words."""
    return [str(word) for flag in flags.items() for word in flag]


def bench(
    engine: Path, url: str, path: Path, new_tokens: int, load: list[str], prompt: int = PROMPTS[0]
) -> None:
    """One file of ``vllm bench serve``, without texts, paths and more digits than a clock has."""
    fixed = "--dataset-name random --temperature 0 --ignore-eos --num-warmups 1 --save-result --save-detailed"
    flags = {
        "--base-url": url,
        "--model": "tiny",
        "--tokenizer": engine / "models" / "target",
        "--random-input-len": prompt,
        "--random-output-len": new_tokens,
        "--result-dir": path.parent,
        "--result-filename": path.name,
    }
    words = [engine / "bin" / "vllm", "bench", "serve", *fixed.split(), *spelled(flags), *load]
    subprocess.run(words, check=True, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = json.loads(path.read_text())
    kept = {
        key: value for key, value in run.items() if key not in ("generated_texts", "errors", "tokenizer_id")
    }
    kept["itls"] = [[round(gap, 6) for gap in gaps] for gaps in run["itls"]]
    path.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


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


def device(folder: Path) -> None:
    """A device file with the peaks of this CPU."""
    if (folder / "device.yaml").exists():
        return
    from perfmodel.validate.harness.micro.host import host_spec
    from perfmodel.validate.harness.micro.write import write_yaml
    from perfmodel.validate.records import newest

    if perfmodel(
        ["validate", "microbench", "cpu-quick", "--machine", folder.name, "--results", str(folder.parent)]
    ):
        raise SystemExit("the microbenchmark failed")
    record = newest(folder, "microbench", "microbench")
    spec = host_spec(record, folder.name, BASE)
    write_yaml(spec, folder / "device.yaml", f"Measured: {record.path.name}")


def is_held_out(t: Timing) -> bool:
    return t.gamma == HELD_OUT_GAMMA or t.batch == HELD_OUT_BATCH


def judge(
    calibrated: EngineCalibration, query: Query, held_out: list[Timing], plain: list[Timing]
) -> tuple[dict[str, float], list[str]]:
    """Errors on rows that no fit saw: TPOT of all, speedup beside the measured plain step of the same
    place.
    """
    base = calibrated.calibration
    seconds = rows_of(held_out, query, base).predict(base)
    compared = [
        f"{t.name:<28}{t.tpot_s * 1e3:>9.2f}ms{s / t.tokens_per_iteration * 1e3:>9.2f}ms"
        f"{s / t.seconds - 1:>+8.1%}"
        for t, s in zip(held_out, seconds, strict=True)
    ]
    both = rows_of([*held_out, *plain], query, base)
    logs = speedup_logs(both, both.predict(base))
    errors = [abs(s / t.seconds - 1) for t, s in zip(held_out, seconds, strict=True)]
    return {
        "tpot": sum(errors) / len(errors),
        "tpot_worst": max(errors),
        "speedup": sum(abs(x) for x in logs) / len(logs),
        "speedup_worst": max(abs(x) for x in logs),
    }, compared


def attempts(folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """A calibration from the server, one from its benchmark files; both judged on the same points held
    out.
    """
    model, hardware, draft = (str(folder / name) for name in ("target.json", "device.yaml", "draft.json"))
    query = Query(
        model,
        hardware,
        1,
        1,
        draft=draft,
        alpha=0.5,
        calibration=BASE,
    )
    base = load_calibration(BASE)
    driven = [t for path in sorted(folder.glob("engine-*-K*.json")) for t in read(path, GivenFacts())]
    benched = [t for path in sorted(folder.glob("bench-K*.json")) for t in read(path, GivenFacts())]
    held_out = [t for t in driven if is_held_out(t)]
    plain = [t for t in driven if not t.gamma and not is_held_out(t)]
    subject = EngineSubject.of(query, "vllm", VERSION)
    for name, rows in (("server", driven), ("bench files", benched)):
        calibrated = calibrate([t for t in rows if not is_held_out(t)], query, [base], subject, (name,))
        errors, compared = judge(calibrated, query, held_out, plain)
        print(
            "\n".join(
                [
                    f"\nfrom its {name}:",
                    *lines(calibrated),
                    "points held out: TPOT measured, predicted",
                    *compared,
                ]
            )
        )
        yield name, errors
    for run, off in under_rates(folder, query, calibrated.calibration):  # of the benchmark's own files
        print(f"{run}: " + ", ".join(f"{figure} {error:+.1%}" for figure, error in off.items()))
        yield run, off


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
    summary = dict(attempts(folder)) | {"n-grams": {"tokens_per_iteration": abs(looked_up(engine))}}
    print(json.dumps(summary, indent=2))
    (folder / "summary.json").write_text(
        json.dumps({"load_average": load, "errors": summary}, indent=2) + "\n"
    )
    missed = [
        f"{n}: {k} {e[k]:.1%}"
        for n, e in summary.items()
        for k, most in WANTED.items()
        if e.get(k, 0.0) > most
    ]
    for line in missed:
        print("above what is wanted: " + line)
    if missed and load > QUIET_LOAD:
        print(f"the machine was busy (load {load:.2f}): shown, not judged")
    return int(bool(missed) and load <= QUIET_LOAD)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "cpu-engine"))
