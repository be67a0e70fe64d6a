"""What makes the accuracy check fail: worse errors, lost predictions, broken bounds, or a record out of date."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json, read_text
from perfmodel.specs.calibration import CONSTANTS

SCHEMA_VERSION = 2
"""Of results/accuracy.json."""
OVERALL_POINTS = 1.0
PARTITION_POINTS = 3.0
PARTITION_ROWS = 10
"""Mean errors may rise by this many percentage points, overall and in partitions of at least so many rows."""
RELATIVE = 2e-3
ABSOLUTE = 2e-5
"""Rounding between platforms: what a figure may move by and still count as the recorded one."""
SHOWN = 12


def read(path: Path) -> dict[str, Any]:
    """The recorded accuracy. Raises InputError where there is none, or none that this version can compare."""
    if not path.exists():
        raise InputError(f"{path}: must exist; `perfmodel validate accuracy --write` with the same --results writes it")
    found = parse_json(str(path), read_text(path))
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != SCHEMA_VERSION:
        allowed = f"{SCHEMA_VERSION}; write the file anew with `perfmodel validate accuracy --write`"
        raise refuse(str(path), "schema_version", allowed, version)
    return found


def faults(recorded: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Everything that is wrong with `now` beside what was recorded, one line each; none where it passes.

    `now` may hold only some of the record's parts; the others are then not looked at.
    """
    found = list(_bounds(now))
    for mode, replay in now.get("replays", {}).items():
        found += _worse(mode, recorded.get("replays", {}).get(mode, {}), replay)
    if "systems" in now and "systems" in recorded:
        found += _systems(recorded["systems"], now["systems"])
    stale = list(_differences("", {key: recorded.get(key) for key in now}, now))
    if stale:
        found.append(
            f"stale: {len(stale)} recorded figures are no longer what the code gives; if that is meant, run "
            "`perfmodel validate accuracy --write` and commit the file"
        )
        found += [f"  {line}" for line in stale[:SHOWN]]
        if len(stale) > SHOWN:
            found.append(f"  ... and {len(stale) - SHOWN} more")
    return found


def _bounds(now: dict[str, Any]) -> Iterator[str]:
    for name in now.get("bounds", {}).get("violations", ()):
        yield f"bound: {name} was measured below its physical lower bound"


def _worse(mode: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    lost = sorted(set(before.get("predicted", ())) - set(after["predicted"]))
    if lost:
        yield f"lost: {mode}: {len(lost)} figures were predicted and no longer are, the first {lost[0]}"
    if "overall" in before:
        yield from _rise(f"{mode}: overall", before["overall"], after["overall"], OVERALL_POINTS)
    for name, old in before.get("partitions", {}).items():
        new = after["partitions"].get(name)
        if new and new["rows"] >= PARTITION_ROWS:
            yield from _rise(f"{mode}: {name}", old, new, PARTITION_POINTS)


def _systems(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    lost = sorted(set(before["rows"]) - set(after["rows"]))
    if lost:
        yield f"lost: systems: {len(lost)} rows were predicted and no longer are, the first {lost[0]}"
    yield from _rise("systems: overall", before["overall"], after["overall"], OVERALL_POINTS)


def _rise(name: str, old: dict[str, Any], new: dict[str, Any], allowed: float) -> Iterator[str]:
    risen = 100.0 * (new["mape"] - old["mape"])
    if risen > allowed:
        moved = f"{100 * old['mape']:.2f} % -> {100 * new['mape']:.2f} %"
        yield f"worse: {name}: mean error {moved} (may rise by {allowed:g} points)"


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """Where two records differ by more than rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key not in old or key not in new:
                yield f"{place}/{key}: {'not recorded' if key in new else 'recorded, but gone'}"
            else:
                yield from _differences(f"{place}/{key}", old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{place}[{i}]", a, b)
    elif isinstance(old, float) or isinstance(new, float):
        constant = CONSTANTS.get(place.rpartition("/")[2])
        tiny = constant.search.scale * ABSOLUTE if constant and constant.search else ABSOLUTE  # it may be a microsecond
        numbers = isinstance(old, (int, float)) and isinstance(new, (int, float))
        if not (numbers and math.isclose(old, new, rel_tol=RELATIVE, abs_tol=tiny)):
            yield f"{place}: {old} -> {new}"
    elif old != new:
        yield f"{place}: {old} -> {new}"
