"""Shipped data or a constant of the code with one number changed a little: the gate must name it, or the file
be refused.
"""

import itertools
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

from perfmodel.errors import InputError
from perfmodel.reading import data_folder
from perfmodel.specs import files
from perfmodel.validate.studies import gate, inputs as module
from tests.attack import hostile, watch

FOLDERS = ("hardware", "models", "results")
CODE = {"perfmodel": module.PACKAGE, "validate": module.VALIDATE}
DATA = (".yaml", ".csv", ".json", ".jsonl", ".py")
CONSTANT = re.compile("^[A-Z][A-Z_0-9, ]* = [^\"'\n]*$", re.MULTILINE)
"""Of a module."""
ANY_LINE = re.compile(".+")


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A copy of all shipped data and code, from which answers are made and fingerprints taken meanwhile."""
    beside = shutil.ignore_patterns("*.png", "__pycache__")
    for name, place in ({name: data_folder(name) for name in FOLDERS} | CODE).items():
        shutil.copytree(place, folder / name, ignore=beside)
    with (
        mock.patch.object(files, "data_folder", folder.joinpath),
        mock.patch.multiple(module, PACKAGE=folder / "perfmodel", VALIDATE=folder / "validate"),
    ):
        files.bundled_names.cache_clear()
        yield folder
    files.bundled_names.cache_clear()


def attack(tally: watch.Tally, folder: Path, seed: int, count: int) -> None:
    """Change a number of one file after the other; which, follows from the seed."""
    with copied(folder) as package:
        recorded = module.inputs(package / "results")
        data = (p for top in (*FOLDERS, "validate/plans") for p in (package / top).rglob("*"))
        code = (p for top in CODE for p in (package / top).rglob("*.py"))
        every = sorted(
            p for p in (*data, *code) if p.suffix in DATA and p.name != "accuracy.json" and _numbers(p)
        )
        paths = [list(some) for _, some in itertools.groupby(every, key=lambda p: p.parent)]
        for number in range(count):
            rng = Random(f"{seed}:gate:{number}")
            path = rng.choice(rng.choice(paths))
            before = path.read_text(encoding="utf-8")
            match = rng.choice(_numbers(path))
            another = repr(float(match[0]) * 1.001 or 1.0)
            path.write_text(before[: match.start()] + another + before[match.end() :], encoding="utf-8")
            refused = False
            fault = None
            try:
                if not gate.faults({"inputs": recorded}, {"inputs": module.inputs(package / "results")}):
                    fault = f"{path.relative_to(package)} changed unseen (seed {seed}, {number})"
            except InputError:
                refused = True
            path.write_text(before, encoding="utf-8")
            tally.count(path.parent.relative_to(package).as_posix(), refused, fault)


def _numbers(path: Path) -> list[re.Match[str]]:
    """Those of a file, comments aside; of code those of named numbers."""
    text = path.read_text(encoding="utf-8")
    lines = CONSTANT if path.suffix == ".py" else ANY_LINE
    found = (m for line in lines.finditer(text) for m in hostile.NUMBER.finditer(text, *line.span()))
    return [m for m in found if "#" not in text[text.rfind("\n", 0, m.start()) + 1 : m.start()]]
