"""Prints the tables of ``perfmodel advise``: the choice with other configurations, and the Pareto fronts."""

from collections.abc import Sequence

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.question.placement import typed
from perfmodel.answers.text import ratio_text, seconds
from perfmodel.cli.advise_words import draft_text
from perfmodel.cli.output import Column, say, table

DRAFT = Column("draft", left=True)
ESTIMATED = "~"
"""Mark of values under a load that were not simulated although the formulas may be inaccurate."""
SHOWN = 6
"""Largest number of printed points of a front, and of printed rows of other layouts."""


def print_table(a: Advice, verbose: bool) -> None:
    """Prints the choice and its alternatives, one per row."""
    rows = [*_picks(a), *_other_kinds(a), *_other_layouts(a, verbose)]
    priced = any(p.cost_per_million_tokens for _, p in rows)
    kinds = [Column("hardware", left=True)] if a.by_hardware else []
    prices: list[Column | str] = ["$/Mtok"] if priced else []
    point: list[Column | str] = [Column("layout", left=True), "GPUs", DRAFT, "gamma"]
    pace = ["TPOT", "tokens/s/GPU"]
    columns: list[Column | str] = ["", *kinds, *point]
    if a.query.has_load:
        columns += ["running", "TTFT", *pace, *prices, "SLO", Column("busy", spare=1)]
    else:
        columns += ["batch", *pace, *prices, "over baseline"]
    table(columns, [(name, *_row(a, p)) for name, p in rows])
    if any(p.estimated for _, p in rows):
        say(
            f"{ESTIMATED}: not simulated, but by formulas that may be too fast at this load.",
            "dim",
        )
    if (grouped := next((p for _, p in rows if p.dp > 1), None)) is not None:
        degrees = typed(grouped.tp // grouped.dp, grouped.dp, grouped.ep).strip(" ()")
        say(f"For this tool, {degrees}: --tp counts all devices of a server.", "dim")


def _picks(a: Advice) -> list[tuple[str, Pick]]:
    """The named rows of the table, beginning with the choice and its optional draft. A row with the same text
    as an earlier row is left out.
    """
    named = {
        "chosen": a.chosen,
        "with a draft": a.option,
        "runner-up": a.runner_up,
        "best baseline": a.baseline,
    }
    named["no TPOT bound"] = a.unbounded
    named["nearest"] = None if a.nearest is None else a.nearest.pick
    rows: list[tuple[str, Pick]] = []
    for name, pick in named.items():
        if pick is not None and _row(a, pick) not in (_row(a, p) for _, p in rows):
            rows.append((name, pick))
    return rows


def _other_kinds(a: Advice) -> list[tuple[str, Pick]]:
    """The choice on each other kind of device."""
    return [("other GPUs", p) for p in a.by_hardware[1:]]


def _other_layouts(a: Advice, verbose: bool) -> list[tuple[str, Pick]]:
    """The best point of each layout that has no row yet. A layout can have a second row if only its baseline
    has a row.
    """
    shown = {(p.layout, p.draft, p.gamma) for _, p in _picks(a)}
    others = [("other", p) for p in a.layouts if (p.layout, p.draft, p.gamma) not in shown]
    return others if verbose else others[:SHOWN]


def _row(a: Advice, p: Pick) -> tuple[str, ...]:
    """The cells of a configuration. Its gain over the baseline is left out on another kind of device."""
    price = [] if p.cost_per_million_tokens is None else [f"{p.cost_per_million_tokens:.2f}"]
    gain = a.gain(p) if a.chosen is None or p.hardware == a.chosen.hardware else None
    last = ["-" if gain is None else ratio_text(gain)]
    ttft: tuple[str, ...] = ()
    if a.query.has_load:
        ttft = _under_load(p, ("-" if p.ttft_s is None else seconds(p.ttft_s),))
        last = [_share(p.slo_share), _share(p.load_share)]
    kind = [p.hardware] if a.by_hardware else []
    draft = draft_text(p) if p.gamma else "none"
    point = (p.layout, str(p.gpus), draft, str(p.gamma), str(p.batch))
    return (*kind, *point, *ttft, *_under_load(p, _pace(p)), *price, *last)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _under_load(p: Pick, cells: tuple[str, ...]) -> tuple[str, ...]:
    """The cells of times and throughput, marked if they are only estimated."""
    return tuple(f"{ESTIMATED}{cell}" for cell in cells) if p.estimated else cells


def _pace(p: Pick | FrontPoint) -> tuple[str, str]:
    return seconds(p.tpot_s), f"{p.throughput_tokens_per_s_per_device:.0f}"


def print_fronts(a: Advice) -> None:
    """Prints some points of the Pareto fronts with and without a draft."""
    fronts = {"baseline": a.pareto.baseline, "speculating": a.pareto.speculating}
    points = []
    for name, front in fronts.items():
        for p in _spread(front):
            points.append((name, *_pace(p), str(p.batch), str(p.gamma), p.layout, draft_text(p)))
    if points:
        columns = ("front", "TPOT", "tokens/s/GPU", "batch", "gamma", Column("layout", left=True), DRAFT)
        table(columns, points)


def _spread(front: Sequence[FrontPoint]) -> Sequence[FrontPoint]:
    """At most `SHOWN` points of a front, including both ends."""
    if len(front) <= SHOWN:
        return front
    last = len(front) - 1
    return [front[round(i * last / (SHOWN - 1))] for i in range(SHOWN)]
