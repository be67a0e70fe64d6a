"""``python -m tests.attack [PART ...]``: all attacks, or some (see `PARTS`), and their tables.

What `make attack` runs. Exit status 1 if an input failed.
"""

import contextlib
import fcntl
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perfmodel.writing import write
from tests.attack import (
    assistants,
    better,
    cliffs,
    faults,
    rates,
    readers,
    served,
    surroundings,
    tampered,
    verbs,
    watch,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
SEED = 6240
ALONE = "PERFMODEL_ATTACK"
"""Set in the process of one part."""
READ = 3400
"""Files given to readers."""
TYPED = 2400
"""Command lines."""
SERVED = 3000
"""Requests to the predictor and its server."""
CALLED = 1000
"""Calls of an assistant."""
CHANGED = 150
"""Numbers changed."""
PAIRS = 1500
"""Pairs of questions that differ by one sequence or token."""
BETTER = 10_000
"""Pairs of devices."""
LOADS = 2000
"""Pairs of loads."""
KILLS = 100
EACH = 4
"""Other faults of each kind."""
JOBS = max(len(os.sched_getaffinity(0)), 1)
Part = tuple[list[str], bool]
"""Lines of a table, and whether no input failed."""
Attack = Callable[[watch.Tally, Path], None]


def attacked(attack: Attack) -> watch.Tally:
    """What an attack found in a folder to lose."""
    tally = watch.Tally()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        attack(tally, Path(folder))
    for fault in tally.faults:
        print(fault)
    return tally


def tallied(head: str, attack: Attack) -> Part:
    """A table with a row for each name that an attack counts, and the sum of them."""
    tally = attacked(attack)
    through = {name: sum(fault.startswith(f"{name}: ") for fault in tally.faults) for name in tally.tried}
    counts = [list(column.values()) for column in (tally.tried, tally.refused, through)]
    return _table(head, list(tally.tried), counts), not tally.faults


def spoiled(tally: watch.Tally, folder: Path) -> None:
    """Spoiled files and command lines."""
    readers.attack(tally, folder, SEED, READ)
    verbs.attack(tally, SEED, TYPED)
    surroundings.attack(tally, folder)
    served.attack(tally, SEED, SERVED)
    assistants.attack(tally, folder, SEED, CALLED)


def broken() -> Part:
    """Kills and other faults, by job."""
    tally = attacked(lambda tally, folder: faults.attack(tally, folder, SEED, KILLS, EACH))
    runs = list(dict.fromkeys(name.partition(": ")[0] for name in tally.tried))
    counts = [[tally.tried.get(f"{run}: {name}", 0) for run in runs] for name in faults.FAULTS]
    lines = _table(" | ".join(["run", *faults.FAULTS]), runs, counts)
    return [*lines, "", f"{len(tally.faults)} files were lost, incomplete or different."], not tally.faults


def _table(head: str, names: list[str], counts: list[list[int]]) -> list[str]:
    """A row for each name, and the sums of the columns of counts."""
    rows = [*zip(names, *counts, strict=True), ("**all**", *map(sum, counts))]
    return [
        f"| {head} |",
        "| :-- |" + " --: |" * len(counts),
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


PARTS: dict[str, Callable[[], Part]] = {  # the longest first
    "inputs": lambda: tallied("file or command | inputs | refused in one line | failed", spoiled),
    "faults": broken,
    "rates": lambda: tallied(
        "load | pairs of questions | refused | shorter",
        lambda tally, _: rates.attack(tally, SEED, LOADS),
    ),
    "better": lambda: tallied(
        "increased figure | pairs of questions | refused | slower",
        lambda tally, folder: better.attack(tally, folder, SEED, BETTER),
    ),
    "cliffs": lambda: tallied(
        "difference of the two questions | pairs | explained by a warning | not explained",
        lambda tally, _: cliffs.attack(tally, SEED, PAIRS),
    ),
    "gate": lambda: tallied(
        "folder of the data | numbers changed | refused | unseen",
        lambda tally, at: tampered.attack(tally, at, SEED, CHANGED),
    ),
}


def _write(name: str, lines: list[str]) -> None:
    """Put a table in its place; nothing else of the page changes, also if another part writes at once."""
    with Path(__file__).open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        head, marker, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- table: {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not (marker and end):
            raise RuntimeError(f"{PAGE}: must have a place for the table {name}")
        write(PAGE, "\n".join([head + marker, *lines, "", end + tail]))


def main(chosen: list[str]) -> int:
    """Run the parts, each in a process of its own with one thread, as many at once as there are processors,
    and write their tables: exit status.
    """
    names = chosen or list(PARTS)
    if len(names) > 1 or ALONE not in os.environ:
        alone = dict.fromkeys((ALONE, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1") | os.environ
        commands = [[sys.executable, "-m", "tests.attack", name] for name in names]
        with ThreadPoolExecutor(JOBS) as pool:
            return max(pool.map(lambda command: subprocess.call(command, env=alone), commands))
    begun = time.monotonic()
    lines, fine = PARTS[names[0]]()
    computed = sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    verdict = "as it should be" if fine else "SOMETHING GOT THROUGH"
    print(f"{names[0]}: {verdict} ({time.monotonic() - begun:.0f} s, {computed:.0f} s of processor time)")
    _write(names[0], lines)
    return int(not fine)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # a server's threads need not be waited for
