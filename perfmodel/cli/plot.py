"""``perfmodel plot``: pictures of what the other verbs print, as .png or .svg."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfmodel import plots
from perfmodel.answers.query import Query, resolve
from perfmodel.cli.advise import Search
from perfmodel.cli.catalogue import Verbs
from perfmodel.cli.counts import parse_counts
from perfmodel.cli.options import COUNTS, Question, _option, asks
from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(
    cls=Verbs, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Pictures of the answers, as .png or .svg.",
)  # fmt: skip
MOST_LINES, MOST_BARS = 8, 6
SPAN = "LOW..HIGH"
DEFAULTS = {
    "context": {"batch": "1,16,64,256", "context": "1k..128k"},
    "batch": {"batch": "1..256", "context": "2k,8k,32k,128k"},
}
ALL = {"gamma": {"batch": "64", "context": "2k,8k,32k,128k"}, "both": {"batch": "1..256", "context": "1k..128k"}}
"""What is drawn over -> batches and contexts where none are typed."""
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to: a .png or .svg file.")]
Over = Annotated[
    str, typer.Option("--over", metavar="context|batch", help="What the axis is; the other one gives a line for each.")
]
Map = Annotated[bool, typer.Option("--map", help="The best length over --batch and --context, as a map.")]
Measured = Annotated[
    bool, typer.Option("--measured", help="Dots where this pair, device and gamma was measured and published.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME", help="Set of measured times; repeatable [all gated ones].")
]
HeldOut = Annotated[bool, typer.Option("--held-out", help="Predict fitted rows by refits without their fold.")]
NoIdeal = Annotated[bool, typer.Option("--no-ideal", help="Leave the ideal roofline (dashed) out.")]


@dataclass(frozen=True, kw_only=True)
class Points(Question):
    """A question at many batches and contexts at once, all else being one value."""

    def one(self) -> Query:
        """The question at its first batch and context. Raises InputError."""
        first = {name: str(self.counts(name)[0]) for name in ("batch", "context")}
        (query,) = Question(**{f.name: getattr(self, f.name) for f in fields(Question)} | first).queries()
        return query

    def accepted(self) -> Query:
        """As `one`. Raises InputError where acceptance would be looked up, which belongs to one context."""
        if self.alpha is None and self.tokens_per_iteration is None and self.acceptance is None:
            raise InputError("--alpha: must be given here: an acceptance that is looked up belongs to one context")
        return self.one()

    def counts(self, name: str) -> tuple[int, ...]:
        """All values of ``batch`` or ``context``."""
        return parse_counts(getattr(self, name), f"--{name}")

    def span(self, name: str) -> tuple[float, float]:
        """The least and the largest value of ``batch`` or ``context``. Raises InputError where they are the same."""
        values = self.counts(name)
        low, high = float(min(values)), float(max(values))
        if not low < high:
            raise refuse(f"--{name}", None, "a span such as 1..256 here", f"{low:g}")
        return low, high

    def lines(self, name: str) -> tuple[int, ...]:
        """All values of ``batch`` or ``context``, for a line each. Raises InputError where they are too many."""
        values = self.counts(name)
        if len(values) > MOST_LINES:
            raise refuse(f"--{name}", None, f"at most {MOST_LINES} values here, a line each", len(values))
        return values


@dataclass(frozen=True, kw_only=True)
class Spans(Points):
    """Points over the whole plane: the least and the largest batch and context typed are the ends."""

    batch: Annotated[str, _option("--batch --batch-size -b", SPAN, "Ends of the batches.")] = "1..256"
    context: Annotated[str, _option("--context --context-length -c", SPAN, "Ends of the contexts.")] = "1k..128k"


@dataclass(frozen=True, kw_only=True)
class Lengths(Points):
    """Points of the draft length: a line each, or with --map the ends of a plane."""

    batch: Annotated[str, _option("--batch --batch-size -b", COUNTS, "Batches, a line each.")] = ""
    context: Annotated[str, _option("--context --context-length -c", COUNTS, "Contexts, a line each.")] = ""


@dataclass(frozen=True, kw_only=True)
class Costs(Lengths):
    """Points of cost ratios: a gamma, and nothing of what is accepted."""

    gamma: Annotated[str, _option("--gamma -g", "N", "Drafted tokens per iteration.")] = field()


@app.command()
@asks
def roofline(question: Question, output: Output) -> None:
    """The passes of one question under the roofline of the device: what limits what."""
    (query,) = question.queries()
    given = (query.alpha, query.tokens_per_iteration, query.acceptance)
    if query.gamma is not None and given == (None, None, None):
        query = replace(query, alpha=0.0)  # a pass costs the same whatever is accepted: none is looked up
    scenario, length = _at_gamma(query, [(query.batch, query.context)])
    _save(plots.roofline(scenario, query.batch, query.context, length), output)


@app.command()
@asks
def surface(question: Spans, output: Output, measured: Measured = False) -> None:
    """Speedup over batch and context, with the break-even line, S_inflection and what does not fit in memory."""
    query = question.accepted()
    made = plots.surface(
        resolve(query),
        gamma=_one_or_best(query),
        batch=question.span("batch"),
        context=question.span("context"),
        max_gamma=query.max_gamma,
        batch_range=query.batch_range,
        memory_fraction=query.memory_fraction,
        measured=_published(query) if measured else (),
    )
    _save(made, output)


@app.command()
@asks
def ratios(question: Costs, output: Output, over: Over = "context", no_ideal: NoIdeal = False) -> None:
    """T_D/T_T and T_V/T_T over the context, a line for each batch, or the other way round."""
    if over not in DEFAULTS:
        raise unknown_name("--over", "axis", over, DEFAULTS)
    asked = replace(question, alpha="0", **_filled(question, over))  # what is accepted does not matter
    query = asked.one()
    if not query.gamma:
        raise refuse("--gamma", None, "a whole number from 1 on here", question.gamma)
    lines = asked.lines("batch" if over == "context" else "context")
    made = plots.ratios(resolve(query), lines, asked.span(over), query.gamma, over=over, ideal=not no_ideal)
    _save(made, output)


@app.command()
@asks
def breakdown(question: Points, output: Output) -> None:
    """What the predicted time of each pass and of a token is spent on, for a few batches or contexts."""
    points = [(b, c) for b in question.lines("batch") for c in question.lines("context")]
    if len(points) > MOST_BARS:
        raise refuse("--batch, --context", None, f"at most {MOST_BARS} points together", len(points))
    query = question.one() if len(question.lines("context")) == 1 else question.accepted()
    scenario, length = _at_gamma(query, points)
    if not length:
        raise InputError("--gamma: must be 1 or more here, and no draft pays at any of these points")
    _save(plots.breakdown(scenario, points, length), output)


@app.command()
@asks
def gamma(question: Lengths, output: Output, map: Map = False) -> None:
    """Speedup over the draft length, a line for each batch and context, or the best length over all of them."""
    asked = replace(question, **_filled(question, "both" if map else "gamma"))
    query = asked.accepted()
    if map:
        made = plots.gamma_map(
            resolve(query),
            batch=asked.span("batch"),
            context=asked.span("context"),
            max_gamma=query.max_gamma,
            memory_fraction=query.memory_fraction,
        )
    else:
        points = [(b, c) for b in asked.lines("batch") for c in asked.lines("context")]
        if len(points) > MOST_LINES:
            raise refuse("--batch, --context", None, f"at most {MOST_LINES} lines together, or --map", len(points))
        made = plots.gamma_curves(resolve(query), points, max_gamma=query.max_gamma)
    _save(made, output)


@app.command()
@asks
def pareto(search: Search, output: Output) -> None:
    """Throughput against time per token: the fronts of plain decoding and of speculation, as `perfmodel advise`."""
    from perfmodel.answers.advise import advise

    _save(plots.pareto(advise(search.request())), output)


@app.command()
def residuals(output: Output, sets: Sets = None, held_out: HeldOut = False) -> None:
    """Predicted against measured times of the committed results, and the errors over the context."""
    from perfmodel.validate.accuracy import compare

    known = (*compare.SETS, *compare.own_sets())
    for name in sets or ():
        if name not in known:
            raise unknown_name("--set", "set of times", name, known)
    cells = compare.compare(sets or compare.gated_sets(), "held-out" if held_out else "shipped")
    _save(plots.residuals(cells, note="each row predicted by a fit without it" if held_out else ""), output)


def _save(figure: "Figure", output: Path) -> None:
    plots.save(figure, output)
    typer.echo(f"wrote {output}", err=True)


def _filled(question: Lengths, over: str) -> dict[str, Any]:
    """Batches and contexts, those that were not typed by default."""
    return {name: getattr(question, name) or default for name, default in (DEFAULTS | ALL)[over].items()}


def _one_or_best(query: Query) -> int | None:
    if query.gamma == 0:
        raise refuse("--gamma", None, "1 or more, or auto: plain decoding has speedup 1 everywhere", 0)
    return query.gamma


def _at_gamma(query: Query, points: Sequence[tuple[float, float]]) -> tuple[Scenario, int]:
    """The scenario and its gamma; where that is left open, the best one of the point with the largest speedup."""
    scenario = resolve(query)
    if query.gamma is not None:
        return scenario, query.gamma
    best = predict(scenario, Workload.of(*zip(*points, strict=True)), query.max_gamma)
    return scenario, int(best.gamma_optimal[best.speedup_at_gamma_optimal.argmax()])


def _published(query: Query) -> list[tuple[float, float, float]]:
    """Batch, context and speedup of the published measurements. Raises InputError where there is none."""
    from perfmodel.specs.published import published_points

    scenario = resolve(query)
    kv, gpu = scenario.draft.kv, scenario.machine.gpu.name
    spelt = kv.name if kv.budget is None else f"{kv.name}:{kv.budget}"
    same = (gpu, query.tp, scenario.target.name, scenario.draft.name, spelt, query.gamma)
    found = [
        (float(p.batch), float(p.context), p.speedup)
        for p in published_points("magicdec")
        if p.speedup is not None and (p.hardware, p.tp, p.target, p.draft, p.draft_kv, p.gamma) == same
    ]
    if not found:
        raise InputError("--measured: nothing was published of this model, device, draft and --gamma; leave it out")
    return found
