"""Fits constants to the timed steps of an engine. Only constants that the rows determine are fitted. The
other constants keep their values.

The fit minimises the squared errors of log seconds (`NOISE`). Every candidate has a weak prior around the
base calibration (`constants.around`). A constant whose error stays above `DETERMINED` times the width of its
prior is pinned at its prior, and the other constants are fitted again. A row's weight follows from the spread
of its own samples. The stated interval comes from refits without each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import COVERAGE, Calibration
from perfmodel.speculation import Scenario, Workload, predict, with_calibration, with_values
from perfmodel.validate.engine.constants import SPECULATIVE, sought
from perfmodel.validate.engine.timing import MAX_PREFILL_SHARE, Timing
from perfmodel.validate.solving import Estimate, Parameter, Values, estimate

NOISE = 0.03
"""Log error of a row that comes from the form of the model and from the clock. It sets the weight of rows
relative to priors.
"""
STEADY_SPREAD = 0.2
"""Robust spread of a row's samples, relative to their median, up to which the row has full weight."""
DETERMINED = 0.5
"""A constant counts as determined if its error is below this share of the prior's width."""
SHOWN_FILES = 4
"""Largest number of files that an error message names."""
START_INSIDE = 0.2
"""Smallest distance, in prior widths, between the start of a constant's search and its bounds, because a
search that starts on a bound can stay there. The bounds are more than one width apart (`constants`).
"""
SOFT_RESIDUAL = 2.0
"""Residuals above this value, in units of `NOISE`, count linearly, so one outlier does not distort the
fit.
"""
ENDS: dict[str, Any] = {"xtol": 1e-6, "ftol": 1e-6}
"""Tolerances at which a search ends."""


@dataclass(frozen=True)
class EngineRows:
    """The timings of an engine, and the scenario (model, device, draft and calibration) that predicts
    them.
    """

    timings: tuple[Timing, ...]
    scenario: Scenario

    def predict(self, calibration: Calibration) -> Array:
        """The predicted seconds of each row."""
        s = with_calibration(self.scenario, calibration)
        batch = np.array([t.batch for t in self.timings], float)
        context = np.array([t.context for t in self.timings], float)
        gamma = np.array([t.gamma for t in self.timings])
        steps = predict(s, Workload(batch, context, gamma.astype(np.int64)), max_gamma=0)
        kinds = np.array([t.kind for t in self.timings])
        drafting = np.where(kinds == "pass_with_draft", gamma * steps.draft_s, 0.0)
        return np.where(kinds == "iteration", steps.iteration_s, drafting + steps.verify_s)

    @property
    def measured(self) -> Array:
        """The measured seconds of each row."""
        return np.array([t.seconds for t in self.timings])

    @property
    def noise(self) -> Array:
        """Expected log error of each row: `NOISE`, or more if its own samples scatter by more than
        `STEADY_SPREAD`.
        """
        return np.array([NOISE * max(1.0, scatter(t.samples) / STEADY_SPREAD) for t in self.timings])


@dataclass(frozen=True)
class EngineFit:
    """The result of a fit.

    - free: names of the fitted constants.
    - stderr, correlation: the standard errors of these constants and the correlation of the errors, in the
      order of `free`.
    - pinned: names of the constants that the rows do not determine.
    - held_out: the seconds of each row, predicted by a fit without this row.
    - groups: for each of `inner_groups`, the mask of its rows, and the seconds of all rows, predicted by a
      fit without the group.
    """

    calibration: Calibration
    free: tuple[str, ...]
    stderr: tuple[float, ...]
    correlation: Array
    held_out: Array
    groups: tuple[tuple[Array, Array], ...]
    pinned: tuple[str, ...]


def rows_of(
    timings: Sequence[Timing], query: Query, base: Calibration, aside: Sequence[Timing] = ()
) -> EngineRows:
    """The timings as rows of one question. The acceptance of the question has no effect. Raises InputError if
    there are too few.

    - aside: timings that `usable` set aside, which the error message mentions.
    """
    check_enough(timings, aside)
    scenario = resolve_costs(replace(query, calibration="ideal"))
    return EngineRows(tuple(timings), with_calibration(scenario, base))


def check_enough(timings: Sequence[Timing], aside: Sequence[Timing] = ()) -> None:
    """Raises InputError if all rows have one draft length, or if all have one batch and context. Its message
    names the files.
    """
    names = list(dict.fromkeys(t.where.partition(": ")[0] for t in (*timings, *aside)))
    shown = ", ".join(names[:SHOWN_FILES])
    if len(names) > SHOWN_FILES:
        shown += f" and {len(names) - SHOWN_FILES} more"
    where = f"--from: {shown or 'no file'}"
    advice = "`perfmodel validate engine --plan` prints the runs worth making"
    if aside:
        steps = "1 step is" if len(aside) == 1 else f"{len(aside)} steps are"
        advice = f"{steps} set aside because of a prefill; {advice}"
    lengths = sorted({t.gamma for t in timings})
    if len(lengths) < 2:
        stated = ", ".join(map(str, lengths)) or "none"
        raise InputError(
            f"{where}: must hold two draft lengths or more (the baseline counts as 0), given {stated}: "
            f"{advice}"
        )
    places = {(t.batch, round(t.context, -1)) for t in timings}
    if len(places) < 2:
        raise InputError(f"{where}: must hold two batches or contexts or more, given one: {advice}")


class SortedTimings(NamedTuple):
    """The timings to fit to, and those set aside because they contain prefill."""

    steps: list[Timing]
    aside: list[Timing]


def usable(timings: Sequence[Timing]) -> SortedTimings:
    """Sets aside the timings in which prefill takes more than `MAX_PREFILL_SHARE` of the time."""
    steps: list[Timing] = []
    aside: list[Timing] = []
    for t in timings:
        has_prefill = t.prefill_share > MAX_PREFILL_SHARE
        (aside if has_prefill else steps).append(t)
    return SortedTimings(steps, aside)


def fit(rows: EngineRows, base: Calibration) -> EngineFit:
    """Finds the constants that the rows determine, fits them, and judges the fit on held-out rows."""
    on_cpu = rows.scenario.machine.gpu.kind == "cpu"
    candidates = sought(base, rows.timings, rows.scenario.target, on_cpu)
    expected = {name: p.expected for name, p in candidates.items() if name in SPECULATIVE}
    base = with_values(base, expected)
    every_row = np.ones(len(rows.timings), bool)
    free = dict(candidates)
    solved = solved_constants(rows, base, free, {}, every_row)
    while pinned := least_determined(free, solved, len(rows.timings)):
        del free[pinned]
        solved = solved_constants(rows, base, free, {}, every_row)

    def without(left_out: Array) -> Array:
        """The seconds of all rows, predicted by a fit without the rows in `left_out`."""
        refit = solved_constants(rows, base, free, solved.values, np.logical_not(left_out))
        return rows.predict(with_values(base, refit.values))

    single_rows = np.eye(len(rows.timings), dtype=bool)
    held_out = np.array([without(row)[i] for i, row in enumerate(single_rows)])
    groups = [(left_out, without(left_out)) for left_out in inner_groups(rows.timings)]
    return EngineFit(
        calibration=with_values(base, solved.values),
        free=tuple(free),
        stderr=tuple(solved.stderr.values()),
        correlation=solved.correlation,
        held_out=held_out,
        groups=tuple(groups),
        pinned=tuple(name for name in candidates if name not in free),
    )


def inner_groups(timings: Sequence[Timing]) -> list[Array]:
    """Masks of rows that are left out together: one mask for each draft length, and one for each octave of
    batches. The smallest and the largest draft length and octave have no mask.
    """
    lengths = np.array([t.gamma for t in timings])
    octaves = np.round(np.log2([t.batch for t in timings]))
    masks = []
    for by_row in (lengths, octaves):
        for value in np.unique(by_row)[1:-1]:
            masks.append(by_row == value)
    return masks


def solved_constants(
    rows: EngineRows, base: Calibration, free: dict[str, Parameter], start: Values, train: Array
) -> Estimate:
    """Fits the free constants to the rows of the mask `train`. The search begins at the values in `start`, or
    else at the priors.
    """
    logs = np.log(rows.measured)[train]
    noise = rows.noise[train]

    def residuals(values: Values) -> Array:
        predicted = np.log(rows.predict(with_values(base, values)))[train]
        off = (predicted - logs) / noise
        loss = 2 * SOFT_RESIDUAL**2 * (np.sqrt(1 + (off / SOFT_RESIDUAL) ** 2) - 1)
        return np.asarray(np.sign(off) * np.sqrt(loss))

    return estimate([*free.values()], residuals, start, inside=START_INSIDE, **ENDS)


def least_determined(free: Mapping[str, Parameter], solved: Estimate, rows: int) -> str | None:
    """The constant to pin next: a constant at its bound, or else the least determined one. None if all are
    determined.
    """
    if solved.at_bound:
        return solved.at_bound[0]
    share = {name: stderr / free[name].unit for name, stderr in solved.stderr.items()}
    worst = max(share, key=lambda name: share[name], default=None)
    if worst and (share[worst] > DETERMINED or len(free) >= rows):
        return worst
    return None


def scatter(samples: Sequence[float]) -> float:
    """The relative spread of samples: their interquartile range, converted to a standard deviation and
    divided by their median. It is 0 for fewer than four samples.
    """
    if len(samples) < 4:
        return 0.0
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75))
    return float((high - low) / 1.349 / middle) if middle else 0.0


def log_rms(predicted: Array, measured: Array) -> float:
    """The root mean square of log(predicted / measured)."""
    return float(np.sqrt(np.mean(np.log(predicted / measured) ** 2)))


def small_sample(rms: float, count: float) -> float:
    """The root mean square of `count` errors, widened for small counts (Student's t) so that a normal
    interval with it covers the share `COVERAGE`.
    """
    from scipy.stats import norm, t

    tail = (1 + COVERAGE) / 2
    return rms * float(t.ppf(tail, max(count - 1, 1)) / norm.ppf(tail))
