"""Faults of the accuracy check: changed inputs, changed figures, and violated bounds."""

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
"""Largest difference at which a figure equals the recorded one; searches end this close on any platform."""
SHOWN = 12
ADDED = re.compile(r"^(?:gpus|models)/.+")
"""Start of the place of an input: a file that may be added, because no recorded figure uses it."""


class _Recorded(Frozen, forbid_unknown_fields=False):
    """The part of the record with rules of its own. The rest is only compared."""

    inputs: dict[str, dict[str, Any]]


def read(path: Path) -> dict[str, Any]:
    """The recorded accuracy. Raises InputError if there is none, or one that this version cannot compare."""
    if not path.exists():
        raise InputError(f"{path}: must exist; `perfmodel validate accuracy --write` writes it")
    found = files.read_mapping(path)
    version = found.get("schema_version")
    if version != SCHEMA_VERSION:
        allowed = f"{SCHEMA_VERSION}; write the file anew with `perfmodel validate accuracy --write`"
        raise refuse(str(path), "schema_version", allowed, version)
    files.parse(_Recorded, found, str(path))
    return found


def faults(recorded: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """All differences between `now` and the record that are faults, one line each; empty if it passes."""
    inputs = _without_additions(recorded.get("inputs", {}), now.get("inputs", {}))
    changed = list(_differences("", recorded.get("inputs"), inputs))
    found = _fault_lines(f"changed: {len(changed)} inputs are not what was recorded", changed)
    below = now.get("bounds", {}).get("violations", ())
    found += [f"bound: {name} was measured below its physical lower bound" for name in below]
    stale = list(_differences("", recorded | {"inputs": None}, now | {"inputs": None}))
    return found + _fault_lines(
        f"stale: {len(stale)} recorded figures are no longer what the code gives", stale
    )


def _without_additions(recorded: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The inputs of `now` without those of files that were added since: devices and models."""
    known = {added_file(kind, name) for kind, names in recorded.items() for name in names}

    def kept(kind: str, name: str) -> bool:
        file = added_file(kind, name)
        return file is None or file in known

    return {
        kind: {name: value for name, value in names.items() if kept(kind, name)}
        for kind, names in now.items()
    }


def added_file(kind: str, name: str) -> str | None:
    """The file of an input, where it is one that is added, with its folder; None for any other input."""
    found = ADDED.findall(f"{kind}/{name}")
    return str(found) if found else None


def _fault_lines(what: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    head = f"{what}; if that is meant, run `perfmodel validate accuracy --write` and commit the file"
    return [head, *(f"  {line}" for line in lines[:SHOWN]), *more]


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """Places where two records differ by more than rounding."""
    if type(old) is type(new) and isinstance(old, dict | list):
        before, after = (of if isinstance(of, dict) else dict(enumerate(of)) for of in (old, new))
        for key in sorted(set(before) | set(after)):
            if key not in before or key not in after:
                yield f"{place}/{key}: {'not recorded' if key in after else 'recorded, but gone'}"
            else:
                yield from _differences(f"{place}/{key}", before[key], after[key])
    elif isinstance(old, float) or isinstance(new, float):
        constant = CONSTANTS.get(place.rpartition("/")[2])
        # a constant may be a microsecond
        tiny = constant.search.scale * ABSOLUTE if constant and constant.search else ABSOLUTE
        numbers = isinstance(old, (int, float)) and isinstance(new, (int, float))
        if not (numbers and math.isclose(old, new, rel_tol=RELATIVE, abs_tol=tiny)):
            yield f"{place}: {old} -> {new}"
    elif old != new:
        yield f"{place}: {old} -> {new}"
