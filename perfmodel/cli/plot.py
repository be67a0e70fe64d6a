"""``perfmodel plot``: pictures of the other verbs' answers, as .png or .svg."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np

from perfmodel import plots
from perfmodel.answers.advice.candidates import AdviseQuery
from perfmodel.answers.declaration import Argument, argument, flag, question
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import UNUSED, Options, Query, acceptances_of, doubts, resolve
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.readers import MaybeWholes
from perfmodel.cli.commands import LLAMA, OUTPUT, App, flagged, takes
from perfmodel.cli.output import warn
from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.plots.theme import Figure
from perfmodel.speculation import Scenario, Workload, predict

app = App("Pictures of the answers as .png or .svg.")
MAX_LINES, MAX_BARS = 8, 6
LOADS = 32
NOTES = ("in-sample: a fitted row was part of its fit", "held out: each row predicted by a fit without it")
DEFAULTS: dict[str, dict[str, Any]] = {
    "context": {"batch": (1, 16, 64, 256), "context": (1024, 131072)},
    "batch": {"batch": (1, 256), "context": (2048, 8192, 32768, 131072)},
    "gamma": {"batch": (64,), "context": (2048, 8192, 32768, 131072)},
    "breakdown": {"batch": (1, 16, 64), "context": (32768,)},
    "both": {"batch": (1, 256), "context": (1024, 131072)},
}
"""Axis of a picture -> default batches and contexts."""
Output = Annotated[Path, Argument("Output file: .png or .svg.", "FILE", "-o --out", group=OUTPUT)]
Over = Annotated[str, Argument("Quantity on the axis; each value of the other is a line.", "context|batch")]
Measured = Annotated[bool, Argument("Draw published measurements of this pair, device and gamma as dots.")]
Sets = Annotated[
    tuple[str, ...] | None,
    Argument("Set of measurements; repeatable [all in the gate].", "NAME", flag="--set"),
]
HeldOut = Annotated[bool, Argument("Predict fitted rows with refits without their fold.")]


@question
class Points(Options):
    """A question at many batches and contexts at once, with one value for everything else; by default
    `DEFAULTS`.
    """

    _: KW_ONLY
    batch: MaybeWholes = argument(
        "Batches: one line each, or a range.", arg.COUNTS, "--batch-size -b", default=None
    )
    context: MaybeWholes = argument(
        "Contexts: one line each, or a range.", arg.COUNTS, "--context-length -c", default=None
    )
    gamma: arg.Gamma = argument(default=None)
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = argument(default=None)

    def over(self, what: str) -> "Points":
        """The question with default batches and contexts where they were not given."""
        given: dict[str, Any] = {n: getattr(self, n) or default for n, default in DEFAULTS[what].items()}
        return replace(self, **given)

    def at_first_point(self) -> Query:
        """The question at its first batch and context."""
        return self.query(batch=self.axis_values("batch")[0], context=self.axis_values("context")[0])

    def accepted(self) -> Query:
        """As `one`. Raises InputError where the acceptance would be looked up, because a published one
        belongs to one context.
        """
        if not acceptances_of(self):
            raise InputError(
                "--alpha: must be given here: a published or measured acceptance holds at one context only"
            )
        return self.at_first_point()

    def axis_values(self, name: str, most: float = math.inf) -> tuple[int, ...]:
        """All values of ``batch`` or ``context``. Raises InputError for more than `most`, one line each."""
        found: tuple[int, ...] = getattr(self, name)
        if len(found) > most:
            raise refuse(f"--{name}", None, f"at most {most} values here, one line each", len(found))
        return found

    def span(self, name: str) -> tuple[float, float]:
        """The smallest and the largest value of ``batch`` or ``context``. Raises InputError where they are
        equal.
        """
        low, high = float(min(self.axis_values(name))), float(max(self.axis_values(name)))
        if not low < high:
            raise refuse(f"--{name}", None, "a span such as 1..256 here", f"{low:g}")
        return low, high

    def points(self) -> list[tuple[float, float]]:
        """Every batch with every context."""
        batches, contexts = (self.axis_values(name, MAX_LINES) for name in ("batch", "context"))
        return [(b, c) for b in batches for c in contexts]


@app.command(example=f"{LLAMA} --batch 8 --context 32k --gamma 3 --output roofline.svg")
@takes(Query)
def roofline(query: Query, output: Output) -> None:
    """The passes of one question under the roofline of the device, and the limit of each."""
    batch, context = float(query.batch), float(query.context)
    # a pass costs the same whatever is accepted: none is looked up where gamma is known
    scenario = resolve(query, None if query.gamma is None or acceptances_of(query) else UNUSED)
    length = _best_gamma(scenario, query, [(batch, context)])
    _save(plots.roofline(scenario, batch, context, length), output)
    warn(doubts(query, scenario, batch, context, length))


@app.command(example=f"{LLAMA} --alpha 0.8 --output surface.svg")
@takes(Points)
def surface(question: Points, output: Output, measured: Measured = False) -> None:
    """Speedup over batch and context, with the break-even line; configurations that do not fit in memory are
    hatched.
    """
    asked = question.over("both")
    query = asked.accepted()
    if query.gamma == 0:
        raise refuse("--gamma", None, "1 or more, or auto: the speedup of the baseline is always 1", 0)
    scenario = resolve(query)
    made = plots.surface(
        scenario,
        gamma=query.gamma,
        batch=asked.span("batch"),
        context=asked.span("context"),
        max_gamma=query.max_gamma,
        batch_range=query.batch_range,
        memory_fraction=query.memory_fraction,
        measured=_published(query) if measured else (),
    )
    _save(made, output, asked, scenario)


@app.command(example=f"{LLAMA} --gamma 3 --output ratios.svg")
@takes(Points)
def ratios(question: Points, output: Output, over: Over = "context") -> None:
    """T_D/T_T and T_V/T_T over the context (a line per batch) or over the batch (a line per context)."""
    if over not in ("context", "batch"):
        raise unknown_name("--over", "axis", over, ("context", "batch"))
    if not question.gamma:
        raise refuse(
            "--gamma", None, "a whole number of 1 or more here", "auto" if question.gamma is None else 0
        )
    asked = question.over(over)
    scenario = resolve(asked.at_first_point(), UNUSED)  # what is accepted does not matter
    lines = asked.axis_values("batch" if over == "context" else "context", MAX_LINES)
    _save(plots.ratios(scenario, lines, asked.span(over), question.gamma, over=over), output, asked, scenario)


@app.command(example=f"{LLAMA} --batch 1,32 --context 32k --alpha 0.8 --output breakdown.svg")
@takes(Points)
def breakdown(question: Points, output: Output) -> None:
    """The predicted time of each pass and of a token by component, for a few batches or contexts."""
    asked = question.over("breakdown")
    points = asked.points()
    if len(points) > MAX_BARS:
        raise refuse("--batch, --context", None, f"at most {MAX_BARS} points together", len(points))
    query = asked.at_first_point() if len(asked.axis_values("context")) == 1 else asked.accepted()
    scenario = resolve(query)
    length = _best_gamma(scenario, query, points)
    if not length:
        raise InputError("--gamma: must be 1 or more here, and no draft pays at any of these points")
    _save(plots.breakdown(scenario, points, length), output, asked, scenario)


@app.command(example=f"{LLAMA} --context 4k,64k --alpha 0.8 --output lengths.svg")
@takes(Points)
def gamma(question: Points, output: Output) -> None:
    """Speedup over the draft length, a line for each batch and context."""
    asked = question.over("gamma")
    query, points = asked.accepted(), asked.points()
    if len(points) > MAX_LINES:
        raise refuse("--batch, --context", None, f"at most {MAX_LINES} lines together", len(points))
    scenario = resolve(query)
    _save(plots.gamma_curves(scenario, points, max_gamma=query.max_gamma), output, asked, scenario)


@app.command(example=f"{LLAMA} --context 32k --output front.svg")
@takes(AdviseQuery)
def pareto(question: AdviseQuery, output: Output) -> None:
    """Throughput against time per token: the Pareto fronts of the baseline and of speculation, as in
    `perfmodel advise`.
    """
    from perfmodel.answers.advice.advise import advise

    answer = advise(question)
    _save(plots.pareto(answer), output)
    warn(answer.warnings)


@app.command(
    "traffic",
    example=(
        "--model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k --request-rate 0.1,1.9 "
        "--draft eagle:features=3 --gamma 3 --alpha 0.6 --slo tpot:30 --output traffic.svg"
    ),
)
@takes(TrafficQuery)
def latency(question: TrafficQuery, output: Output) -> None:
    """Latency between the smallest and the largest load of `perfmodel traffic`, with and without drafts; the
    SLO and the saturation points.
    """
    name = "request_rate" if question.opens else "max_concurrency"
    low, high = question.loads.min(), question.loads.max()
    if not low < high:
        raise refuse(flag(name), None, "two loads or more here, such as 0.5,4", f"{low:g}")
    loads = (
        np.linspace(low, high, LOADS)
        if question.opens
        else np.unique(np.round(np.geomspace(low, high, LOADS)))
    )
    given: dict[str, Any] = {name: tuple(loads.tolist() if question.opens else map(int, loads))}
    slo = {limit: 1e3 * seconds for limit, seconds in question.limits_s.items()}
    answer = traffic(replace(question, **given))
    _save(plots.traffic(answer, slo=slo), output)
    warn(answer.warnings)


@app.command(example="--set magicdec --output residuals.svg")
@flagged
def residuals(output: Output, sets: Sets = None, held_out: HeldOut = False) -> None:
    """The errors of predictions against the committed measurements, one panel for each quantity."""
    from perfmodel.validate.accuracy import compare

    known = (*compare.SETS, *compare.own_records())
    for name in sets or ():
        if name not in known:
            raise unknown_name("--set", "set of measurements", name, known)
    cells = compare.compare(sets or compare.gated_sets(), "held-out" if held_out else "shipped")
    _save(plots.residuals(cells, note=NOTES[held_out]), output)


def _save(
    figure: Figure, output: Path, question: Points | None = None, scenario: Scenario | None = None
) -> None:
    """Writes a picture and prints the doubts of the longest context of its question. The picture itself marks
    batches that do not fit.
    """
    plots.save(figure, output)
    click.echo(f"wrote {output}", err=True)
    if question and scenario:
        longest = max(question.axis_values("context"))
        warn(doubts(question, scenario, 1.0, longest, 1 if question.gamma is None else question.gamma))


def _best_gamma(scenario: Scenario, query: Query, points: Sequence[tuple[float, float]]) -> int:
    """The question's gamma; if it is open, the best one at the point with the largest speedup."""
    if query.gamma is not None:
        return query.gamma
    best = predict(scenario, Workload.of(*zip(*points, strict=True)), query.max_gamma)
    return int(best.gamma_optimal[best.speedup_at_gamma_optimal.argmax()])


def _published(query: Query) -> list[tuple[float, float, float]]:
    """Batch, context and speedup of the published measurements. Raises InputError if there are none."""
    from perfmodel.answers.point.published_runs import measured_speedups

    scenario = resolve(query)
    rows = measured_speedups(scenario, query.tp)
    dots = [
        (float(batch), float(context), speedup)
        for batch, context, gamma, speedup in rows
        if gamma == query.gamma
    ]
    if not dots:
        engine = scenario.machine.calibration.stack
        what = f"no run of this model, device, draft and --gamma with --engine {engine} was published"
        raise InputError(f"--measured: {what}; leave it out")
    return dots
