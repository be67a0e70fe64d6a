"""Models the published steps of engines as functions of the fitted constants. The operations are counted
once, so a fit can quickly try many values of the constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import resolve
from perfmodel.costs.operation import Op
from perfmodel.operations import Array
from perfmodel.specs import Calibration, architecture_of
from perfmodel.speculation import Scenario, with_calibration
from perfmodel.speculation.changed_constants import OF_SHARDS
from perfmodel.validate.solving import Values, grouped
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.error_parts import ErrorSpread, Parts, parts_of
from perfmodel.validate.studies.fitted_constants import FittedConstants
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.published_engines import DecodeRow, EngineSpeculationRow, query_of
from perfmodel.validate.studies.robust import FittedRows


class HeldOutGroup(NamedTuple):
    """The common fields of rows that are left out of a fit together."""

    engine: str
    model: str
    hardware: str
    tensor_parallel: int


class OneServer(NamedTuple):
    """The common fields of the rows of one server."""

    group: HeldOutGroup
    expert_parallel: int
    version: str


def group_of(row: DecodeRow) -> HeldOutGroup:
    """The group of a row."""
    return HeldOutGroup(row.engine, row.model, row.hardware, row.tensor_parallel)


def served_as(row: DecodeRow) -> OneServer:
    """The server of a row."""
    return OneServer(group_of(row), row.expert_parallel, version_of(row))


def batch_of(row: DecodeRow | EngineSpeculationRow) -> float:
    """The mean number of running sequences, or the requested batch if this number was not measured."""
    return max(row.running or row.batch, 1.0)


class CountedOps(NamedTuple):
    """The operations of steps.

    - of_shards: the values of the constants with which the operations were counted (`OF_SHARDS`).
    """

    of_shards: tuple[object, ...]
    ops: list[Op]


@dataclass
class StepGroup:
    """Rows that differ only in batch and context.

    - index: the positions of these rows among all rows.
    """

    constants: FittedConstants
    scenario: Scenario
    index: NDArray[np.intp]
    batch: Array
    context: Array
    _counted: CountedOps | None = field(default=None, kw_only=True)
    _known: dict[tuple[float, ...], Array] = field(default_factory=dict, kw_only=True)

    def predicted(self, values: Values) -> Array:
        """The predicted figure of each row. The results are kept, so parameters that do not affect the group
        cost no time.

        - values: place of a parameter -> value.
        """
        key = tuple(self.constants.known(values).values())
        if key not in self._known:
            self._known[key] = self.predict(self.constants.calibration(values))
        return self._known[key]

    def predict(self, calibration: Calibration) -> Array:
        """The predicted seconds of each step. The operations are counted again only if a constant changes
        them.
        """
        of_shards: tuple[object, ...] = ()
        if self.scenario.target.moe:
            of_shards = tuple(getattr(calibration, name) for name in OF_SHARDS)
        if self._counted is None or self._counted.of_shards != of_shards:
            self.scenario = with_calibration(self.scenario, calibration)
            ops = self.scenario.target_ops(self.batch, self.context)
            self._counted = CountedOps(of_shards, ops)
        machine = replace(self.scenario.machine, calibration=calibration)
        return np.asarray(machine.predicted_s(self._counted.ops, self.batch))


class DecodeRows(FittedRows[DecodeRow]):
    """Baseline steps, with predictions as functions of the parameters."""

    def __init__(
        self,
        rows: Sequence[DecodeRow],
        parameters: Sequence[PlacedConstant],
        kernels_of: Mapping[str, str] | None = None,
    ) -> None:
        """kernels_of: device -> another device whose kernel constants replace its own."""
        self.rows = tuple(rows)
        self.parameters = tuple(parameters)
        self.logs = np.log([row.step_s for row in rows])
        keys = [(served_as(row), row.weights, row.kv_dtype) for row in rows]
        alike = grouped(range(len(rows)), lambda i: keys[i])
        self.groups = [self._group(index, kernels_of or {}) for index in alike.values()]

    def _group(self, index: list[int], kernels_of: Mapping[str, str]) -> StepGroup:
        rows = [self.rows[i] for i in index]
        first = rows[0]
        constants = FittedConstants.of(
            first.hardware,
            first.engine,
            version_of(first),
            self.parameters,
            kernels_of.get(first.hardware),
        )
        context_std = np.array([r.context_std_tokens for r in rows])
        scenario = replace(decoding(first, constants.kernels), context_std=context_std)
        batch = np.array([batch_of(r) for r in rows])
        context = np.array([r.context_tokens for r in rows], float)
        return StepGroup(constants, scenario, np.array(index), batch, context)

    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors. The first part is common to the rows of a source with the same model,
        engine and architecture. The second is common to a server. The third belongs to the row alone.
        """
        groups = [served_as(r) for r in self.rows]
        kinds = [(r.source_id, r.engine, r.model, architecture_of(r.hardware)) for r in self.rows]
        return parts_of(groups, kinds, train, [ErrorSpread()] * len(groups))


def decoding(row: DecodeRow, calibration: Calibration) -> Scenario:
    """The scenario of the baseline step of a row, with this calibration. The draft of the row is not used."""
    return with_calibration(resolve(query_of(row, row.model, row.context_tokens, row.batch, 0)), calibration)
