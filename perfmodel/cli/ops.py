"""``perfmodel ops``: the operations of one pass."""

from perfmodel.answers.point.ops import OpRow, Ops, ops
from perfmodel.answers.text import (
    context_text,
    count,
    devices_of_stages,
    limiter,
    model_and_shape,
    seconds,
    size,
)
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn

COLUMNS = (
    "op",
    Column("kernels", spare=3),
    Column("FLOPs", spare=4),
    "weights",
    "KV",
    Column("other", spare=2),
    Column("FLOP/B", spare=5),
    Column("lower", spare=1),
    "predicted",
    "limited by",
)

MESSAGES = {"logits": "all-gather", "dispatch": "all-to-all", "combine": "all-to-all", "stage send": "send"}
"""The messages of operations that send no all-reduce."""


def _print(a: Ops) -> None:
    where = devices_of_stages(a.hardware, a.tp, a.pp)
    model = model_and_shape(a.model, a.shape)
    title = f"{a.stage} pass of {model} on {where}: batch {a.batch}, context {context_text(a.context)}"
    say(f"{title}, {a.query_tokens:.0f} new token(s) per sequence; counts of one device", "bold")
    rows = [_cells(row) for row in a.ops]
    total = (seconds(a.total.lower_s), seconds(a.total.predicted_s), limiter(a.total.limiter))
    table(COLUMNS, [*rows, ("whole pass", *[""] * 6, *total)], bold_last=True)
    warn(a.warnings)


def _cells(row: OpRow) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    other = _bytes(row.activation_bytes)
    if row.message_bytes:
        other = f"{size(row.message_bytes)} each"
    intensity = f"{row.flops_per_byte:.1f}" if row.flops else "-"
    work = (f"{row.kernels:.0f}", count(row.flops))
    moved = (_bytes(row.weight_bytes), _bytes(row.kv_bytes), other)
    times = (seconds(row.lower_s), seconds(row.predicted_s))
    return (row.name, *work, *moved, intensity, *times, _limiter(row))


def _limiter(row: OpRow) -> str:
    """What limits a row, in a word."""
    if row.limiter == "comm":
        return MESSAGES.get(row.name, limiter(row.limiter))
    return limiter(row.limiter)


def _bytes(moved_bytes: float) -> str:
    return size(moved_bytes) if moved_bytes else "-"


app = verb(ops, _print, example=f"{LLAMA} --batch 16 --context 32k --gamma 3 --pass verify")
