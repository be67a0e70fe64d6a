"""The inputs of the predictions: a fingerprint of each file that enters an answer, to detect changes.

The replayed errors alone would not show a changed standard error, a device without measured rows, a published
figure that changed slightly, or a constant of the code that matters only at its limit.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfmodel.reading import PACKAGE, read_bytes, read_text
from perfmodel.specs import files
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.validate.accuracy.compare import UNGATED
from perfmodel.validate.records import RESULTS

VALIDATE = Path(__file__).parents[1]
OF_RESULTS = ("**/*.json", "**/*.jsonl", "**/*.yaml", "**/*.csv", "**/*.md")
"""Files of results that count: records, the devices and calibrations that they name, tables and pages.
Pictures follow from these.
"""
DIGITS = 16
"""Hexadecimal digits of a fingerprint."""
SHOWN = 60
"""Most characters of a constant that is recorded in full; a longer one has a fingerprint."""


def inputs(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Folder -> its files -> their fingerprints; for units and the code's constants the values."""
    return {
        "gpus": _fingerprints(files.data_directory("gpus"), "*.yaml"),
        "models": _fingerprints(files.data_directory("models"), "*.yaml", "*.csv"),
        "calibrations": _fingerprints(files.data_directory("calibrations"), "*.yaml"),
        "engines": _fingerprints(files.data_directory(""), "*.yaml"),
        "memory": _fingerprints(files.data_directory("memory"), "*.yaml"),
        "results": {
            name: made_of
            for name, made_of in _fingerprints(results, *OF_RESULTS).items()
            if not name.startswith((UNGATED, "accuracy.json"))
        },
        "plans": _fingerprints(VALIDATE, "**/*.yaml"),
        "constants": dict(_constants()),
        "units": {name: json.dumps(factor) for name, factor in FACTORS.items()},
    }


def _fingerprints(folder: Path, *patterns: str) -> dict[str, str]:
    """File below a folder -> its fingerprint."""
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {path.relative_to(folder).as_posix(): _fingerprint(read_bytes(path)) for path in paths}


def _constants() -> Iterator[tuple[str, str]]:
    """Module, class and name of each constant in capitals, and of each default or limit that holds a number
    or a boolean -> its source.
    """
    for path in (path for top in (PACKAGE, VALIDATE) for path in sorted(top.rglob("*.py"))):
        measures = path.is_relative_to(VALIDATE)
        parts = path.relative_to(VALIDATE if measures else PACKAGE).with_suffix("").parts
        if parts[0] == "validate":  # the link by which the package may hold `VALIDATE`
            continue
        module = ".".join(("validate", *parts) if measures else parts)
        top = ast.parse(read_text(path)).body
        classes = ((f"{module}.{c.name}", c.body) for c in top if isinstance(c, ast.ClassDef))
        for place, body in ((module, top), *classes):
            for name, value in (named for statement in body for named in _named(statement)):
                numbers = (n for n in ast.walk(value) if isinstance(n, ast.Constant))
                if name.isupper() or any(isinstance(n.value, int | float) for n in numbers):
                    text = ast.unparse(value)
                    yield f"{place}.{name}", text if len(text) <= SHOWN else _fingerprint(text.encode())


def _named(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Name -> value: of a constant, of the limits in its annotation, and of a function's defaults."""
    if isinstance(statement, ast.Assign):
        yield ast.unparse(statement.targets[0]), statement.value
    elif isinstance(statement, ast.AnnAssign):
        name = ast.unparse(statement.target)
        yield from ((name, statement.value or ast.Pass()), (f"{name}: limits", statement.annotation))
    elif isinstance(statement, ast.FunctionDef):
        defaults = (*statement.args.defaults, *statement.args.kw_defaults)
        yield f"{statement.name}()", ast.Tuple([each for each in defaults if each is not None])


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]
