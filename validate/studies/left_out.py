"""Steps and speedups of public runs with constants fitted without their source.

Constants that are stated from public runs (`parameters.PUBLIC`, `DEFAULT_FLAGS`) are fitted again without
each source. This is a regularised least-squares problem on the logarithms of step times, and of iterations
over steps, solved in a few Gauss-Newton steps. Errors have a part common to a source, and one common to a
server; distant rows have less weight (Student's t). A constant without rows of another source returns to its
neutral value: one that other data determine (`PlacedConstant.elsewhere`), otherwise 1 for a factor, a tenth
for a time, and for a version's factor on a time the median of such factors. All other constants stay.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.question import resolve
from perfmodel.specs import DRIFT, devices_of
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import Scenario, speedups, with_calibration
from perfmodel.validate.solving import Values, grouped
from perfmodel.validate.studies.engines import recorded
from perfmodel.validate.studies.parameters import DECODING, DEFAULT_FLAGS, PUBLIC, SPECULATING, PlacedConstant
from perfmodel.validate.studies.public_runs import Answered, speculating_query, step_query
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.robust import Array
from perfmodel.validate.studies.steps import FittedConstants, batch_of, decoding, served_as, version_of


@dataclass(frozen=True)
class Variances:
    """Variances of the logarithm of a step: parts common to a source and to a server, and the part of a
    row.
    """

    source: float
    server: float
    row: float

    @property
    def total(self) -> float:
        """Total variance of a row."""
        return self.source + self.server + self.row

    def covariance(self, steps: Sequence["MeasuredStep"]) -> Array:
        """``[steps, steps]``, the covariance of their errors."""

        same_source = np.array([[a.source == b.source for b in steps] for a in steps])
        same_server = np.array([[a.server == b.server for b in steps] for a in steps])
        same_row = np.eye(len(steps))
        return np.asarray(self.source * same_source + self.server * same_server + self.row * same_row)


VARIANCES = Variances(source=0.0015, server=0.0236, row=0.0142)
"""Variances of a normal fit to the errors of steps on 2026-11-24, fixed so that one outlying server does not
change all folds.
"""
TIME = 2.0
"""Spread of the logarithm of a time around its neutral value."""
FACTOR = 0.7
"""Spread of the logarithm of a factor around its neutral value."""
MEASURED = 0.3
"""Spread of the logarithm of a constant that is known from other data."""
FREEDOM = 4.0
"""Degrees of freedom of the t distribution of errors, which gives distant rows less weight."""
LATER = 0.4
"""A version's factor on a time without rows: the median of 14 such factors in ``engines.yaml``."""
GAUSS_NEWTON_STEPS = 7
"""Gauss-Newton steps of a fit."""
EVEN_STEPS = 2
"""Those of them with equal weights of all rows."""
LONGEST_STEP = 1.5
"""The longest step of a logarithm."""
SAME_SLOPES = 3
"""Gauss-Newton steps with the same slopes, which take most of the time."""
LOG_STEP = 0.02
"""Step of a finite difference, in the logarithm of a constant."""
ABSENT = 0.1
"""Share of a time that remains if no row determines it."""
FREE = {p.place: p for p in (*PUBLIC, *DEFAULT_FLAGS)}


def neutral(parameter: PlacedConstant) -> float:
    """Logarithm of a constant without public runs, over its value.

    It comes from other data if there are any; otherwise it is a factor of 1, `LATER` for a version's factor
    on a time, or a tenth of a time.
    """
    if parameter.elsewhere:
        return math.log(parameter.elsewhere / parameter.expected)
    if DRIFT in parameter.scope and parameter.name.endswith("_s"):
        return math.log(LATER / parameter.expected)
    factor = parameter.times or parameter.name.endswith("factor")
    return -math.log(parameter.expected) if factor else math.log(ABSENT)


def _spread(parameter: PlacedConstant) -> float:
    usual = TIME if parameter.name.endswith("_s") else FACTOR
    return MEASURED if parameter.elsewhere else usual


@dataclass
class MeasuredStep:
    """The time of a step, or with a draft length the ratio of an iteration to a step, as a function of the
    free constants in it.

    engine: the one whose constants predict it. off: logarithm of predicted over measured with `values`.
    """

    engine: str
    source: str
    server: tuple[object, ...]
    constants: FittedConstants
    scenario: Scenario
    batch: float
    context: float
    values: Mapping[str, float]
    off: float = 0.0
    gamma: int = 0

    def __post_init__(self) -> None:
        self.places = [p.place for p in self.constants.parameters if p.place in FREE]
        self._log = self._predict({})

    @classmethod
    def of_run(cls, a: Answered, values: Mapping[str, float]) -> "MeasuredStep":
        """The step of a public run, or the ratio behind its speedup, whose error is the opposite.

        values: of the shipped constants, which answered it.
        """
        run = a.run
        version = run.engine_version or engines().engines[run.engine].versions[-1]
        constants = FittedConstants.of(
            run.hardware, run.engine, version, (*DECODING, *SPECULATING, *DEFAULT_FLAGS)
        )
        is_step = a.figure == "step"
        query = step_query(run) if is_step else speculating_query(run)
        return cls(
            engine=run.engine,
            source=run.source_id,
            server=run.server,
            constants=constants,
            scenario=resolve(query),
            batch=float(run.batch),
            context=float(run.context_tokens),
            values=values,
            off=a.off if is_step else -a.off,
            gamma=query.gamma or 0,
        )

    @classmethod
    def of_table(cls, row: DecodeRow, values: Mapping[str, float]) -> "MeasuredStep":
        """The step of a row in the table to which engines are fitted, without the costs of default flags."""
        constants = FittedConstants.of(row.hardware, row.engine, version_of(row), (*DECODING, *SPECULATING))
        step = cls(
            engine=row.engine,
            source=row.source_id,
            server=served_as(row),
            constants=constants,
            scenario=decoding(row, constants.kernels),
            batch=batch_of(row),
            context=float(row.context_tokens),
            values=values,
        )
        return replace(step, off=step._log - math.log(row.step_s))

    def with_values(self, values: Mapping[str, float]) -> "MeasuredStep":
        """The same by other constants."""
        other = replace(self, values=values)
        return replace(other, off=self.off + other._log - self._log)

    def moved(self, by: Mapping[str, float]) -> float:
        """Change of the logarithm of the time or ratio if the logarithms of its constants change by `by`."""
        return self._predict(by) - self._log

    def _predict(self, by: Mapping[str, float]) -> float:
        values = {**self.values}
        for place in self.places:
            before = values.get(place, FREE[place].expected)
            values[place] = before * math.exp(by.get(place, 0.0))
        s = with_calibration(self.scenario, self.constants.calibration(values))
        if self.gamma:
            gains = speedups(s, self.batch, self.context, np.array([self.gamma]))
            return -math.log(gains.item())
        seconds = s.target_pass_s(self.batch, self.context)
        return math.log(float(np.ravel(seconds)[0]))


def shipped_values() -> Values:
    """The constants of steps and of iterations that were fitted to all rows, by place."""
    record = recorded()
    return {**record["steps"], **record["iteration"]}


def on_borrowed_kernels(values: Mapping[str, float]) -> list[MeasuredStep]:
    """Rows of the table to which engines are fitted, for devices that borrow kernels."""
    rows = [r for r in engine_decode() if r.hardware not in devices_of(r.engine)]
    return [MeasuredStep.of_table(row, values) for row in rows]


def left_out(rows: Sequence[Answered]) -> Array:
    """Logarithm of predicted over measured, of each step or speedup with constants fitted without its source.

    Rows that are left out by judgement are predicted, but nothing is fitted to them.
    """
    values = shipped_values()
    steps = [MeasuredStep.of_run(a, values) for a in rows]
    fitted_to = [step for a, step in zip(rows, steps, strict=True) if a.run.counts]
    fitted_to += on_borrowed_kernels(values)
    errors = np.empty(len(rows))
    indices_of = grouped(range(len(rows)), lambda i: rows[i].run.source_id)
    for source, indices in indices_of.items():
        others = [step for step in fitted_to if not alike(step.source, source)]
        errors[indices] = refitted_errors([steps[i] for i in indices], others)
    return errors


def refitted_errors(judged: Sequence[MeasuredStep], fitted_to: Sequence[MeasuredStep]) -> list[float]:
    """Logarithm of predicted over measured, of each step or speedup, with the free constants in them fitted
    to other steps.
    """
    places = sorted({place for step in judged for place in step.places})
    related = [step for step in fitted_to if not set(places).isdisjoint(step.places)]
    changes = _refit(related, places)
    errors = []
    for step in judged:
        off = step.off + step.moved(changes)
        errors.append(-off if step.gamma else off)
    return errors


def alike(source: str, other_source: str) -> bool:
    """Whether two names are of one source. A thread of a repository is held out together with its
    dashboard.
    """
    return source == other_source or ("InferenceX" in source and "InferenceX" in other_source)


def _refit(steps: Sequence[MeasuredStep], places: Sequence[str]) -> dict[str, float]:
    """Changes of the logarithms of the constants at `places`, fitted to `steps` only."""
    if not places:
        return {}
    expected = np.array([neutral(FREE[place]) for place in places])
    spread = np.array([_spread(FREE[place]) for place in places])
    shipped_off = np.array([s.off for s in steps])
    covariance = VARIANCES.covariance(steps)
    changes = np.zeros(len(places))
    for done in range(GAUSS_NEWTON_STEPS):
        by_place = dict(zip(places, changes.tolist(), strict=True))
        moved = np.array([s.moved(by_place) for s in steps])
        if done % SAME_SLOPES == 0:
            slopes = _slopes(steps, by_place, moved)
        off = shipped_off + moved
        squares = off**2 / VARIANCES.total * (done >= EVEN_STEPS)
        root = np.sqrt((FREEDOM + 1.0) / (FREEDOM + squares))
        weights = np.outer(root, root) * np.linalg.inv(covariance)
        precision = slopes.T @ weights @ slopes + np.diag(spread**-2)
        to_expected = (expected - changes) / spread**2
        pull = -slopes.T @ weights @ off + to_expected
        step = np.linalg.solve(precision, pull)
        changes = changes + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    return dict(zip(places, changes.tolist(), strict=True))


def _slopes(steps: Sequence[MeasuredStep], by: Mapping[str, float], moved: Array) -> Array:
    """``[steps, places]``, derivatives of the steps' logarithms around the changes `by`, by differences to
    `moved`.
    """
    slopes = np.zeros((len(steps), len(by)))
    for i, s in enumerate(steps):
        for j, place in enumerate(by):
            if place in s.places:
                further = s.moved({**by, place: by[place] + LOG_STEP})
                slopes[i, j] = (further - moved[i]) / LOG_STEP
    return slopes
