"""Models measured steps, and ratios of an iteration to a step, as functions of the constants that predict
them.

The constants in `FREE` come from public runs. If a source is left out, `refit` fits only these constants
again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfmodel.answers.question import resolve
from perfmodel.specs import devices_of
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import Scenario, speedups, with_calibration
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.answered_runs import Answered, speculating_query, step_query
from perfmodel.validate.studies.default_flags import DEFAULT_FLAGS
from perfmodel.validate.studies.engine_replay import recorded
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.fitted_constants import FittedConstants
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.public_parameters import PUBLIC
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.steps import batch_of, decoding, served_as

FREE = {p.place: p for p in (*PUBLIC, *DEFAULT_FLAGS)}
"""Place -> constant, for the constants that come from public runs."""


@dataclass
class MeasuredStep:
    """A figure as a function of the constants in `FREE`. The figure is the time of a step, or the ratio of an
    iteration to a step.

    - engine: the engine whose constants predict the figure.
    - server: a key that is equal for figures of the same server.
    - values: place of a constant -> value.
    - off: the log error of the figure with these values.
    - gamma: the draft length of a ratio; 0 for the time of a step.
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
    _logs: dict[tuple[float, ...], float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.places = [p.place for p in self.constants.parameters if p.place in FREE]
        self._predicted_log = self._predict({})

    @property
    def is_ratio(self) -> bool:
        """Whether the figure is the ratio of an iteration to a step."""
        return self.gamma > 0

    @classmethod
    def of_run(cls, a: Answered, values: Mapping[str, float]) -> "MeasuredStep":
        """The step of a public run, or the ratio that follows from its speedup.

        - values: the bundled constants, with which the run was predicted.
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
            off=a.off if is_step else of_reciprocal(a.off),
            gamma=query.gamma or 0,
        )

    @classmethod
    def of_table(cls, row: DecodeRow, values: Mapping[str, float]) -> "MeasuredStep":
        """The step of a row of ``engine_decode.csv``. The prediction does not include the costs of default
        flags.
        """
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
        return replace(step, off=step._predicted_log - math.log(row.step_s))

    def with_values(self, values: Mapping[str, float]) -> "MeasuredStep":
        """The same figure, predicted with other constants."""
        if values == self.values:
            return self
        other = replace(self, values=values)
        return replace(other, off=self.off + other._predicted_log - self._predicted_log)

    def moved(self, by: Mapping[str, float]) -> float:
        """The change of the logarithm of the predicted figure if the logarithms of constants change.

        - by: place of a constant -> change of its logarithm.
        """
        return self._predict(by) - self._predicted_log

    def _predict(self, by: Mapping[str, float]) -> float:
        """The logarithm of the predicted figure if the logarithms of its constants change by `by`. The
        results are kept, because the fits of different folds ask for the same changes.
        """
        changes = tuple(by.get(place, 0.0) for place in self.places)
        if changes not in self._logs:
            self._logs[changes] = self._log_with(changes)
        return self._logs[changes]

    def _log_with(self, changes: Sequence[float]) -> float:
        """The logarithm of the predicted figure.

        - changes: the changes of the logarithms of constants, in the order of `places`.
        """
        values = {**self.values}
        for place, change in zip(self.places, changes, strict=True):
            before = values.get(place, FREE[place].expected)
            values[place] = before * math.exp(change)
        s = with_calibration(self.scenario, self.constants.calibration(values))
        if self.is_ratio:
            gains = speedups(s, self.batch, self.context, np.array([self.gamma]))
            return of_reciprocal(math.log(gains.item()))
        seconds = s.target_pass_s(self.batch, self.context)
        return math.log(float(np.ravel(seconds)[0]))


def shipped_values() -> Values:
    """Place -> value of the bundled constants of steps and iterations, which were fitted to all rows."""
    record = recorded()
    return {**record["steps"], **record["iteration"]}


def on_borrowed_kernels(values: Mapping[str, float]) -> list[MeasuredStep]:
    """The steps of ``engine_decode.csv`` on devices that use the kernel constants of another device."""
    rows = [r for r in engine_decode() if r.hardware not in devices_of(r.engine)]
    return [MeasuredStep.of_table(row, values) for row in rows]
