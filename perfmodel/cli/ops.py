"""``perfmodel ops``: the operations of one pass."""

from perfmodel.answers.point.ops import Ops, ops
from perfmodel.answers.text import count, devices, limiter, seconds, size
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


def _print(a: Ops) -> None:
    title = (
        f"{a.stage} pass of {a.model} on {devices(a.hardware, a.tp)}: batch {a.batch}, context {a.context}"
    )
    say(f"{title}, {a.query_tokens:.0f} new token(s) per sequence; counts of one device", "bold")
    rows = []
    for row in a.ops:
        moved = [
            size(moved) if moved else "-" for moved in (row.weight_bytes, row.kv_bytes, row.activation_bytes)
        ]
        if row.message_bytes:
            moved[2] = f"{size(row.message_bytes)} each"
        rows.append(
            (
                row.name,
                f"{row.kernels:.0f}",
                count(row.flops),
                *moved,
                f"{row.flops_per_byte:.1f}" if row.flops else "-",
                seconds(row.lower_s),
                seconds(row.predicted_s),
                limiter(row.limiter),
            )
        )
    total = (seconds(a.total.lower_s), seconds(a.total.predicted_s), limiter(a.total.limiter))
    table(COLUMNS, [*rows, ("whole pass", *[""] * 6, *total)], bold_last=True)
    warn(a.warnings)


app = verb(ops, _print, example=f"{LLAMA} --batch 16 --context 32k --gamma 3 --pass verify")
