"""Steps of public runs by constants that have not seen their source.

Constants that are stated from public runs (`parameters.PUBLIC`, `DEFAULT_FLAGS`) are fitted again without
each source: a regularised least-squares problem on the logarithms of step times in a few Gauss-Newton steps,
with errors that a source, and a server of it, have in common (`mixed`). A constant without rows of another
source goes back to what it is without any: a factor of 1, a time of a tenth. All other constants stay.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from perfmodel.answers.question.query import Query, resolve
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation.uncertainty import with_calibration
from perfmodel.validate.studies.engines import recorded
from perfmodel.validate.studies.parameters import DECODING, DEFAULT_FLAGS, PUBLIC, SPECULATING, Parameter
from perfmodel.validate.studies.public_runs import Answered
from perfmodel.validate.studies.robust import Array
from perfmodel.validate.studies.steps import FittedConstants

SPREAD = 0.7
"""Of the logarithm of a constant around what it is without rows."""
ROUNDS, LONGEST = 4, 1.5
"""Gauss-Newton steps, and how far one of them may move a logarithm."""
STEP = 0.02
ABSENT = 0.1
"""Share of a time that is left where no row says how long it takes."""
FREE = {p.place: p for p in (*PUBLIC, *DEFAULT_FLAGS)}


def neutral(parameter: Parameter) -> float:
    """Logarithm of what a constant is without rows, over what it is."""
    factor = parameter.times or parameter.name.endswith("factor")
    return -math.log(parameter.expected) if factor else math.log(ABSENT)


class Step:
    """The step of one run as a function of the free constants that it depends on."""

    def __init__(self, a: Answered, values: Mapping[str, float]) -> None:
        run = a.run
        version = run.engine_version or engines().engines[run.engine].versions[-1]
        known = (*DECODING, *SPECULATING, *DEFAULT_FLAGS)
        self._constants = FittedConstants.of(run.hardware, run.engine, version, known)
        asked = run.query_arguments() | {"batch": run.batch, "context": round(run.context_tokens), "gamma": 0}
        self._scenario, self._values = resolve(Query(**asked)), values
        self._at = float(run.batch), float(run.context_tokens)
        self.places = [p.place for p in self._constants.parameters if p.place in FREE]
        self._log = self._predict({})

    def moved(self, by: Mapping[str, float]) -> float:
        """What the logarithm gains where logarithms of constants move."""
        return self._predict(by) - self._log

    def _predict(self, by: Mapping[str, float]) -> float:
        values = {**self._values}
        for place in self.places:
            values[place] = values.get(place, FREE[place].expected) * math.exp(by.get(place, 0.0))
        s = with_calibration(self._scenario, self._constants.calibration(values))
        return math.log(float(np.ravel(s.target_pass_s(*self._at))[0]))


def left_out(rows: Sequence[Answered], covariance: Callable[[Sequence[int]], Array]) -> Array:
    """Logarithm of predicted over measured, of each row by constants without its source.

    covariance: of the errors of some rows, by their places.
    """
    record = recorded()
    steps = [Step(a, {**record["steps"], **record["iteration"]}) for a in rows]
    off = np.array([a.off for a in rows])
    found = off.copy()
    for source in dict.fromkeys(a.run.source_id for a in rows):
        mine = [i for i, a in enumerate(rows) if a.run.source_id == source]
        places = sorted({place for i in mine for place in steps[i].places})
        train = [i for i in range(len(rows)) if i not in mine and set(places) & set(steps[i].places)]
        by = _refit([steps[i] for i in train], off[train], covariance(train), places)
        found[mine] = [off[i] + steps[i].moved(by) for i in mine]
    return found


def _refit(steps: Sequence[Step], off: Array, covariance: Array, places: Sequence[str]) -> dict[str, float]:
    """By how much the logarithms of these constants move where only rows with these errors are known."""
    expected, at = np.array([neutral(FREE[place]) for place in places]), np.zeros(len(places))
    weights = np.linalg.inv(covariance) if len(steps) else np.zeros((0, 0))
    for _ in range(ROUNDS if places else 0):
        by = dict(zip(places, at.tolist(), strict=True))
        moved = np.array([s.moved(by) for s in steps])
        slopes = np.zeros((len(steps), len(places)))
        for i, s in enumerate(steps):
            for j, place in enumerate(places):
                if place in s.places:
                    slopes[i, j] = (s.moved({**by, place: by[place] + STEP}) - moved[i]) / STEP
        precision = slopes.T @ weights @ slopes + np.eye(len(places)) / SPREAD**2
        pull = -slopes.T @ weights @ (off + moved) + (expected - at) / SPREAD**2
        at = at + np.clip(np.linalg.solve(precision, pull), -LONGEST, LONGEST)
    return dict(zip(places, at.tolist(), strict=True))
