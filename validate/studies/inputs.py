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
OF_RECORDS = (".json", ".jsonl", ".yaml", ".csv")
"""Files of a machine that count: its records, and the devices and calibrations that they name. Pages and
pictures follow from these.
"""
DIGITS = 16
"""Hexadecimal digits of a fingerprint."""
SHOWN = 60
"""Most characters of a constant that is recorded in full; a longer one has a fingerprint."""


def inputs(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Folder -> its files -> their fingerprints; for units and the code's constants the values.

    Mappings count by content, not by the layout of the file.
    """
    found: dict[str, dict[str, Any]] = {
        kind: {
            name: _content(files.data_directory(kind) / f"{name}.yaml") for name in files.bundled_names(kind)
        }
        for kind in ("gpus", "models", "calibrations")
    }
    found["engines"] = {
        path.name: _content(path)
        for path in (
            *sorted(files.data_directory("").glob("*.yaml")),
            results / "engines.json",
            results / "llamacpp.json",
            results / "requests.json",
            results / "sources.json",
        )
    }
    tables = (*(results / "published").glob("*.csv"), *files.data_directory("models").glob("*.csv"))
    found["tables"] = {table.name: _fingerprint(read_bytes(table)) for table in sorted(tables)}
    found["plans"] = {
        p.relative_to(VALIDATE).as_posix(): _content(p) for p in sorted(VALIDATE.rglob("*.yaml"))
    }
    found["constants"] = dict(_constants())
    found["units"] = {name: json.dumps(factor) for name, factor in FACTORS.items()}
    found["records"] = {
        path.relative_to(results).as_posix(): _fingerprint(read_bytes(path))
        for folder in sorted(results.iterdir())
        for path in sorted(folder.rglob("*"))
        if path.suffix in OF_RECORDS and not folder.name.startswith((UNGATED, "published"))
    }
    if (results / "withdrawn.yaml").exists():
        found["records"]["withdrawn.yaml"] = _content(results / "withdrawn.yaml")
    return found


def _constants() -> Iterator[tuple[str, str]]:
    """Module, class and name of each constant or default that holds a number or a boolean -> its source."""
    for path in (path for top in (PACKAGE, VALIDATE) for path in sorted(top.rglob("*.py"))):
        measures = path.is_relative_to(VALIDATE)
        parts = path.relative_to(VALIDATE if measures else PACKAGE).with_suffix("").parts
        if parts[0] == "validate":  # the link by which the package may hold `VALIDATE`
            continue
        module = ".".join(("validate", *parts) if measures else parts)
        top = ast.parse(read_text(path)).body
        classes = ((f"{module}.{c.name}", c.body) for c in top if isinstance(c, ast.ClassDef))
        for place, body in ((module, top), *classes):
            for node in body:
                if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                    continue
                name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
                numbers = (n for n in ast.walk(node.value) if isinstance(n, ast.Constant))
                if any(isinstance(n.value, int | float) for n in numbers):
                    text = ast.unparse(node.value)
                    yield f"{place}.{name}", text if len(text) <= SHOWN else _fingerprint(text.encode())


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _content(path: Path) -> str:
    return _fingerprint(json.dumps(files.read_mapping(path), sort_keys=True, default=str).encode())
