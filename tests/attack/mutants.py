"""Mutants: one operator, number or condition of a file is changed, and the tests of that file have to notice.

A mutant lives in the memory of a forked process; no file changes.
"""

import ast
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
PICTURES = ("plots", "explorer")
"""Folders whose results are looked at, not computed with."""
TIMES = 3
"""A run that takes so many times as long as that of the code as it is does not end: that is seen too."""
CRASHED = 77
"""Exit status where the tests could not be run at all: that is no mutant killed."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLS = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
}
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
    for node in (node for part in ast.iter_child_nodes(tree) if not isinstance(part, _CHOICES) for node in _code(part)):
        if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
            new = SWAPS[type(node.op)]
            yield node, f"{type(node.op).__name__} -> {new.__name__}", lambda n, new=new: setattr(n, "op", new())
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            new = SWAPS[type(node.ops[0])]
            yield (
                node,
                f"{type(node.ops[0]).__name__} -> {new.__name__}",
                lambda n, new=new: n.ops.__setitem__(0, new()),
            )
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
def folders() -> dict[str, str]:
    """Folder of code -> the tests of it, and no others: of the same name, or those of the folder above it."""
    found = {}
    for top, tests in (("perfmodel", "tests"), ("validate", "tests/validate")):
        for path in sorted((ROOT / top).rglob("*.py")):
            place = path.parent.relative_to(ROOT / top)
            if place.parts and place.parts[0] not in (*PICTURES, "validate"):
                own = next(p for p in (place, *place.parents) if (ROOT / tests / p).is_dir())
                if own.parts:
                    found[f"{top}/{place.as_posix()}"] = f"{tests}/{own.as_posix()}"
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


def survives(mutant: Mutant | None, tests: str, limit_s: float = 3600.0) -> bool:
    """Whether a folder's fast tests pass with the mutant (None: the code as it is), within some time."""
    child = os.fork()
    if child == 0:
        try:
            status = _test(mutant, tests)
        except BaseException:
            status = CRASHED
        os._exit(status)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if (code := os.waitstatus_to_exitcode(status)) == CRASHED:
                raise RuntimeError(f"{tests}: pytest itself did not run; nothing is known of {mutant}")
            return code == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _test(mutant: Mutant | None, tests: str) -> int:
    import pytest

    os.setpgid(0, 0)
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("perfmodel", "tests")]:
        del sys.modules[name]  # read again, one of them as a mutant
    sys.meta_path.insert(0, _Loader(mutant))
    options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    first = sorted(map(str, Path(tests).glob(f"test_{mutant.path.stem}*.py"))) if mutant else []  # most likely notice
    return int(pytest.main([*options, "-m", "not slow", *first, tests]))


def attack(seed: int, count: int, tell: Callable[[str], None]) -> tuple[dict[str, list[int]], list[str]]:
    """Code folder -> [mutants, killed], and the survivors. Raises RuntimeError where the code as it is fails."""
    import hypothesis  # noqa: F401  imported before forking, as is what follows: a run then takes a second less
    import numpy  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401
    import yaml  # noqa: F401

    every = mutants()
    chosen = Random(seed).sample(every, min(count, len(every)))
    scores: dict[str, list[int]] = {folder: [0, 0] for folder in map(_folder, chosen)}
    survivors = []
    limits = {folder: TIMES * _seconds(folders()[folder]) for folder in {_folder(mutant) for mutant in chosen}}
    for number, mutant in enumerate(chosen, 1):
        folder = _folder(mutant)
        alive = survives(mutant, folders()[folder], limits[folder])
        scores[folder][0] += 1
        scores[folder][1] += not alive
        if alive:
            survivors.append(mutant.name)
        tell(f"{number}/{len(chosen)} {'SURVIVED' if alive else 'killed'} {mutant.name}")
    return scores, survivors


def _seconds(tests: str) -> float:
    """Time that a folder's tests take with the code as it is. Raises RuntimeError where they fail."""
    begun = time.monotonic()
    if not survives(None, tests):
        raise RuntimeError(f"{tests}: must pass before anything is changed")
    return time.monotonic() - begun


def _folder(mutant: Mutant) -> str:
    return mutant.path.parent.relative_to(ROOT).as_posix()
