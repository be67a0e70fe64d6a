"""Shipped data with one number changed a little: the gate must name it, or the file be refused."""

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

from perfmodel.errors import InputError
from perfmodel.reading import data_folder
from perfmodel.specs import files
from perfmodel.validate.studies import gate
from perfmodel.validate.studies import inputs as module
from tests.attack import hostile, watch

FOLDERS = ("hardware", "models", "results")
CODE = {"perfmodel": module.PACKAGE, "validate": module.VALIDATE}
DATA = (".yaml", ".csv", ".json", ".jsonl")


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A copy of all shipped data and code, from which answers are made and fingerprints taken meanwhile."""
    beside = shutil.ignore_patterns("*.png", "*.md", "__pycache__")
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
        found = (p for top in (*FOLDERS, "validate/plans") for p in (package / top).rglob("*"))
        every = sorted(p for p in found if p.suffix in DATA and p.name != "accuracy.json")
        paths = [list(some) for _, some in itertools.groupby(every, key=lambda p: p.parent)]
        for number in range(count):
            rng = Random(f"{seed}:gate:{number}")
            path = rng.choice(rng.choice(paths))
            before = path.read_text(encoding="utf-8")
            path.write_text(_with_another_number(rng, before), encoding="utf-8")
            refused, fault = False, None
            try:
                now = module.inputs(package / "results")
                if not gate.faults({"inputs": recorded}, {"inputs": now}):
                    fault = f"{path.relative_to(package)} changed unseen (seed {seed}, {number})"
            except InputError:
                refused = True
            path.write_text(before, encoding="utf-8")
            tally.count(path.parent.relative_to(package).as_posix(), refused, fault)


def _with_another_number(rng: Random, text: str) -> str:
    """One number of the text, comments aside, a thousandth larger, or 1 where it is 0."""
    seen = [
        m
        for m in hostile.NUMBER.finditer(text)
        if "#" not in text[text.rfind("\n", 0, m.start()) + 1 : m.start()]
    ]
    match = rng.choice(seen)
    return text[: match.start()] + repr(float(match[0]) * 1.001 or 1.0) + text[match.end() :]
