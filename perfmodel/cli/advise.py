"""``perfmodel advise``: which draft, cache, length and devices, or none."""

from collections.abc import Sequence

import typer

from perfmodel.answers.advise import Advice, Pick, Robustness
from perfmodel.answers.advise import advise as answer
from perfmodel.answers.candidates import AdviseQuery
from perfmodel.answers.prices import FrontPoint
from perfmodel.answers.text import seconds, times
from perfmodel.answers.verdict import SENTENCES
from perfmodel.cli.options import PLAIN, Json, takes
from perfmodel.cli.output import Column, say, show, table, warn

app = typer.Typer(**PLAIN)
COLOURS = {"speculate": "green", "do_not_speculate": "red", "infeasible": "red"}
DRAFT = Column("draft", left=True)


@app.command()
@takes(AdviseQuery)
def advise(question: AdviseQuery, json: Json = False) -> None:
    """Which draft, KV method and budget, gamma, batch and tensor-parallel degrees are best, or is the baseline?

    Only drafts whose acceptance was measured are searched: by --rate, by a file, or in the bundled rows.
    """
    show(answer(question), json, _print)


def _print(a: Advice) -> None:
    q = a.query
    say(f"{q.model} on {q.hardware}, context {q.context:g}, for {a.objective.name}", "bold")
    say(SENTENCES[a.verdict], f"bold {COLOURS[a.verdict]}")
    say(f"{a.reason[0].upper()}{a.reason[1:]}.")
    if a.chosen is not None and a.robustness is not None:
        picks = {"chosen": a.chosen, "runner-up": a.runner_up, "baseline": a.baseline}
        rows = [(name, *_row(p)) for name, p in picks.items() if p is not None]
        table(("", "tp", DRAFT, "gamma", "batch", "TPOT", "tokens/s", Column("$/Mtok", spare=1), "speedup"), rows)
        say(_robust(a.robustness))
        fronts = {"baseline": a.pareto.baseline, "speculating": a.pareto.speculating}
        points = [
            (name, *_pace(p), str(p.batch), _length(p), _draft(p)) for name, f in fronts.items() for p in _spread(f)
        ]
        table(("front", "TPOT", "tokens/s", "batch", "gamma", DRAFT), points)
    if (c := a.calibration) is not None:
        say(f"{a.candidates:,} candidates; calibration {c.name} ({c.kind})")
    if a.skipped:
        first = a.skipped[0]
        example = f"{first.draft} {first.draft_kv}: {first.reason}"
        say(f"skipped {len(a.skipped)} (--json lists them), such as {example}", "dim")
    warn(a.warnings)


def _spread(front: Sequence[FrontPoint], count: int = 6) -> Sequence[FrontPoint]:
    """At most `count` points of a front, its ends among them."""
    if len(front) <= count:
        return front
    return [front[round(i * (len(front) - 1) / (count - 1))] for i in range(count)]


def _length(p: Pick | FrontPoint) -> str:
    return str(p.gamma) if p.tree_levels is None else f"{p.gamma} in {p.tree_levels - 1} levels"


def _draft(p: Pick | FrontPoint) -> str:
    kv = "" if p.draft_kv in (None, "full") else f" {p.draft_kv.partition(',')[0]}"
    return f"{p.draft or '-'}{kv}"


def _row(p: Pick) -> tuple[str, ...]:
    price = "-" if p.cost_per_million_tokens is None else f"{p.cost_per_million_tokens:.3f}"
    return (str(p.tp), _draft(p), _length(p), str(p.batch), *_pace(p), price, times(p.speedup))


def _pace(p: Pick | FrontPoint) -> tuple[str, str]:
    return seconds(p.tpot_s), f"{p.throughput_tokens_per_s:.0f}"


def _robust(r: Robustness) -> str:
    parts = []
    if r.gain_over_baseline is not None:
        interval = r.gain_over_baseline_interval
        scatter = "" if interval is None else " ({:.2f} to {:.2f} by the calibration's scatter)".format(*interval)
        parts.append(f"{r.gain_over_baseline:.2f} times the best baseline{scatter}")
    if r.gain_over_runner_up is not None:
        parts.append(f"{r.gain_over_runner_up:.3f} times the runner-up")
    if r.smallest_alpha is not None:
        parts.append(f"beats the baseline down to alpha {r.smallest_alpha:.2f} (now {r.alpha:.2f})")
    elif r.smallest_tokens_per_iteration is not None:
        parts.append(f"beats the baseline down to {r.smallest_tokens_per_iteration:.2f} tokens per iteration")
    return "; ".join(parts)
