"""What a run leaves behind when it is killed, the disk is full, the folder is read-only, or two write at once.

Half of the kills come at a random moment, half just before or after one of the calls that change files.
"""

import contextlib
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from perfmodel import cli
from tests.attack.forks import Ending, finish, run, start
from tests.attack.jobs import Job, jobs
from tests.attack.watch import Tally
from tests.validate.engine.server import Engine, serving

NOBODY = 65534


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
        if job.results(folder):
            break
    return killed, _goes_on(job, folder, expected, kept)


def _after(job: Job, folder: Path, kept: set[str]) -> str | None:
    """What is wrong with a folder: a half file, or a finished row that is gone. Adds the rows to `kept`."""
    for path in job.results(folder):
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


def unprivileged() -> None:
    """Become a user who may write to no folder of the tree."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def read_only(job: Job, folder: Path, rng: Random, expected: bytes) -> str | None:
    """Nothing may be made in the folder: one line, and nothing is."""
    arguments = job.arguments(folder, False)
    folder.chmod(0o555)
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
    return _goes_on(job, folder, expected)


def _refused(job: Job, folder: Path, ended: Ending, empty: bool = True) -> str | None:
    lines = [line for line in ended.said.splitlines() if line and not line.startswith(("WARNING", "next:"))]
    if ended.status == 0:
        return None
    if ended.status != 2 or not lines or not lines[-1].startswith("error: ") or "Traceback" in ended.said:
        return f"status {ended.status}: {ended.said[-300:]!r}"
    if empty and job.results(folder):
        return "a refused run left a result"
    return None


def _goes_on(job: Job, folder: Path, expected: bytes, kept: set[str] | None = None) -> str | None:
    """What is wrong with a job that is begun again, and again where it says which file to delete."""
    for attempt in range(2):
        ended = None if job.results(folder) else run(job.arguments(folder, True))
        if ended and ended.status and (attempt or "delete the file" not in ended.said):
            return f"could not go on: {ended.status}: {ended.said[-300:]!r}"
        if ended and ended.status:  # cut off before its first line
            for path in folder.glob("t-1/*.journal"):
                path.unlink()
    fault = _after(job, folder, set() if kept is None else kept)
    finished = job.results(folder)
    if fault or not finished:
        return fault or "no result"
    if job.same and finished[0].read_bytes() != expected:
        return "the result differs from that of an undisturbed run"
    return None


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


def attack(tally: Tally, folder: Path, seed: int, kills: int, others: int) -> None:
    """At least `kills` kills over all jobs, and `others` of each other fault; all follow from the seed but for time."""
    folder.chmod(0o755)
    with prepared() as every:
        for job in every:
            _load(job.arguments(_folder(folder, f"{job.name} loaded"), False))
            whole = _folder(folder, f"{job.name} undisturbed")
            reference = run(job.arguments(whole, False))
            if reference.status:
                tally.count(f"{job.name}: undisturbed", False, f"{reference.status}: {reference.said[-300:]!r}")
                continue
            expected = job.results(whole)[0].read_bytes()
            wanted, done, number = kills / len(every), 0, 0
            while done < wanted and number < 10 * kills:
                number += 1
                place, rng = _folder(folder, f"{job.name} {number}"), Random(f"{seed}:{job.name}:{number}")
                killed, found = kill(job, place, rng, reference, expected)
                for one in range(killed):
                    tally.count(f"{job.name}: kill -9", False, found if one == 0 else None)
                if found and not killed:
                    tally.faults.append(f"{job.name}: {found}")
                done += killed
                shutil.rmtree(place)
            for name, fault in FAULTS.items():
                for number in range(others):
                    place = _folder(folder, f"{job.name} {name} {number}")
                    rng = Random(f"{seed}:{job.name}:{name}:{number}")
                    tally.count(f"{job.name}: {name}", False, fault(job, place, rng, expected))
                    shutil.rmtree(place)


def _load(arguments: list[str]) -> None:
    """Run once in this process, so that its forks find every module loaded, those without privileges too."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        cli.run(arguments)


def _folder(parent: Path, name: str) -> Path:
    place = parent / "".join(c if c.isalnum() else "-" for c in name)
    place.mkdir()
    return place
