"""What a run leaves behind when it is killed, the disk is full, the folder is read-only, or two write at
once.

Half of the kills come at a random moment, half just before or after one of the calls that change files.
"""

import contextlib
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from perfmodel import cli
from tests.attack.forks import Ending, run, start
from tests.attack.jobs import Job, jobs, rows
from tests.attack.watch import Tally
from tests.validate.engine.server import Engine, serving

NOBODY = 65534
STEP_S = 0.005
"""Time of a step of the server that is measured."""
AGAIN = "--resume measures them again"
"""What a run says whose points failed: on a busy machine two tokens may come at once."""
ATTEMPTS = 4


@dataclass(frozen=True)
class Whole:
    """How a job ends that nothing disturbs, and what it leaves."""

    ended: Ending
    left: bytes


Wrong = str | None
"""What is wrong, if anything is."""


def kill(job: Job, folder: Path, rng: Random, whole: Whole) -> tuple[int, Wrong]:
    """Kill a job one to three times, then let it finish: (kills, what is wrong)."""
    kept: set[str] = set()
    killed = 0
    for attempt in range(rng.choice((1, 1, 2, 3))):
        moment = {"stop_s": rng.uniform(0.0, whole.ended.seconds)}
        call = {"stop_call": rng.randrange(1, max(2, whole.ended.calls + 1))}
        ended = run(job.arguments(folder), **(moment if rng.random() < 0.5 else call))
        if ended.status not in (-9, 0) and AGAIN not in ended.stderr:
            return killed, f"attempt {attempt} ended with {ended.status}: {ended.stderr[-300:]!r}"
        if fault := after(job, folder, kept):
            return killed, fault
        killed += ended.status == -9
        if job.results(folder):
            break
    return killed, _goes_on(job, folder, whole, kept)


def after(job: Job, folder: Path, kept: set[str]) -> Wrong:
    """What is wrong with a folder: a half file, or a finished row that is gone. Adds the rows to `kept`."""
    now = rows(folder)
    lost = kept - now
    kept |= now
    return job.half(folder) or (f"{len(lost)} finished rows are gone" if lost else None)


def full_disk(job: Job, folder: Path, rng: Random, whole: Whole) -> tuple[int, Wrong]:
    """No file may grow beyond a few bytes: one line, no half file, and the job goes on when there is room."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = rng.randrange(1, max(2, len(whole.left)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return 1, _refused(job, folder, run(job.arguments(folder), before=limit)) or _goes_on(job, folder, whole)


def unprivileged() -> None:
    """Become a user who may write to no folder of the tree."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def read_only(job: Job, folder: Path, rng: Random, whole: Whole) -> tuple[int, Wrong]:
    """Nothing may be made in the folder: one line, and nothing is."""
    folder.chmod(0o555)
    try:
        ended = run(job.arguments(folder), before=unprivileged)
    finally:
        folder.chmod(0o755)
    return 1, _refused(job, folder, ended) or (None if ended.status else "status 0") or _goes_on(
        job, folder, whole
    )


def two_writers(job: Job, folder: Path, rng: Random, whole: Whole) -> tuple[int, Wrong]:
    """Two at once: each finishes or says in one line why not, and the file is one run's."""
    ended = [running.finish() for running in [start(arguments) for arguments in [job.arguments(folder)] * 2]]
    wrong = [fault for one in ended if (fault := _refused(job, folder, one, empty=False))]
    if all(one.status for one in ended):
        wrong.append("neither of two finished")
    return 1, wrong[0] if wrong else _goes_on(job, folder, whole)


def _refused(job: Job, folder: Path, ended: Ending, empty: bool = True) -> Wrong:
    lines = [line for line in ended.stderr.splitlines() if line and not line.startswith(("WARNING", "next:"))]
    if "Traceback" in ended.stderr:
        return f"status {ended.status}: {ended.stderr[-300:]!r}"
    if ended.status == 0 or AGAIN in ended.stderr:
        return None
    if ended.status != 2 or not lines or not lines[-1].startswith("error: "):
        return f"status {ended.status}: {ended.stderr[-300:]!r}"
    return "a refused run left a result" if empty and job.results(folder) else None


def _goes_on(job: Job, folder: Path, whole: Whole, kept: set[str] | None = None) -> Wrong:
    """What is wrong with a job that is begun again, and again where it says so or which file to delete."""
    for attempt in range(ATTEMPTS):
        ended = None if job.results(folder) else run(job.arguments(folder))
        if ended is None or not ended.status:
            break
        torn = not attempt and "delete the file" in ended.stderr  # cut off before its first line
        if not torn and AGAIN not in ended.stderr:
            return f"could not go on: {ended.status}: {ended.stderr[-300:]!r}"
        for path in folder.glob("t-1/*.journal") if torn else ():
            path.unlink()
    fault = after(job, folder, set() if kept is None else kept)
    finished = job.results(folder)
    if fault or not finished:
        return fault or "no result"
    same = job.resumes or finished[0].read_bytes() == whole.left
    return None if same else "the result differs from that of an undisturbed run"


FAULTS: dict[str, Callable[[Job, Path, Random, Whole], tuple[int, Wrong]]] = {
    "kill -9": kill,
    "full disk": full_disk,
    "read-only folder": read_only,
    "two writers": two_writers,
}
"""Each says how often it struck, and what was wrong."""


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[tuple[Job, ...]]:
    """The jobs, with what they import loaded once, one thread for each, and a server for the engine's."""
    os.environ["PERFMODEL_COMMIT"] = "0123456789abcdef"
    import torch

    import perfmodel.validate.cli
    import perfmodel.validate.harness.measure  # noqa: F401

    torch.set_num_threads(1)
    with serving(Engine(step_s=STEP_S)) as url:
        yield jobs(url, folder)


def attack(tally: Tally, folder: Path, seed: int, kills: int, others: int) -> None:
    """At least `kills` kills over all jobs, and `others` of each other fault; all follow from the seed but
    for time.
    """
    folder.chmod(0o755)
    with prepared(folder) as every:
        for job in every:
            _load(job.arguments(_folder(folder, f"{job.name} loaded")))
            place = _folder(folder, f"{job.name} undisturbed")
            ended = run(job.arguments(place))
            if ended.status:
                tally.count(f"{job.name}: undisturbed", False, f"{ended.status}: {ended.stderr[-300:]!r}")
                continue
            whole = Whole(ended, job.results(place)[0].read_bytes())
            for name, fault in FAULTS.items():
                wanted = kills / len(every) if fault is kill else others
                done = 0
                number = 0
                while done < wanted and number < 10 * kills:
                    number += 1
                    place = _folder(folder, f"{job.name} {name} {number}")
                    times, wrong = fault(job, place, Random(f"{seed}:{job.name}:{name}:{number}"), whole)
                    tally.count(f"{job.name}: {name}", False, wrong, times)
                    done += times
                    shutil.rmtree(place)


def _load(arguments: list[str]) -> None:
    """Run once in this process, so that its forks find every module loaded, those without privileges too."""
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        cli.run(arguments)


def _folder(parent: Path, name: str) -> Path:
    place = parent / "".join(c if c.isalnum() else "-" for c in name)
    place.mkdir()
    return place
