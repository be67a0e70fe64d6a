"""Shipped data with one number changed a little: the gate must name the file, or it is refused."""

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
from perfmodel.validate.accuracy.sets import UNGATED
from perfmodel.validate.studies import gate, inputs as module
from tests.attack import hostile, watch

FOLDERS = ("hardware", "models", "results")
DATA = (".yaml", ".csv", ".json", ".jsonl")
LINE = re.compile(".+")


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A copy of all shipped data, from which answers are made and fingerprints taken meanwhile."""
    beside = shutil.ignore_patterns("*.png", "__pycache__", "*.py", f"{UNGATED}*")  # `make demo` makes these
    places = {name: data_folder(name) for name in FOLDERS} | {"validate": module.VALIDATE}
    for name, place in places.items():
        shutil.copytree(place, folder / name, ignore=beside)
    with (
        mock.patch.object(files, "data_folder", folder.joinpath),
        mock.patch.object(module, "VALIDATE", folder / "validate"),
    ):
        files.bundled_names.cache_clear()
        yield folder
    files.bundled_names.cache_clear()


def attack(tally: watch.Tally, folder: Path, seed: int, count: int) -> None:
    """Change a number of one file after the other; which, follows from the seed."""
    with copied(folder) as package:
        recorded = module.inputs(package / "results")
        data = (p for top in (*FOLDERS, "validate/plans") for p in (package / top).rglob("*"))
        every = sorted(p for p in data if p.suffix in DATA and p.name != "accuracy.json" and _numbers(p))
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
    """Those of a file, comments aside."""
    text = path.read_text(encoding="utf-8")
    numbers = (m for line in LINE.finditer(text) for m in hostile.NUMBER.finditer(text, *line.span()))
    return [m for m in numbers if "#" not in text[text.rfind("\n", 0, m.start()) + 1 : m.start()]]
