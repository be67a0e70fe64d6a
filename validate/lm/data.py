"""Reads text on which the bundled model was not trained: files of the Python standard library, as bytes."""

import os
import sysconfig
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from perfmodel.errors import InputError

HELD_OUT_PERCENT = 5
"""Percentage of files on which the model was not trained."""


@cache
def source_files() -> tuple[Path, ...]:
    """Every ``.py`` file of the standard library, sorted, without installed packages."""
    paths: list[Path] = []
    for folder, subfolders, names in os.walk(sysconfig.get_paths()["stdlib"]):
        if "site-packages" in subfolders:
            subfolders.remove("site-packages")  # installed packages are not part of the library
        paths.extend(Path(folder, name) for name in names if name.endswith(".py"))
    return tuple(sorted(paths))


def is_held_out(path: Path) -> bool:
    """Whether the model was not trained on a file. The answer depends only on the path inside the library, so
    it is the same on every machine.
    """
    name = path.relative_to(sysconfig.get_paths()["stdlib"]).as_posix()
    return zlib.crc32(name.encode()) % 100 < HELD_OUT_PERCENT


def held_out_prompts(count: int, length: int, seed: int = 0) -> list[list[int]]:
    """The first `length` bytes of `count` randomly chosen held-out files that are long enough. If there are
    fewer files, they are repeated. Raises InputError if there are none.
    """
    files = [p for p in source_files() if is_held_out(p) and p.stat().st_size >= length]
    if not files:
        raise InputError(f"--context: no held-out file of the standard library is {length} bytes long")
    order = np.random.default_rng(seed).permutation(len(files))
    chosen = [files[order[i % len(files)]] for i in range(count)]
    return [list(path.read_bytes()[:length]) for path in chosen]
