"""Mutants: one operator, number or condition of a file is changed, and the tests of that file have to notice.

A mutant lives in the memory of a forked process; no file changes.
"""

import ast
import contextlib
import importlib.abc
import importlib.util
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from types import FrameType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ("plots", "explorer")
"""Folders whose results are looked at, not computed with."""
ALL = ("tests/test_by_hand.py", "tests/test_pinned.py")
"""Tests of every folder of the engine: numbers worked by hand, and answers of all verbs that stay as they are."""
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
"""Processor time that a run takes to begin, times what its tests take with the code as it is: one that takes longer
does not end, which is seen too; and the most for tests of which that is not known yet."""
WAITS = 4
"""A run may wait so many times as long as it may compute."""
MEMORY_BYTES = 8 * 2**30
CRASHED = 77
"""Exit status where the tests could not be run at all: that is no mutant killed."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_PAIRS = (("minimum", "maximum"), ("min", "max"), ("ceil", "floor"), ("any", "all"))
CALLS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_CHOICES = (ast.Assign, ast.AnnAssign)
"""What stands at the top of a module: named numbers, which are choices and no logic."""
TOLD = {"refuse", "InputError", "cast", "TypeVar", "Literal", "Field", "unknown_name"}
"""Calls whose arguments are words."""


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, what it was and what it is, and the number of the place within the file."""

    path: Path
    line: int
    what: str
    place: int

    @property
    def name(self) -> str:
        """For a report."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    """(node, what changes, how) of everything that may be changed; words, types and refusals are left alone."""
    parts = (part for part in ast.iter_child_nodes(tree) if not isinstance(part, _CHOICES) and not _for_types(part))
    for node in (node for part in parts for node in _code(part)):
        if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
            new = SWAPS[type(node.op)]
            yield node, f"{type(node.op).__name__} -> {new.__name__}", lambda n, new=new: setattr(n, "op", new())
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            new, old = SWAPS[type(node.ops[0])], type(node.ops[0]).__name__
            yield node, f"{old} -> {new.__name__}", lambda n, new=new: n.ops.__setitem__(0, new())
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            value = node.value + 1 if node.value in (0, 1) or type(node.value) is int else node.value * 2
            yield node, f"{node.value} -> {value}", lambda n, value=value: setattr(n, "value", value)
        if isinstance(node, (ast.If, ast.IfExp)):
            yield node, "condition -> not condition", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield node, "minus -> plus", lambda n: setattr(n, "op", ast.UAdd())
        if isinstance(node, ast.Attribute) and node.attr in CALLS and getattr(node.value, "id", "") == "np":
            yield node, f"{node.attr} -> {CALLS[node.attr]}", lambda n: setattr(n, "attr", CALLS[n.attr])
        if isinstance(node, ast.Name) and node.id in CALLS:
            yield node, f"{node.id} -> {CALLS[node.id]}", lambda n: setattr(n, "id", CALLS[n.id])


def _for_types(part: ast.AST) -> bool:
    """Imports that only a type checker makes."""
    return isinstance(part, ast.If) and getattr(part.test, "id", "") == "TYPE_CHECKING"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that compute something."""
    yield node
    for name, inner in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "msg", "slice") or isinstance(node, ast.Raise):
            continue
        for child in inner if isinstance(inner, list) else [inner]:
            called = getattr(child, "func", None)
            if getattr(called, "id", getattr(called, "attr", None)) in TOLD or isinstance(
                child, (ast.JoinedStr, ast.Raise)
            ):
                continue
            if isinstance(child, ast.AST):
                yield from _code(child)


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
                    found[f"{top}/{place.as_posix()}"] = (f"{tests}/{own.as_posix()}", *ALL * (top == "perfmodel"))
    return found


@cache
def mutants() -> list[Mutant]:
    """All of them, file by file."""
    return [
        Mutant(path, getattr(node, "lineno", 0), what, number)
        for folder in folders()
        for path in sorted((ROOT / folder).glob("*.py"))
        for number, (node, what, _) in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]


def changed(mutant: Mutant) -> ast.Module:
    """The mutant's code."""
    tree = deepcopy(ast.parse(mutant.path.read_text(encoding="utf-8")))
    node, _, change = list(places(tree))[mutant.place]
    change(node)
    return ast.fix_missing_locations(tree)


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts a mutant in the place of its module."""

    def __init__(self, mutant: Mutant | None) -> None:
        self.mutant = mutant
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts if mutant else ()
        parts = parts if parts[:1] == ("perfmodel",) else ("perfmodel", *parts)
        self.package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.package else parts)

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if self.mutant is None or fullname != self.name:
            return None
        where = str(self.mutant.path)
        spec = importlib.util.spec_from_loader(fullname, self, origin=where, is_package=self.package)
        assert spec is not None
        spec.has_location = True
        if self.package:
            spec.submodule_search_locations = [str(self.mutant.path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        assert self.mutant is not None
        exec(compile(changed(self.mutant), str(self.mutant.path), "exec"), module.__dict__)


class Reached:
    """A plugin of pytest: the processor time of each test, and the lines of the tree that it runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[tuple[str, int], set[str]] = {}
        self.wanted: dict[str, bool] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seen: set[tuple[str, int]] = set()

        def line(frame: FrameType, event: str, _: object) -> Any:
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def call(frame: FrameType, event: str, _: object) -> Any:
            name = frame.f_code.co_filename
            return line if self.wanted.setdefault(name, name.startswith(f"{ROOT}/perfmodel/")) else None

        begun = time.process_time()
        sys.settrace(call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.process_time() - begun
            for name, number in seen:
                place = name.removeprefix(f"{ROOT}/").replace("perfmodel/validate/", "validate/")
                self.lines.setdefault((place, number), set()).add(item.nodeid)

    def add(self, seconds: dict[str, float], lines: dict[tuple[str, int], set[str]]) -> None:
        """Join what another run saw."""
        self.seconds |= seconds
        for place, tests in lines.items():
            self.lines.setdefault(place, set()).update(tests)

    def among(self, mutant: Mutant) -> set[str]:
        """Tests that run the mutant's line, else anything of its file, else all."""
        place = str(mutant.path.relative_to(ROOT))
        file = (tests for (name, _), tests in self.lines.items() if name == place)
        return self.lines.get((place, mutant.line)) or set().union(*file) or set(self.seconds)


class _First:
    """A plugin of pytest: some tests first, the quickest of them before the others."""

    def __init__(self, first: Collection[str], seconds: dict[str, float]) -> None:
        self.rank = {test: seconds[test] for test in first}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.rank.get(item.nodeid, 1e9))


def passes(mutant: Mutant | None, tests: Iterable[str], *plugins: object) -> int:
    """What pytest says of the fast tests with a mutant (None: the code as it is); for a fork, whose output is lost."""
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("perfmodel", "tests")]:
        del sys.modules[name]  # read again, one of them as a mutant
    sys.meta_path.insert(0, _Loader(mutant))
    options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", "not slow"]
    return int(pytest.main([*options, *tests], plugins=plugins))


def in_forks(calls: Iterable[tuple[Callable[[], int], float]]) -> Iterator[tuple[int, int]]:
    """(number, exit status) of each call as it ends, `JOBS` at once, none with more than its processor time."""
    waiting, running = enumerate(calls), dict[int, tuple[int, float]]()
    while True:
        for number, (call, limit_s) in islice(waiting, JOBS - len(running)):
            running[_fork(call, limit_s)] = number, time.monotonic() + WAITS * limit_s
        if not running:
            return
        time.sleep(0.01)
        for child, (number, end) in list(running.items()):
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                del running[child]
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # what its tests have left running
                yield number, os.waitstatus_to_exitcode(status)


def _fork(call: Callable[[], int], limit_s: float) -> int:
    child = os.fork()
    if child:
        with contextlib.suppress(PermissionError):
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        status = call()
    except BaseException:
        status = CRASHED
    os._exit(status)


def reached(every: Collection[str]) -> dict[str, Reached]:
    """Tests -> what each of them runs, with the code as it is. Raises RuntimeError where one fails."""
    _load()
    with tempfile.TemporaryDirectory() as folder:
        kept = [Path(folder) / str(number) for number in range(len(every))]

        def watched(tests: str, path: Path) -> int:
            plugin = Reached()
            status = passes(None, [tests], plugin)
            path.write_bytes(pickle.dumps((plugin.seconds, plugin.lines)))
            return status

        calls = [(partial(watched, tests, path), LONGEST_S) for tests, path in zip(every, kept, strict=True)]
        for number, status in in_forks(calls):
            if status:
                raise RuntimeError(
                    f"{list(every)[number]}: must pass before anything is changed, and ends with {status}"
                )
        found = {tests: Reached() for tests in every}
        for path, plugin in zip(kept, found.values(), strict=True):
            plugin.add(*pickle.loads(path.read_bytes()))
    return found


def survive(chosen: Sequence[Mutant], known: dict[str, Reached]) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether the modules of its folder's tests that hold one which reaches it pass all the same."""
    calls = []
    for mutant in chosen:
        ran = Reached()
        for tests in folders()[_folder(mutant)]:
            ran.add(known[tests].seconds, known[tests].lines)
        first = ran.among(mutant)
        paths = sorted({test.partition("::")[0] for test in first})
        limit_s = STARTS_S + TIMES * sum(s for test, s in ran.seconds.items() if test.partition("::")[0] in paths)
        calls.append((partial(passes, mutant, paths, _First(first, ran.seconds)), limit_s))
    for number, status in in_forks(calls):
        if status in (CRASHED, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"pytest did not run; nothing is known of {chosen[number].name}")
        yield chosen[number], status == 0


def _load() -> None:
    """Import what tests need before forking: a run then takes seconds less."""
    for name in ("hypothesis", "numpy", "pandas", "pydantic", "scipy.optimize", "torch", "transformers", "yaml"):
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
