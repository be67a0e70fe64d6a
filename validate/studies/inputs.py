"""Computes fingerprints of all files on which predictions depend, to detect changes.

The errors alone would not show every change. Examples are a changed standard error, a changed device without
measurements, and a slightly changed published figure.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from perfmodel.reading import read_bytes
from perfmodel.specs import files
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.validate.accuracy.sets import UNGATED
from perfmodel.validate.records import RESULTS

VALIDATE = Path(__file__).parents[1]
OF_DATA = {
    "gpus": ("gpus", ("*.yaml",)),
    "models": ("models", ("**/*.yaml", "*.csv")),
    "calibrations": ("calibrations", ("*.yaml",)),
    "engines": ("", ("*.yaml", "engines/*.yaml", "fitted/*.yaml")),
    "memory": ("memory", ("*.yaml",)),
    "links": ("links", ("*.yaml",)),
}
"""Kind of input -> its folder in ``hardware``, and the patterns of its files."""
OF_RESULTS = ("**/*.json", "**/*.jsonl", "**/*.yaml", "**/*.csv", "**/*.md")
"""Patterns of the input files in ``results``. Pictures are not inputs, because they are drawn from these
files.
"""
NOT_INPUTS = (UNGATED, "accuracy.json")
"""Beginnings of the names of files in ``results`` that are no inputs."""
FINGERPRINT_DIGITS = 16
"""Hexadecimal digits of a fingerprint."""


def inputs(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Kind of input -> name of a file -> its fingerprint. Units have their factor instead of a
    fingerprint.
    """
    of_data = {}
    for name, (folder, patterns) in OF_DATA.items():
        of_data[name] = _fingerprints(files.data_directory(folder), *patterns)
    of_results = _fingerprints(results, *OF_RESULTS)
    counted = {name: of_file for name, of_file in of_results.items() if not name.startswith(NOT_INPUTS)}
    return {
        **of_data,
        "results": counted,
        "plans": _fingerprints(VALIDATE, "**/*.yaml"),
        "units": {name: json.dumps(factor) for name, factor in FACTORS.items()},
    }


def _fingerprints(folder: Path, *patterns: str) -> dict[str, str]:
    """Path below a folder -> fingerprint of the file."""
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {path.relative_to(folder).as_posix(): _fingerprint(read_bytes(path)) for path in paths}


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:FINGERPRINT_DIGITS]
