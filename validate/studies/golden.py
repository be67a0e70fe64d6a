"""A golden grid of predictions: every device x a few models x KV methods. Any drift must come with the new file.

It says nothing about truth; it makes a review show which numbers a change moves.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError, refuse
from perfmodel.reading import read_csv
from perfmodel.specs.files import bundled_names
from perfmodel.specs.gpu import load_gpu
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload
from perfmodel.validate.records.store import BUNDLED

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite")
METHODS = ("full", "streamingllm:512", "quest:1024")
WORKLOADS = ((1, 4000, 3), (64, 32000, 3))
TENSOR_PARALLEL = 8
ALPHA = 0.8
DRIFT = 1e-9
NUMBERS = ("target_s", "draft_s", "verify_s", "overhead_s", "speedup", "speedup_at_gamma_optimal")
ASKED = ("device", "model", "draft_kv", "tp", "batch", "context", "gamma", "calibration")
COLUMNS = (*ASKED, *NUMBERS, "gamma_optimal", "refused")
POINT = ("device", "model", "draft_kv", "batch", "context", "gamma")
"""What tells one point from another."""
Row = dict[str, str]


def path(results: Path = BUNDLED) -> Path:
    """Where the grid is kept."""
    return results / "golden.csv"


def grid() -> list[Row]:
    """Every point as it is predicted now; what cannot be asked of a device holds the refusal instead."""
    return [
        _point(device, model, method, *workload)
        for device in bundled_names("gpus")
        for model in MODELS
        for method in METHODS
        for workload in WORKLOADS
    ]


def _point(device: str, model: str, method: str, batch: int, context: int, gamma: int) -> Row:
    row = dict.fromkeys(COLUMNS, "")
    row |= {"device": device, "model": model, "draft_kv": method}
    row |= {"batch": str(batch), "context": str(context), "gamma": str(gamma)}
    try:
        made = load_gpu(device).calibration
        scenario = resolve(
            Query(
                model, device, batch, context, gamma, tp=_degree(device), draft_kv=method, alpha=ALPHA, calibration=made
            )
        )
        p = predict(scenario, Workload.of(batch, context, gamma), 8)
    except InputError as error:
        return row | {"refused": str(error)}
    row |= {"tp": str(scenario.machine.tensor_parallel), "calibration": scenario.machine.calibration.name}
    row |= {name: f"{float(getattr(p, name)):.12g}" for name in NUMBERS}
    return row | {"gamma_optimal": str(int(p.gamma_optimal))}


def _degree(device: str) -> int:
    """Eight devices where they are linked, else one."""
    return TENSOR_PARALLEL if load_gpu(device).link else 1


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """The text of a file of these rows."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def read(where: Path) -> list[Row]:
    """The recorded grid. Raises InputError where there is none."""
    if not where.exists():
        raise InputError(f"{where}: must exist; write it with `perfmodel validate accuracy --write`")
    rows = [row for _, row in read_csv(where, COLUMNS)]
    seen = set()
    for number, row in enumerate(rows, 2):
        if (point := tuple(row[k] for k in POINT)) in seen:
            raise InputError(f"{where}: line {number}: must hold each point once, given {' '.join(point)} again")
        seen.add(point)
        for name in NUMBERS:
            if row[name] and not _is_number(row[name]):
                raise refuse(f"{where}: line {number}", name, "a number or nothing", row[name])
    return rows


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def drift(recorded: list[Row], now: list[Row]) -> list[str]:
    """What moved by more than `DRIFT`, one line a point."""
    before = {tuple(row[k] for k in POINT): row for row in recorded}
    after = {tuple(row[k] for k in POINT): row for row in now}
    moved = [f"{' '.join(key)}: {'new' if key in after else 'gone'}" for key in sorted(before.keys() ^ after.keys())]
    for key in sorted(before.keys() & after.keys()):
        old, new = before[key], after[key]
        parts = [f"{name} {old[name]} -> {new[name]}" for name in COLUMNS if not _same(name, old[name], new[name])]
        if parts:
            moved.append(f"{' '.join(key)}: {', '.join(parts)}")
    return moved


def _same(name: str, old: str, new: str) -> bool:
    if name not in NUMBERS or not old or not new:
        return old == new
    return math.isclose(float(old), float(new), rel_tol=DRIFT)
