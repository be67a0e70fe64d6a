"""Finds the faults with which the accuracy check fails: changed inputs, changed figures, and times below
their physical bound.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.specs import CONSTANTS, Frozen, files

SCHEMA_VERSION = 2
"""Schema version of results/accuracy.json."""
RELATIVE = 1e-5
ABSOLUTE = 1e-6
"""Largest relative and absolute difference with which a figure counts as equal to the recorded figure. The
results of searches differ by this much between platforms.
"""
MOST_LINES = 12
"""Largest number of differences that are listed per fault."""
ADDED = re.compile(r"(?:gpus|models)/.")
"""Beginning of the inputs that can be added without a fault: devices and models. No recorded figure uses a
new device or model.
"""


class _Recorded(Frozen, forbid_unknown_fields=False):
    """The part of the record whose types are checked. The other parts are only compared."""

    inputs: dict[str, dict[str, Any]]


def read(path: Path) -> dict[str, Any]:
    """The accuracy record in a file. Raises InputError if the file does not exist or has another schema
    version.
    """
    if not path.exists():
        raise InputError(f"{path}: must exist; `perfmodel validate accuracy --write` writes it")
    record = files.read_mapping(path)
    version = record.get("schema_version")
    if version != SCHEMA_VERSION:
        allowed = f"{SCHEMA_VERSION}; write the file anew with `perfmodel validate accuracy --write`"
        raise refuse(str(path), "schema_version", allowed, version)
    files.parse(_Recorded, record, str(path))
    return record


def faults(recorded: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The lines that report faults; empty if the check passes.

    - recorded, now: the accuracy record in the file, and that of the present code.
    """
    inputs = _without_additions(recorded.get("inputs", {}), now.get("inputs", {}))
    changed = list(_differences("", recorded.get("inputs"), inputs))
    lines = _fault_lines(f"changed: {len(changed)} inputs are not what was recorded", changed)
    below_bound = now.get("bounds", {}).get("violations", ())
    lines += [f"bound: {name} was measured below its physical lower bound" for name in below_bound]
    stale = list(_differences("", recorded | {"inputs": None}, now | {"inputs": None}))
    lines += _fault_lines(f"stale: {len(stale)} recorded figures are no longer what the code gives", stale)
    return lines


def _without_additions(recorded: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The inputs of `now` without devices and models that are not in the record."""
    counted = {}
    for kind, names in now.items():
        known = recorded.get(kind, {})
        counted[kind] = {
            name: value for name, value in names.items() if name in known or not _may_be_added(kind, name)
        }
    return counted


def _may_be_added(kind: str, name: str) -> bool:
    """Whether an input can be added without a fault (`ADDED`)."""
    return ADDED.match(f"{kind}/{name}") is not None


def _fault_lines(fault: str, differences: list[str]) -> list[str]:
    if not differences:
        return []
    lines = [f"{fault}; if that is meant, run `perfmodel validate accuracy --write` and commit the file"]
    lines += [f"  {difference}" for difference in differences[:MOST_LINES]]
    if len(differences) > MOST_LINES:
        lines.append(f"  ... and {len(differences) - MOST_LINES} more")
    return lines


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """A line for each value that differs between two records by more than rounding.

    - place: the keys that lead to both values, separated by slashes.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in old:
                yield f"{place}/{key}: not recorded"
            elif key not in new:
                yield f"{place}/{key}: recorded, but gone"
            else:
                yield from _differences(f"{place}/{key}", old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        yield from _differences(place, dict(enumerate(old)), dict(enumerate(new)))
    elif not _equal(place, old, new):
        yield f"{place}: {old} -> {new}"


def _equal(place: str, old: Any, new: Any) -> bool:
    """Whether two values are equal apart from rounding."""
    if not isinstance(old, float) and not isinstance(new, float):
        return bool(old == new)
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return False
    tiny = ABSOLUTE
    constant = CONSTANTS.get(place.rpartition("/")[2])
    if constant and constant.search:  # a constant of a microsecond is smaller than `ABSOLUTE`
        tiny *= constant.search.scale
    return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=tiny)
