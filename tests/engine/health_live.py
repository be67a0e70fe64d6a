"""A real vLLM (CPU), slowed on purpose: ``python -m tests.engine.health_live FOLDER``.

The healthy server is timed and fitted first. Then one thing at a time is made worse, and `validate engine
--watch` must name the half that is off by the server's own log: eager mode, cores that others use, a
draft that is rejected, and long prompts. (One core in place of two slows two hyperthreads of one core by a
quarter, which is within the interval. A CPU has no captured sizes: those are in
tests/validate/engine/test_health.py.)
"""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from perfmodel.cli import run as perfmodel
from tests.engine.install import main as install
from tests.engine.live_runs import bench, device, spelled
from tests.engine.servers import started

GAMMA = 3
CLIENTS = 12
"""So many that the kernels need both cores."""
BATCHES = (1, CLIENTS)
NEW_TOKENS = 256
ROUNDS = 4
"""Prompts of a client while the healthy server is fitted: few enough that waves of prompts stay apart."""
WATCHED_ROUNDS = 12
"""Prompts of a client while a log is written that is watched: several lines lie inside the load."""
PROMPT = 64
LONG_PROMPT = 3000
OFTEN = {"VLLM_LOG_STATS_INTERVAL": "2", "VLLM_CPU_OMP_THREADS_BIND": "0-1"}
"""A line of the log every two seconds, and both cores."""
REJECTED = 0.9
"""Share of tokens of which the bad draft knows a wrong successor."""
ANSWER = re.compile(r"health: ([a-z ]+?):")


@dataclass(frozen=True)
class Fault:
    """One way to slow a server. half: what must be named. others: processes that compete for the cores."""

    name: str
    half: str
    flags: tuple[str, ...] = ()
    others: int = 0
    draft: str = "draft"
    prompt: int = PROMPT
    new_tokens: int = NEW_TOKENS
    rounds: int = WATCHED_ROUNDS


HEALTHY = Fault("healthy", "healthy")
FAULTS = (
    Fault("eager", "the iteration is off", ("--enforce-eager",)),
    Fault("busy cores", "the iteration is off", others=2, rounds=6),
    Fault("bad draft", "the acceptance is off", draft="bad"),
    Fault("long prompts", "the load is off", prompt=LONG_PROMPT, new_tokens=40, rounds=4),
)


@contextmanager
def busy(others: int) -> Iterator[None]:
    """Other processes that never wait, each in a session of its own: the cores are shared by sessions."""
    spin = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(spin, start_new_session=True) for _ in range(others)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def serve(
    engine: Path, folder: Path, fault: Fault, gamma: int, batches: tuple[int, ...], rounds: int
) -> Path:
    """Run one server below one load; its log."""
    log = folder / f"{fault.name}-K{gamma}.log".replace(" ", "-")
    config = {
        "method": "draft_model",
        "model": str(engine / "models" / fault.draft),
        "num_speculative_tokens": gamma,
    }
    words: list[str | Path] = [engine / "bin" / "vllm", "serve", engine / "models" / "target", *fault.flags]
    fixed = "--served-model-name tiny --max-model-len 4096 --max-num-seqs 16 --dtype bfloat16"
    words += [*fixed.split(), "--no-enable-prefix-caching"]
    if gamma:
        words += ["--speculative-config", json.dumps(config)]
    with started(words, log, OFTEN) as url, busy(fault.others):
        for batch in batches:
            load = ["--max-concurrency", str(batch), "--num-prompts", str(batch * rounds)]
            name = f"{fault.name}-K{gamma}-{batch}.json".replace(" ", "-")
            bench(engine, url, folder / name, fault.new_tokens, load, fault.prompt)
    return log


def watched(folder: Path, fault: Fault, log: Path) -> str:
    """What ``--watch`` says of a log."""
    flags: dict[str, object] = {
        "--watch": log,
        **subject(folder),
        "--calibration": folder / "mine.yaml",
        "--acceptance": folder / "rows.json",
        "--context": fault.prompt + fault.new_tokens // 2,
    }
    with redirect_stdout(io.StringIO()) as out:
        perfmodel(["validate", "engine", *spelled(flags)])
    return " ".join(out.getvalue().split())


def subject(folder: Path) -> dict[str, object]:
    """The served models and the device."""
    names = {"--model": "target.json", "--hardware": "device.yaml", "--draft": "draft.json"}
    return {flag: folder / name for flag, name in names.items()}


def prepared(engine: Path, folder: Path) -> Path:
    """The files of the question, a calibration to the healthy server, and its acceptance; its log."""
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in (*folder.glob("mine.*"), *folder.glob("*-K*.json"), folder / "rows.json"):
        earlier.unlink(missing_ok=True)
    for name in ("target", "draft"):
        (folder / f"{name}.json").write_text((engine / "models" / name / "config.json").read_text())
    write_bad = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import tiny; at = pathlib.Path(sys.argv[2]); "
        f"tiny.write_model(at, *tiny.SHAPES['draft'], wrong={REJECTED}); tiny.write_tokenizer(at)"
    )
    words = [engine / "bin" / "python", "-c", write_bad, Path(__file__).parent, engine / "models" / "bad"]
    subprocess.run(words, check=True)
    device(folder)
    serve(engine, folder, HEALTHY, 0, BATCHES, ROUNDS)
    serve(engine, folder, HEALTHY, GAMMA, BATCHES, ROUNDS)
    runs = [word for path in sorted(folder.glob("healthy-K*.json")) for word in ("--from", str(path))]
    fitted: dict[str, object] = {**subject(folder), "--calibration": "ideal", "--out": folder / "mine.yaml"}
    if perfmodel(["validate", "engine", *runs, *spelled(fitted)]):
        raise SystemExit("the healthy server could not be fitted")
    log = serve(engine, folder, HEALTHY, GAMMA, (CLIENTS,), HEALTHY.rounds)
    imported: dict[str, object] = {
        "--import": log,
        "--target": folder / "target.json",
        "--draft": folder / "draft.json",
        "--gamma": GAMMA,
        "--context": PROMPT + NEW_TOKENS // 2,
        "--out": folder / "rows.json",
    }
    if perfmodel(["validate", "acceptance", *spelled(imported)]):
        raise SystemExit("the acceptance of the healthy server could not be read")
    return log


def named(folder: Path, fault: Fault, log: Path) -> bool:
    """Whether the half that is off was named; prints what was said."""
    said = watched(folder, fault, log)
    half = ANSWER.search(said)
    right = half is not None and half[1] == fault.half
    print(f"{'right' if right else 'WRONG'}: {fault.name}: {said}", flush=True)
    return right


def main(engine: Path, folder: Path) -> int:
    """0 if the right half is named each time."""
    install(engine)
    missed = not named(folder, HEALTHY, prepared(engine, folder))
    for fault in FAULTS:
        log = serve(engine, folder, fault, GAMMA, (CLIENTS,), fault.rounds)
        missed |= not named(folder, fault, log)
    return int(missed)


if __name__ == "__main__":
    place = Path(sys.argv[1]).absolute()
    sys.exit(main(place, Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else place / "health"))
