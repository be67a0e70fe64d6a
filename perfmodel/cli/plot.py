"""``perfmodel plot``: pictures of the answers of other commands, as .png, .svg or .pdf."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np

from perfmodel import plots
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.declaration import Argument, argument, flag, question
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import (
    Options,
    Query,
    Shown,
    acceptances_of,
    arguments as arg,
    doubts,
    length_of,
    resolve,
    resolve_costs,
)
from perfmodel.answers.readers import MaybeWholes
from perfmodel.cli.commands import LLAMA, takes
from perfmodel.cli.grouped_help import OUTPUT, App
from perfmodel.cli.output import warn
from perfmodel.errors import InputError, refuse
from perfmodel.parse import MAX_VALUES
from perfmodel.plots.palette import PALETTES
from perfmodel.plots.surfaces import MeasuredPoint
from perfmodel.plots.theme import Figure
from perfmodel.speculation import DEFAULT_BATCH_RANGE, Acceptance, Scenario, Workload, predict

app = App("Pictures of the answers as .png, .svg or .pdf.")
MAX_LINES = 8
"""Largest number of lines in a picture."""
MAX_BARS = 6
"""Largest number of points in a picture of components."""
LOADS = 32
"""Number of loads in a picture of latencies."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "context": {"batch": (1, 16, 64, 256), "context": (1024, 131072)},
    "batch": {"batch": (1, 256), "context": (2048, 8192, 32768, 131072)},
    "breakdown": {"batch": (1, 16, 64), "context": (32768,)},
    "both": {"batch": (1, 256), "context": (1024, 131072)},
}
"""Picture or axis of a picture -> default batches and contexts."""
Output = Annotated[Path, Argument("Output file: .png, .svg or .pdf.", "FILE", "-o --out", group=OUTPUT)]
Theme = Annotated[str, Argument("Colours for a light or a dark page.", choices=tuple(PALETTES), group=OUTPUT)]
Over = Annotated[
    str,
    Argument(
        "Quantity on the axis; each value of the other quantity is a line.",
        "context|batch",
        choices=("context", "batch"),
    ),
]
Measured = Annotated[
    bool, Argument("Draw published measurements of this model, draft, device and gamma as dots.")
]


@question
class Points(Options):
    """A question at many batches and contexts, with one value for every other argument. `DEFAULTS` has the
    default batches and contexts.
    """

    _: KW_ONLY
    batch: MaybeWholes = argument(
        "Batch sizes: a range, or several values, each drawn as a line.",
        arg.COUNTS,
        "--batch-size -b",
        default=None,
        most=MAX_VALUES,
    )
    context: MaybeWholes = argument(
        "Contexts: a range, or several values, each drawn as a line.",
        arg.COUNTS,
        "--context-length -c",
        default=None,
        most=MAX_VALUES,
    )
    gamma: arg.Gamma = argument(default=None)
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = argument(default=None)
    batch_range: arg.BatchRange = argument(default=DEFAULT_BATCH_RANGE)

    def over(self, what: str) -> "Points":
        """The question, with the default batches and contexts of a picture if the user gave none.

        - what: the picture, a key of `DEFAULTS`.
        """
        return replace(self, **{n: getattr(self, n) or default for n, default in DEFAULTS[what].items()})

    def first(self) -> Query:
        """The question at its first batch and first context."""
        return self.query(batch=self.values("batch")[0], context=self.values("context")[0])

    def scenario(self) -> Scenario:
        """The scenario for all contexts. The scenario has the acceptance of the longest context, which is the
        least certain. Raises InputError if the acceptance that is looked up depends on the context.
        """
        scenario = resolve(self.first())
        if acceptances_of(self):
            return scenario
        first, *others = self.values("context")
        for context in others:
            there = resolve(replace(self.first(), context=context))
            if _as_certain(there.acceptance) != _as_certain(scenario.acceptance):
                raise InputError(
                    f"--alpha: must be given here: the measured acceptance at context {context} is not that "
                    f"at context {first}"
                )
        return resolve(replace(self.first(), context=max(self.values("context"))))

    def values(self, name: str) -> tuple[int, ...]:
        """All values of ``batch`` or ``context``."""
        return tuple(getattr(self, name))

    def span(self, name: str) -> tuple[float, float]:
        """The smallest and the largest value of ``batch`` or ``context``. Raises InputError if the two are
        equal.
        """
        low = float(min(self.values(name)))
        high = float(max(self.values(name)))
        if not low < high:
            raise refuse(f"--{name}", None, "a span such as 1..256 here", f"{low:g}")
        return low, high

    def doubts(self, scenario: Scenario) -> tuple[str, ...]:
        """Warnings about one sequence at the longest context. The picture itself marks batches that do not
        fit in memory.
        """
        longest = max(self.values("context"))
        drafted = 1 if self.gamma is None else self.gamma
        return doubts(self, scenario, 1.0, longest, drafted)


@app.command(example=f"{LLAMA} --batch 8 --context 32k --gamma 3 --output roofline.svg")
@takes(Query)
def roofline(query: Query, output: Output, theme: Theme = "light") -> None:
    """The passes of one prediction on the roofline of the device, with the limiter of each pass."""
    batch = float(query.batch)
    context = float(query.context)
    # the cost of a pass does not depend on the acceptance, so only an open gamma needs one
    needed = query.gamma is None or acceptances_of(query)
    scenario = resolve(query) if needed else resolve_costs(query)
    length = length_of(query, scenario)
    _save(
        lambda: plots.roofline(scenario, batch, context, length),
        output,
        theme,
        doubts(query, scenario, batch, context, length, shown=Shown(acceptance=False, interval=False)),
    )


@app.command(example=f"{LLAMA} --alpha 0.8 --output surface.svg")
@takes(Points)
def surface(question: Points, output: Output, theme: Theme = "light", measured: Measured = False) -> None:
    """Speedup over batch and context, with the break-even line. Configurations that do not fit in memory are
    hatched.
    """
    axes = question.over("both")
    query = axes.first()
    if query.gamma == 0:
        raise refuse("--gamma", None, "1 or more, or auto: the speedup of the baseline is always 1", 0)
    scenario = axes.scenario()
    _save(
        lambda: plots.surface(
            scenario,
            gamma=query.gamma,
            batch=axes.span("batch"),
            context=axes.span("context"),
            max_gamma=query.max_gamma,
            batch_range=query.batch_range,
            memory_fraction=query.memory_fraction,
            measured=_published(scenario, query.gamma) if measured else (),
        ),
        output,
        theme,
        axes.doubts(scenario),
    )


@app.command(example=f"{LLAMA} --gamma 3 --output ratios.svg")
@takes(Points)
def ratios(question: Points, output: Output, theme: Theme = "light", over: Over = "context") -> None:
    """Times of a draft step and of a verification, relative to a baseline step, against the context or
    the batch.
    """
    gamma = question.gamma
    if not gamma:
        whole = "a whole number of 1 or more here (no default)"
        raise refuse("--gamma", None, whole, "auto" if gamma is None else 0)
    axes = question.over(over)
    crossed = "batch" if over == "context" else "context"
    lines = axes.values(crossed)
    if len(lines) > MAX_LINES:
        raise refuse(f"--{crossed}", None, f"at most {MAX_LINES} values here, one line each", len(lines))
    scenario = resolve_costs(axes.first())
    _save(
        lambda: plots.ratios(
            scenario, lines, axes.span(over), gamma, over=over, memory_fraction=question.memory_fraction
        ),
        output,
        theme,
        axes.doubts(scenario),
    )


@app.command(example=f"{LLAMA} --batch 1,32 --context 32k --alpha 0.8 --output breakdown.svg")
@takes(Points)
def breakdown(question: Points, output: Output, theme: Theme = "light") -> None:
    """Predicted times of each pass and of a token, split into components, for some batches or contexts."""
    axes = question.over("breakdown")
    points = list(product(axes.values("batch"), axes.values("context")))
    if len(points) > MAX_BARS:
        raise refuse("--batch, --context", None, f"at most {MAX_BARS} points together", len(points))
    query = axes.first()
    scenario = axes.scenario()
    length = query.gamma
    if length is None:  # the best one at the point with the largest speedup
        best = predict(scenario, Workload.of(*zip(*points, strict=True)), query.max_gamma)
        length = int(best.gamma_optimal[best.speedup_at_gamma_optimal.argmax()])
    if not length:
        raise InputError("--gamma: must be 1 or more here, and no draft pays off at any of these points")
    _save(lambda: plots.breakdown(scenario, points, length), output, theme, axes.doubts(scenario))


@app.command(
    example=f"{LLAMA} --context 32k --rate self@streamingllm:512=0.8 --rate eagle=0.7/0.6/0.5 "
    "--any-draft --output pareto.svg"
)
@takes(AdviseQuery)
def pareto(question: AdviseQuery, output: Output, theme: Theme = "light") -> None:
    """The Pareto fronts of `perfmodel advise`, with and without a draft: throughput per device against time
    per token, over batches and layouts.
    """
    from perfmodel.answers.advice.advise import advise

    answer = advise(question)
    _save(lambda: plots.pareto(answer), output, theme, answer.warnings)


@app.command(
    "traffic",
    example=(
        "--model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k --request-rate 0.1,1.9 "
        "--draft eagle:features=3 --gamma 3 --alpha 0.6 --slo tpot:30 --output traffic.svg"
    ),
)
@takes(TrafficQuery)
def latency(question: TrafficQuery, output: Output, theme: Theme = "light") -> None:
    """Latency over load, from the smallest to the largest load in the question, with and without a draft. The
    picture also shows the SLO and the saturation rates.
    """
    name = "request_rate" if question.opens else "max_concurrency"
    low = question.loop.values.min()
    high = question.loop.values.max()
    if not low < high:
        raise refuse(flag(name), None, "two loads or more here, such as 0.5,4", f"{low:g}")
    if question.opens:
        loads = np.linspace(low, high, LOADS)
    else:
        loads = np.unique(np.round(np.geomspace(low, high, LOADS)))
    given: dict[str, Any] = {name: tuple(loads.tolist() if question.opens else map(int, loads))}
    answer = traffic(replace(question, **given))
    _save(lambda: plots.traffic(answer, question), output, theme, answer.warnings)


def _as_certain(acceptance: Acceptance | None) -> Acceptance | None:
    """An acceptance as if it were exact, so that two can be compared."""
    return None if acceptance is None else acceptance.replace(spread=0.0)


def _save(draw: Callable[[], Figure], output: Path, theme: str, notes: Iterable[str]) -> None:
    """Draws and writes a picture, and prints the doubts of its question."""
    with plots.style(theme):
        plots.save(draw(), output)
    click.echo(f"wrote {output}", err=True)
    warn(notes)


def _published(scenario: Scenario, gamma: int | None) -> list[MeasuredPoint]:
    """The published measurements of a scenario at one gamma. Raises InputError if there are none."""
    from perfmodel.answers.point.published_runs import measured_speedups

    dots = [
        MeasuredPoint(float(run.batch), float(run.context), run.speedup)
        for run in measured_speedups(scenario)
        if run.gamma == gamma
    ]
    if not dots:
        raise InputError(
            "--measured: no run of this model, device, draft, formats and --gamma with --engine "
            f"{scenario.machine.calibration.stack} was published; leave it out"
        )
    return dots
