"""What may be changed in a file, and how a module is loaded with one such change; no file changes."""

import ast
import importlib.abc
import importlib.util
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_PAIRS = (("minimum", "maximum"), ("min", "max"), ("ceil", "floor"), ("any", "all"))
CALLS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_CHOICES = (ast.Assign, ast.AnnAssign)
"""What stands at the top of a module: named numbers, which are choices and no logic."""
TOLD = {"refuse", "InputError", "cast", "TypeVar", "Literal", "Field", "unknown_name"}
"""Calls whose arguments are words."""
ROUNDED = {"round", "significant", "shortened"}
"""Calls whose last argument is a number of digits, which is a choice."""


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, what it was and what it is, the number of the place within the file,
    and lines of which a test has to run one if it is to notice.
    """

    path: Path
    line: int
    what: str
    place: int
    lines: range

    @property
    def name(self) -> str:
        """For a report."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    """(node, what changes, how) of everything that may be changed; words, types and refusals are left
    alone.
    """
    left = (part for part in ast.iter_child_nodes(tree) if not isinstance(part, _CHOICES))
    parts = (part for part in left if not _for_types(part) and not _draws(part))
    for node in (node for part in parts for node in _code(part)):
        if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
            new = SWAPS[type(node.op)]
            yield (
                node,
                f"{type(node.op).__name__} -> {new.__name__}",
                lambda n, new=new: setattr(n, "op", new()),
            )
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            new = SWAPS[type(node.ops[0])]
            old = type(node.ops[0]).__name__
            yield node, f"{old} -> {new.__name__}", lambda n, new=new: n.ops.__setitem__(0, new())
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            if node.value in (0, 1) or type(node.value) is int:
                value = node.value + 1
            else:
                value = node.value * 2
            yield node, f"{node.value} -> {value}", lambda n, value=value: setattr(n, "value", value)
        if isinstance(node, (ast.If, ast.IfExp)):
            yield (
                node,
                "condition -> not condition",
                lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test)),
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield node, "minus -> plus", lambda n: setattr(n, "op", ast.UAdd())
        if isinstance(node, ast.Attribute) and node.attr in CALLS and getattr(node.value, "id", "") == "np":
            yield node, f"{node.attr} -> {CALLS[node.attr]}", lambda n: setattr(n, "attr", CALLS[n.attr])
        if isinstance(node, ast.Name) and node.id in CALLS:
            yield node, f"{node.id} -> {CALLS[node.id]}", lambda n: setattr(n, "id", CALLS[n.id])


def _draws(part: ast.AST) -> bool:
    """A function that makes a picture, which is looked at."""
    return any(getattr(by, "id", "") == "styled" for by in getattr(part, "decorator_list", ()))


def _for_types(part: ast.AST) -> bool:
    """Imports that only a type checker makes."""
    return isinstance(part, ast.If) and getattr(part.test, "id", "") == "TYPE_CHECKING"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that compute something."""
    yield node
    for name, inner in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "msg", "slice") or isinstance(node, ast.Raise):
            continue
        if name == "args" and getattr(getattr(node, "func", None), "id", None) in ROUNDED:
            inner = inner[:1]
        for child in inner if isinstance(inner, list) else [inner]:
            called = getattr(child, "func", None)
            if getattr(called, "id", getattr(called, "attr", None)) in TOLD or isinstance(
                child, (ast.JoinedStr, ast.Raise)
            ):
                continue
            if isinstance(child, ast.AST):
                yield from _code(child)


def of_file(path: Path) -> list[Mutant]:
    """All of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = _lines(tree)
    return [
        Mutant(path, getattr(node, "lineno", 0), what, number, lines[node])
        for number, (node, what, _) in enumerate(places(tree))
    ]


def _lines(tree: ast.Module) -> dict[ast.AST, range]:
    """Node -> the lines of its statement, of a default those of its function, of a field those of the
    file.
    """
    found: dict[ast.AST, range] = {}
    for outer in ast.walk(tree):  # what is inside comes later
        for part in ast.iter_child_nodes(outer):
            if isinstance(part, ast.stmt):
                body = getattr(part, "body", None)
                lines = range(
                    part.lineno, max(part.lineno + 1, body[0].lineno if body else part.end_lineno + 1)
                )
                if isinstance(outer, ast.ClassDef) and isinstance(part, _CHOICES):
                    lines = range(1, 10_000)
                found |= dict.fromkeys(ast.walk(part), lines)
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found |= dict.fromkeys(ast.walk(part.args), range(part.body[0].lineno, part.end_lineno + 1))
    return found


def install(path: Path, place: int) -> None:
    """Load this file with this change from now on, in this process."""
    sys.meta_path.insert(0, _Loader(path, place))


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts a mutant in the place of its module."""

    def __init__(self, path: Path, place: int) -> None:
        self.path = path
        self.place = place
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[:1] == ("perfmodel",) else ("perfmodel", *parts)
        self.package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.package else parts)

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self.name:
            return None
        spec = importlib.util.spec_from_loader(fullname, self, origin=str(self.path), is_package=self.package)
        assert spec is not None
        spec.has_location = True
        if self.package:
            spec.submodule_search_locations = [str(self.path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        node, _, change = list(places(tree))[self.place]
        change(node)
        code = ast.unparse(tree)
        # a kernel is read
        linecache.cache[str(self.path)] = (
            len(code),
            None,
            code.splitlines(True),
            str(self.path),
        )
        exec(compile(code, str(self.path), "exec"), module.__dict__)
