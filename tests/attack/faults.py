"""What a run leaves behind when it is killed, the disk is full, the folder is read-only, or two write at once.

Runs are forks of this process, so that a hundred of them take a minute. Half of the kills come at a random moment, half
just before or after one of the calls that change files.
"""

import contextlib
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from perfmodel import cli
from perfmodel.answers.frames import read_frame
from perfmodel.validate.accuracy.check import read_baseline
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.records.store import read_record
from tests.validate.engine.server import Engine, serving
from tests.validate.tiny_plan import write as write_plan

ROOT = Path(__file__).parents[2]
NOBODY = 65534
LONGEST_S = 120.0
CALLS = ("fsync", "replace", "truncate", "unlink")
"""Calls of `os` after which a folder looks different."""
FILES = (
    "vllm-serve-plain-1",
    "vllm-serve-plain-4",
    "vllm-serve-ngram4-1",
    "vllm-serve-draft3-1",
    "vllm-serve-draft3-4",
)
Check = Callable[[Path], str | None]


@dataclass(frozen=True)
class Job:
    """A command in a folder of its own.

    arguments: of a first and of a further attempt. whole: what is wrong with a finished file. same: whether a run that
    was interrupted ends with the bytes of one that was not. rows: finished rows that the folder holds.
    """

    name: str
    arguments: Callable[[Path, bool], list[str]]
    result: str
    whole: Check
    same: bool
    rows: Callable[[Path], set[str]] = lambda folder: set()
    share: float = 1.0


@dataclass
class Toll:
    """How often each fault was brought about, by job, and what was wrong."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, job: Job, fault: str, found: str | None) -> None:
        """Count one."""
        self.counts[job.name, fault] = self.counts.get((job.name, fault), 0) + 1
        if found:
            self.faults.append(f"{job.name}: {fault}: {found}")


def _sweep(suffix: str) -> Callable[[Path, bool], list[str]]:
    def arguments(folder: Path, again: bool) -> list[str]:
        asked = ["--model", "llama-3.1-8b", "--hardware", "h100", "--batch", "1..16", "--context", "1000..64000+1000"]
        drafts = ["--draft-kv", "full,streamingllm:512,quest:1024,snapkv:512,tova:512", "--alpha", "0.6,0.8"]
        output = ["--gamma", "1..3", "-o", str(folder / f"out{suffix}")]
        resume = again and (folder / f"out{suffix}.part.json").exists()
        return ["sweep", *asked, *drafts, *output, *(["--resume"] if resume else [])]

    return arguments


def _measure(folder: Path, again: bool) -> list[str]:
    if not (folder / "plan.yaml").exists():
        write_plan(folder)
    resume = ["--resume"] if again and any(folder.glob("t-1/*.journal")) else []
    return ["validate", "measure", str(folder / "plan.yaml"), "--machine", "t-1", "--results", str(folder), *resume]


def _engine(url: str) -> Callable[[Path, bool], list[str]]:
    def arguments(folder: Path, again: bool) -> list[str]:
        asked = ["--model", "llama-68m", "--hardware", "h100", "--draft", "ngram", "--calibration", "ideal"]
        load = [
            "--batches",
            "1,2",
            "--prompts",
            "8,16",
            "--new-tokens",
            "12",
            "--machine",
            "t-1",
            "--results",
            str(folder),
        ]
        resume = ["--resume"] if again and any(folder.glob("t-1/*.journal")) else []
        return ["validate", "engine", *asked, *load, "--url", url, *resume]

    return arguments


def _engine_files(folder: Path, again: bool) -> list[str]:
    sources = [part for name in FILES for part in ("--from", str(ROOT / f"tests/validate/engine/files/{name}.json"))]
    asked = ["--model", "qwen3-0.6b", "--hardware", "xeon-amx-2core", "--draft", "ngram", "--gamma", "4"]
    return ["validate", "engine", *asked, *sources, "--out", str(folder / "out.yaml"), "--results", str(folder)]


def _check(folder: Path, again: bool) -> list[str]:
    return [
        "validate",
        "check",
        "--results",
        str(ROOT / "results/cpu-1"),
        "--baseline",
        str(folder / "out.json"),
        "--write",
    ]


def _read_by(read: Callable[[Path], object]) -> Check:
    def whole(path: Path) -> str | None:
        try:
            read(path)
        except Exception as error:
            return f"{path.name} is no whole file: {str(error)[:120]}"
        return None

    return whole


def _journalled(folder: Path) -> set[str]:
    """Rows on the disk, of journals (whole lines) and records."""
    found: set[str] = set()
    for path in folder.glob("t-1/*.journal"):
        found |= {line.partition(b" ")[2].decode() for line in path.read_bytes().split(b"\n")[1:-1]}
    for path in folder.glob("t-1/*.json"):
        found |= {
            line.rstrip(",") for line in path.read_text(encoding="utf-8").split("\n") if line.startswith('{"key"')
        }
    return found


def jobs(url: str) -> tuple[Job, ...]:
    """What is attacked."""
    return (
        Job("sweep to CSV", _sweep(".csv"), "out.csv", _read_by(read_frame), True),
        Job("sweep to Parquet", _sweep(".parquet"), "out.parquet", _read_by(read_frame), True),
        Job("measure", _measure, "t-1/*.json", _read_by(read_record), False, _journalled, 0.6),
        Job("engine, live", _engine(url), "t-1/*.json", _read_by(read_engine_record), False, _journalled, 0.6),
        Job("check --write", _check, "out.json", _read_by(read_baseline), True, share=0.4),
    )


@dataclass(frozen=True)
class Ending:
    """How a run ended: exit status (-9 killed), what it said on stderr, how long it took, calls that changed files."""

    status: int
    said: str
    seconds: float
    calls: int


def run(
    arguments: list[str],
    *,
    stop_s: float | None = None,
    stop_call: int | None = None,
    before: Callable[[], None] | None = None,
) -> Ending:
    """A command in a fork, killed after `stop_s` or at the file call of that number; `before` prepares the fork."""
    return finish(start(arguments, stop_call, before), stop_s)


def start(
    arguments: list[str], stop_call: int | None = None, before: Callable[[], None] | None = None
) -> tuple[int, int, int, float]:
    """Fork: (process, its stderr, its count of file calls, when it began)."""
    (said, say), (counted, count) = os.pipe(), os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child:
        os.close(say)
        os.close(count)
        return child, said, counted, begun
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(say, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        _watch(stop_call, count)
        if before:
            before()
        status = cli.run(arguments)
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        status = 99
    os._exit(status)


def _watch(stop_call: int | None, count: int) -> None:
    """Tell every file call; kill the process before (odd numbers) or after (even) the one that is due."""
    done, plain = 0, {name: getattr(os, name) for name in CALLS}
    for name in CALLS:

        def call(*args: Any, name: str = name, **kwargs: Any) -> Any:
            nonlocal done
            for step in (1, 2):
                done += 1
                os.write(count, b".")
                if done == stop_call:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 1:
                    value = plain[name](*args, **kwargs)
            return value

        setattr(os, name, call)


def finish(running: tuple[int, int, int, float], stop_s: float | None = None) -> Ending:
    """Wait for a run, or kill it when it is due."""
    child, said, counted, begun = running
    end, killed = begun + (LONGEST_S if stop_s is None else stop_s), False
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end and not killed:
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.001)
    with open(said, "rb") as stream:
        text = stream.read().decode("utf-8", "replace")
    with open(counted, "rb") as stream:
        calls = len(stream.read())
    return Ending(os.waitstatus_to_exitcode(done[1]), text, time.monotonic() - begun, calls)


def results_of(job: Job, folder: Path) -> list[Path]:
    """The finished files of a job."""
    return sorted(folder.glob(job.result))


def kill(job: Job, folder: Path, rng: Random, reference: Ending, expected: bytes) -> tuple[int, str | None]:
    """Kill a job one to three times, then let it finish: (kills, what is wrong)."""
    kept: set[str] = set()
    killed = 0
    for attempt in range(rng.choice((1, 1, 2, 3))):
        moment = {"stop_s": rng.uniform(0.0, reference.seconds)}
        call = {"stop_call": rng.randrange(1, max(2, reference.calls + 1))}
        ended = run(job.arguments(folder, attempt > 0), **(moment if rng.random() < 0.5 else call))  # type: ignore[arg-type]
        if ended.status not in (-9, 0):
            return killed, f"attempt {attempt} ended with {ended.status}: {ended.said[-300:]!r}"
        if fault := _after(job, folder, kept):
            return killed, fault
        killed += ended.status == -9
        if results_of(job, folder):
            break
    if not results_of(job, folder):
        again = job.arguments(folder, True)
        ended = run(again)
        if ended.status and "delete the file" in ended.said:  # cut off before its first line: it says what to do
            for path in folder.glob("t-1/*.journal"):
                path.unlink()
            ended = run(job.arguments(folder, True))
        if ended.status:
            return killed, f"could not go on: {ended.status}: {ended.said[-300:]!r}"
    fault = _after(job, folder, kept)
    finished = results_of(job, folder)
    if fault or not finished:
        return killed, fault or "no result"
    if job.same and finished[0].read_bytes() != expected:
        return killed, "the result differs from that of an undisturbed run"
    return killed, None


def _after(job: Job, folder: Path, kept: set[str]) -> str | None:
    """What is wrong with a folder: a half file, or a finished row that is gone. Adds the rows to `kept`."""
    for path in results_of(job, folder):
        if fault := job.whole(path):
            return fault
    now = job.rows(folder)
    if lost := kept - now:
        return f"{len(lost)} finished rows are gone"
    kept |= now
    return None


def full_disk(job: Job, folder: Path, rng: Random, expected: bytes) -> str | None:
    """No file may grow beyond a few bytes: one line, no half file, and the job goes on when there is room."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = rng.randrange(1, max(2, len(expected)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return _refused(job, folder, run(job.arguments(folder, False), before=limit)) or _goes_on(job, folder, expected)


def read_only(job: Job, folder: Path, rng: Random, expected: bytes) -> str | None:
    """Nothing may be made in the folder: one line, and nothing is."""
    arguments = job.arguments(folder, False)
    folder.chmod(0o555)

    def unprivileged() -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    try:
        ended = run(arguments, before=unprivileged)
    finally:
        folder.chmod(0o755)
    return _refused(job, folder, ended) or (None if ended.status else "status 0") or _goes_on(job, folder, expected)


def two_writers(job: Job, folder: Path, rng: Random, expected: bytes) -> str | None:
    """Two at once: each finishes or says in one line why not, and the file is one run's."""
    running = [start(job.arguments(folder, False)) for _ in range(2)]
    ended = [finish(one) for one in running]
    for one in ended:
        if one.status and (fault := _refused(job, folder, one, empty=False)):
            return fault
    if all(one.status for one in ended):
        return "neither of two finished"
    kept: set[str] = set()
    if fault := _after(job, folder, kept):
        return fault
    if job.same and results_of(job, folder)[0].read_bytes() != expected:
        return "the file is not that of an undisturbed run"
    return None


def _refused(job: Job, folder: Path, ended: Ending, empty: bool = True) -> str | None:
    lines = [line for line in ended.said.splitlines() if line and not line.startswith(("WARNING", "next:"))]
    if ended.status == 0:
        return None
    if ended.status != 2 or not lines or not lines[-1].startswith("error: ") or "Traceback" in ended.said:
        return f"status {ended.status}: {ended.said[-300:]!r}"
    if empty and results_of(job, folder):
        return "a refused run left a result"
    return None


def _goes_on(job: Job, folder: Path, expected: bytes) -> str | None:
    if not results_of(job, folder):
        ended = run(job.arguments(folder, True))
        if ended.status and "delete the file" in ended.said:
            for path in folder.glob("t-1/*.journal"):
                path.unlink()
            ended = run(job.arguments(folder, True))
        if ended.status:
            return f"could not go on: {ended.status}: {ended.said[-300:]!r}"
    kept: set[str] = set()
    fault = _after(job, folder, kept)
    if fault is None and job.same and results_of(job, folder)[0].read_bytes() != expected:
        fault = "the result differs from that of an undisturbed run"
    return fault


FAULTS: dict[str, Callable[[Job, Path, Random, bytes], str | None]] = {
    "full disk": full_disk,
    "read-only folder": read_only,
    "two writers": two_writers,
}


@contextlib.contextmanager
def prepared() -> Iterator[tuple[Job, ...]]:
    """The jobs, with what they import loaded once, one thread for each, and a server for the engine's."""
    os.environ["PERFMODEL_COMMIT"] = "0123456789abcdef"
    import pyarrow.parquet  # noqa: F401
    import torch

    import perfmodel.validate.cli
    import perfmodel.validate.harness.measure  # noqa: F401

    torch.set_num_threads(1)
    with serving(Engine(step_s=0.0005)) as url:
        yield jobs(url)


def attack(folder: Path, seed: int, kills: int, others: int) -> Toll:
    """At least `kills` kills over all jobs, and `others` of each other fault; all follow from the seed but for time."""
    toll = Toll()
    folder.chmod(0o755)
    with prepared() as every:
        for job in every:
            _load(job.arguments(_folder(folder, f"{job.name} loaded"), False))
            whole = _folder(folder, f"{job.name} undisturbed")
            reference = run(job.arguments(whole, False))
            if reference.status:
                toll.add(job, "undisturbed", f"{reference.status}: {reference.said[-300:]!r}")
                continue
            expected = results_of(job, whole)[0].read_bytes()
            wanted, done, number = kills * job.share / sum(j.share for j in every), 0, 0
            while done < wanted and number < 10 * kills:
                number += 1
                place, rng = _folder(folder, f"{job.name} {number}"), Random(f"{seed}:{job.name}:{number}")
                killed, found = kill(job, place, rng, reference, expected)
                for one in range(killed):
                    toll.add(job, "kill -9", found if one == 0 else None)
                if found and not killed:
                    toll.faults.append(f"{job.name}: {found}")
                done += killed
                shutil.rmtree(place)
            for name, fault in FAULTS.items():
                for number in range(others):
                    place, rng = (
                        _folder(folder, f"{job.name} {name} {number}"),
                        Random(f"{seed}:{job.name}:{name}:{number}"),
                    )
                    toll.add(job, name, fault(job, place, rng, expected))
                    shutil.rmtree(place)
    return toll


def _load(arguments: list[str]) -> None:
    """Run once in this process, so that its forks find every module loaded, those without privileges too."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        cli.run(arguments)


def _folder(parent: Path, name: str) -> Path:
    place = parent / "".join(c if c.isalnum() else "-" for c in name)
    place.mkdir()
    return place
