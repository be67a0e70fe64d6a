"""The inputs of the predictions: a fingerprint of each file that enters an answer, to detect changes.

The replayed errors alone would not show a changed standard error, a device without measured rows, a published
figure that changed slightly.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from perfmodel.reading import read_bytes
from perfmodel.specs import files
from perfmodel.specs.boundary.units import FACTORS
from perfmodel.validate.accuracy.compare import UNGATED
from perfmodel.validate.records import RESULTS

VALIDATE = Path(__file__).parents[1]
OF_RESULTS = ("**/*.json", "**/*.jsonl", "**/*.yaml", "**/*.csv", "**/*.md")
"""Files of results that count: records, the devices and calibrations that they name, tables and pages.
Pictures follow from these.
"""
NOT_INPUTS = (UNGATED, "accuracy.json")
DIGITS = 16
"""Hexadecimal digits of a fingerprint."""


def inputs(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Folder -> its files -> their fingerprints; for units the values."""
    of_results = _fingerprints(results, *OF_RESULTS)
    counted = {name: of for name, of in of_results.items() if not name.startswith(NOT_INPUTS)}
    return {
        "gpus": _fingerprints(files.data_directory("gpus"), "*.yaml"),
        "models": _fingerprints(files.data_directory("models"), "**/*.yaml", "*.csv"),
        "calibrations": _fingerprints(files.data_directory("calibrations"), "*.yaml"),
        "engines": _fingerprints(files.data_directory(""), "*.yaml", "engines/*.yaml", "fitted/*.yaml"),
        "memory": _fingerprints(files.data_directory("memory"), "*.yaml"),
        "links": _fingerprints(files.data_directory("links"), "*.yaml"),
        "results": counted,
        "plans": _fingerprints(VALIDATE, "**/*.yaml"),
        "units": {name: json.dumps(factor) for name, factor in FACTORS.items()},
    }


def _fingerprints(folder: Path, *patterns: str) -> dict[str, str]:
    """File below a folder -> its fingerprint."""
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {path.relative_to(folder).as_posix(): _fingerprint(read_bytes(path)) for path in paths}


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]
