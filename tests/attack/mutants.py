"""Mutants: one operator, number or condition of a file is changed, and the tests of that file have to notice.

A mutant lives in the memory of a forked process and its children; no file changes.
"""

import contextlib
import importlib.abc
import importlib.util
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import coverage
import pytest

from tests.attack.changes import ROOT, Mutant, install, of_file
from tests.attack.forks import FORK

PICTURES = ("plots", "explorer")
"""Folders whose results are looked at, not computed with."""
ALL = ("tests/test_by_hand.py", "tests/test_pinned.py", "tests/test_terms.py", "tests/test_front_door.py")
"""Tests of every folder of the engine: numbers worked by hand, answers that stay as they are, and what Python
is offered.
"""
TOP = {
    "perfmodel": (
        "tests/test_parse.py",
        "tests/test_reading.py",
        "tests/test_writing.py",
        "tests/costs",
        "tests/cli",
        *ALL,
    ),
    "validate": ("tests/validate/fit",),
}
"""The tests of modules that are in no folder of their own."""
JOBS = os.cpu_count() or 1
STARTS_S, TIMES, LONGEST_S = 10.0, 3, 900.0
"""Processor time that a run takes to begin, times what its tests take with the code as it is: one that takes
longer does not end, which is seen too; and the most for tests of which that is not known yet.
"""
OTHERS_S = 20.0
"""Processor time for the quickest of the tests of other folders that reach a mutant, and of those beside the
tests of its own folder that do.
"""
WAITS = 4
"""A run may wait so many times as long as it may compute, and longer on a busy machine."""
MEMORY_BYTES = 8 * 2**30
CRASHED = 77
"""Exit status where the tests could not be run at all: that is no mutant killed."""


@cache
def folders() -> dict[str, tuple[str, ...]]:
    """Folder of code -> the tests of it, and no others: of the same name, or those of the folder above it."""
    found = dict(TOP)
    for top, tests in (("perfmodel", "tests"), ("validate", "tests/validate")):
        for path in sorted((ROOT / top).rglob("*.py")):
            place = path.parent.relative_to(ROOT / top)
            if place.parts and place.parts[0] not in (*PICTURES, "validate"):
                own = next(p for p in (place, *place.parents) if (ROOT / tests / p).is_dir())
                if own.parts:
                    found[f"{top}/{place.as_posix()}"] = (
                        f"{tests}/{own.as_posix()}",
                        *ALL * (top == "perfmodel"),
                    )
    return found


@cache
def mutants() -> list[Mutant]:
    """All of them, file by file."""
    paths = (path for folder in folders() for path in sorted((ROOT / folder).glob("*.py")))
    return [mutant for path in paths for mutant in of_file(path)]


class Watch:
    """A plugin of pytest: the processor time of each test, which is the context of the lines that it runs."""

    def __init__(self, cover: coverage.Coverage) -> None:
        self.cover = cover
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = _computed_s()
        self.cover.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.cover.switch_context("")
            self.seconds[item.nodeid] = _computed_s() - begun


@dataclass(frozen=True)
class Reached:
    """The processor time of each test, and (file, line) -> tests that run it, or modules as they are
    collected.
    """

    seconds: dict[str, float]
    lines: dict[Path, dict[int, set[str]]]

    def among(self, mutant: Mutant) -> set[str]:
        """Tests, and modules as they are collected, that run one of the mutant's lines; else tests that run
        the nearest line above it: of a frame that calls `asyncio.run`, coverage may lose all lines after
        that.
        """
        lines = self.lines.get(mutant.path, {})
        found = set().union(*(lines.get(line, ()) for line in mutant.lines))
        above = max((line for line in lines if line < mutant.line), default=0)
        return found or {test for test in lines.get(above, ()) if "::" in test}


def _computed_s() -> float:
    """Processor time of this process and of the children that ended."""
    return sum(os.times()[:4])


class _Reaching:
    """A plugin of pytest: only these tests of some modules, the quickest first; all of a module that is
    named.
    """

    def __init__(self, tests: Collection[str], seconds: dict[str, float]) -> None:
        self.rank = {test: seconds.get(test, LONGEST_S) for test in tests}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        ranks = {i: self.rank.get(i.nodeid, self.rank.get(i.nodeid.partition("::")[0])) for i in items}
        items[:] = sorted((i for i in items if ranks[i] is not None), key=lambda i: ranks[i] or 0.0) or items


def passes(mutant: Mutant | None, tests: Iterable[str], *plugins: object) -> int:
    """What pytest says of fast tests with a mutant (None: the code as it is); for a fork, whose output goes
    nowhere.
    """
    os.chdir(ROOT)
    out = os.open(os.devnull, os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("perfmodel", "tests")]:
        del sys.modules[name]  # read again, one of them as a mutant
    os.environ["PYTHONPATH"] = str(Path(__file__).with_name("child"))
    if mutant is not None:
        os.environ["MUTANT"] = f"{mutant.path}:{mutant.place}"
        install(mutant.path, mutant.place)
    options = [
        "-x",
        "-q",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        "-m",
        "not slow",
    ]
    return int(pytest.main([*options, *tests], plugins=plugins))


def in_forks(calls: Iterable[tuple[Callable[[], int], float]]) -> Iterator[tuple[int, int]]:
    """(number, exit status) of each call as it ends, `JOBS` at once, none with more than its processor
    time.
    """
    waiting = enumerate(calls)
    running = dict[int, tuple[BaseProcess, float]]()
    while True:
        for number, (call, limit_s) in itertools.islice(waiting, JOBS - len(running)):
            child = FORK.Process(target=_limited, args=(call, limit_s))
            child.start()
            busy = max(1.0, os.getloadavg()[0] / JOBS)
            running[number] = child, time.monotonic() + WAITS * busy * limit_s
        if not running:
            return
        time.sleep(0.01)
        for number, (child, end) in list(running.items()):
            if child.exitcode is not None or time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid or 0, signal.SIGKILL)  # with what its tests have left running
                child.join()
                del running[number]
                yield number, child.exitcode or 0


def _limited(call: Callable[[], int], limit_s: float) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        status = call()
    except BaseException:
        status = CRASHED
    os._exit(status)


def reached(tests: Collection[str]) -> Reached:
    """What each test in some folders and modules runs, with the code as it is; modules that fail, as by a
    limit of time on a busy machine, are named and left out.
    """
    _load()
    below = [path for name in tests for path in (ROOT / name).rglob("test_*.py")]
    modules = sorted(
        {str(path.relative_to(ROOT)) for path in below} | {name for name in tests if ".py" in name},
        key=lambda name: ("mark.long" not in (ROOT / name).read_text(encoding="utf-8"), name),
    )
    found = Reached({}, {})
    with tempfile.TemporaryDirectory() as folder:
        calls = [(partial(_watched, module, f"{folder}/{i}"), LONGEST_S) for i, module in enumerate(modules)]
        for number, status in in_forks(calls):
            if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                print(f"{modules[number]} is left out: it fails with the code as it is", flush=True)
                continue
            found.seconds.update(json.loads(Path(f"{folder}/{number}.json").read_text(encoding="utf-8")))
            for path in Path(folder).glob(f"{number}.data.*"):
                data = coverage.CoverageData(str(path))
                data.read()
                for file in data.measured_files():
                    lines = found.lines.setdefault(Path(file), {})
                    for line, contexts in data.contexts_by_lineno(file).items():
                        parts = (context.partition("|") for context in contexts)
                        lines.setdefault(line, set()).update(test or module for module, _, test in parts)
    return found


def _watched(module: str, kept: str) -> int:
    """Exit status of a test module with the code as it is; its times and its lines are in files."""
    os.environ["COVERED"] = f"{kept}.data"
    cover = coverage.Coverage(
        f"{kept}.data", True, include=[f"{ROOT}/{top}/*" for top in TOP], context=module, messages=False
    )
    watch = Watch(cover)
    with cover.collect():
        status = passes(None, [module], watch)
    cover.save()
    Path(f"{kept}.json").write_text(json.dumps(watch.seconds), encoding="utf-8")
    return status


def survive(chosen: Sequence[Mutant], known: Reached) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether all tests that reach it pass: first those of its folder, then the others and
    those of the same modules.
    """
    left = list(chosen)
    for own in (True, False):
        calls = []
        for mutant in left:
            reach = known.among(mutant)
            place = folders()[_folder(mutant)]
            tests = {test for test in reach if test.startswith(place) == own}
            if not own:  # and those that use what the first test of their module made: a fixture, a cache
                modules = tuple(f"{test.partition('::')[0]}::" for test in reach - tests)
                beside = {test for test in known.seconds if test.startswith(modules)}
                tests = _quickest(tests | beside - reach, known.seconds)
            paths = sorted({test.partition("::")[0] for test in tests})
            limit_s = STARTS_S + TIMES * sum(
                s for test, s in known.seconds.items() if test.partition("::")[0] in paths
            )
            if tests:
                calls.append(
                    (mutant, partial(passes, mutant, paths, _Reaching(tests, known.seconds)), limit_s)
                )
        calls.sort(key=lambda each: -each[2])  # the longest first, so that all processes end together
        for number, status in in_forks((call, limit_s) for _, call, limit_s in calls):
            mutant = calls[number][0]
            if status in (CRASHED, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
                raise RuntimeError(f"pytest did not run; nothing is known of {mutant.name}")
            if status != 0:
                left.remove(mutant)
                yield mutant, False
    yield from ((mutant, True) for mutant in left)


def _quickest(tests: Collection[str], seconds: dict[str, float]) -> set[str]:
    """As many as `OTHERS_S` allows."""
    ranked = sorted((seconds.get(test, OTHERS_S), test) for test in tests)
    ends = itertools.accumulate(taken for taken, _ in ranked)
    return {test for end, (_, test) in zip(ends, ranked, strict=True) if end <= OTHERS_S}


def _load() -> None:
    """Import what tests need before forking: a run then takes seconds less."""
    for name in (
        "hypothesis",
        "numpy",
        "pandas",
        "scipy.optimize",
        "torch",
        "transformers",
        "yaml",
    ):
        importlib.import_module(name)


def attack(
    seeds: Sequence[int], count: int, tell: Callable[[str], None]
) -> tuple[dict[str, list[int]], dict[int, list[str]]]:
    """Code folder -> [mutants, killed] over all seeds, and seed -> its survivors."""
    every = mutants()
    chosen = {seed: Random(seed).sample(every, min(count, len(every))) for seed in seeds}
    once = list(dict.fromkeys(mutant for some in chosen.values() for mutant in some))
    known = reached(sorted({tests for mutant in once for tests in folders()[_folder(mutant)]}))
    alive: dict[Mutant, bool] = {}
    for mutant, survived in survive(once, known):
        alive[mutant] = survived
        tell(f"{len(alive)}/{len(once)} {'SURVIVED' if survived else 'killed'} {mutant.name}")
    scores: dict[str, list[int]] = {}
    for mutant, survived in sorted(alive.items(), key=lambda item: item[0].name):
        score = scores.setdefault(_folder(mutant), [0, 0])
        score[0] += 1
        score[1] += not survived
    return scores, {seed: [mutant.name for mutant in some if alive[mutant]] for seed, some in chosen.items()}


def _folder(mutant: Mutant) -> str:
    return mutant.path.parent.relative_to(ROOT).as_posix()
