"""Faults of the accuracy check: changed inputs, larger errors, lost predictions, violated bounds, a stale
record.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from perfmodel.errors import InputError, refuse
from perfmodel.specs import CONSTANTS, FINITE, Frozen, files

SCHEMA_VERSION = 2
"""Schema version of results/accuracy.json."""
OVERALL_POINTS = 1.0
PARTITION_POINTS = 3.0
PARTITION_ROWS = 10
"""Allowed rise of mean errors in percentage points, overall and in partitions of at least this many rows."""
RELATIVE = 1e-5
ABSOLUTE = 1e-6
"""Largest difference at which a figure equals the recorded one; searches end this close on any platform."""
SHOWN = 12


class _Figures(Frozen, forbid_unknown_fields=False):
    rows: int
    mape: Annotated[float, Meta(ge=0, le=FINITE)]


class _Replay(Frozen, forbid_unknown_fields=False):
    overall: _Figures
    partitions: dict[str, _Figures]
    predicted: list[str]


class _Recorded(Frozen, forbid_unknown_fields=False):
    """The part of the record that the rules below read. The rest is only compared."""

    inputs: dict[str, dict[str, Any]]
    replays: dict[str, _Replay]


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
    found += _bounds(now)
    for mode, replay in now.get("replays", {}).items():
        found += _worse(mode, recorded.get("replays", {}).get(mode, {}), replay)
    if "sources" in now and "sources" in recorded:
        for figure in ("step", "ratio", "speedup"):
            found += _rise_of_sources(figure, recorded["sources"][figure], now["sources"][figure])
    stale = list(_differences("", recorded | {"inputs": None}, now | {"inputs": None}))
    return found + _fault_lines(
        f"stale: {len(stale)} recorded figures are no longer what the code gives", stale
    )


def _without_additions(recorded: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The inputs of `now` without devices and models that were added since, because no recorded figure uses
    them.
    """
    kept = {
        kind: {name: made_of for name, made_of in now[kind].items() if name in recorded.get(kind, {})}
        for kind in ("gpus", "models")
        if kind in now
    }
    return now | kept


def _fault_lines(what: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    head = f"{what}; if that is meant, run `perfmodel validate accuracy --write` and commit the file"
    return [head, *(f"  {line}" for line in lines[:SHOWN]), *more]


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


def _rise_of_sources(figure: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Faults in the errors of held-out sources, over rows and over sources."""
    for key in ("error", "macro"):
        old, new = before["all"][key], after["all"][key]
        if new - old > OVERALL_POINTS / 100:
            yield f"worse: sources: {figure}: {key} {100 * old:.1f} % -> {100 * new:.1f} %"


def _rise(name: str, old: dict[str, Any], new: dict[str, Any], allowed: float) -> Iterator[str]:
    risen = 100.0 * (new["mape"] - old["mape"])
    if not risen <= allowed:
        moved = f"{100 * old['mape']:.2f} % -> {100 * new['mape']:.2f} %"
        yield f"worse: {name}: mean error {moved} (may rise by {allowed:g} points)"


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """Places where two records differ by more than rounding."""
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
        # it may be a microsecond
        tiny = constant.search.scale * ABSOLUTE if constant and constant.search else ABSOLUTE
        numbers = isinstance(old, (int, float)) and isinstance(new, (int, float))
        if not (numbers and math.isclose(old, new, rel_tol=RELATIVE, abs_tol=tiny)):
            yield f"{place}: {old} -> {new}"
    elif old != new:
        yield f"{place}: {old} -> {new}"
