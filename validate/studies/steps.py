"""Published steps of engines with counted operations, so that many values of the constants can be tried."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import resolve
from perfmodel.costs.operation import Op
from perfmodel.specs import (
    DRIFT,
    ONLY,
    Calibration,
    Constant,
    architecture_of,
    borrowed_scopes,
    calibration_of,
    load_gpu,
    read_kernels,
    release,
)
from perfmodel.speculation import Scenario, with_calibration
from perfmodel.speculation.changed_constants import OF_SHARDS
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.parameters import PUBLIC, PlacedConstant
from perfmodel.validate.studies.published_engines import DecodeRow, EngineSpeculationRow, query_of
from perfmodel.validate.studies.robust import Array, ErrorSpread, FittedRows, Parts, Values, parts_of

GRAPH_TOKENS = (8, 512)
"""CUDA graphs of 1, 2, 4 and multiples of 8 tokens up to 512: vLLM's default (config/compilation.py)."""
DATED = {
    "trtllm": {"2025-10-29": "1.1.0rc2", "2026-01-29": "1.2.0rc6", "2026-05-18": "1.3.0rc14"},
    "sglang": {"2026-01-13": "0.5.7", "2026-02-06": "0.5.9", "2026-05-15": "0.5.12"},
}
"""Engine -> days from which runs are attributed to a version. A run without a version has that of its day."""


def dated(engine: str, day: str) -> str:
    """The version of an engine's runs on a day (YYYY-MM-DD); empty if unknown."""
    since = [start for start in DATED.get(engine, {}) if start <= day]
    return DATED[engine][max(since)] if since else ""


def version_of(row: DecodeRow | EngineSpeculationRow) -> str:
    """The version of a row: the stated one, or that of its month. TensorRT-LLM's gpt-oss branch counts as
    1.2.0rc0.
    """
    if row.engine_version == "gpt-oss-dev":
        return "1.2.0rc0"
    if row.engine_version == "not stated":
        return dated(row.engine, row.date)
    return row.engine_version


def group_of(row: DecodeRow) -> tuple[str, str, str, int]:
    """The rows that are held out together: engine, model, device and degree."""
    return row.engine, row.model, row.hardware, row.tensor_parallel


def served_as(row: DecodeRow) -> tuple[object, ...]:
    """The common part of a server's rows."""
    return *group_of(row), row.expert_parallel, version_of(row)


def batch_of(row: DecodeRow | EngineSpeculationRow) -> float:
    """Mean number of running sequences if measured, else the requested batch."""
    return max(row.running or row.batch, 1.0)


@dataclass(frozen=True)
class FittedConstants:
    """Constants of an engine on a device as functions of the parameters: the kernels of the device, and for
    each constant the place of its parameter.

    drifts: factors of the device and of the version, applied last.
    """

    kernels: Calibration
    chosen: Mapping[str, PlacedConstant]
    drifts: tuple[PlacedConstant, ...]

    @classmethod
    def of(
        cls,
        hardware: str,
        engine: str,
        version: str,
        parameters: Sequence[PlacedConstant],
        kernels_of: str | None = None,
    ) -> "FittedConstants":
        """Makes the constants.

        kernels_of: another device whose kernels replace the device's own; no public run of the device counts
        then.
        """
        parameters = parameters if kernels_of else (*parameters, *PUBLIC)
        kernels = load_kernels(calibration_of(load_gpu(kernels_of or hardware), engine).name)
        kernels = kernels.replace(version=version)
        gpu = load_gpu(hardware)
        of_kernels = architecture_of(kernels.gpu or hardware)
        general_scopes = ("all", of_kernels, engine, f"{engine}.{of_kernels}")
        device_scopes = []
        for name in (*borrowed_scopes(gpu, kernels.gpu or gpu.name), gpu.name):
            device_scopes += [name, f"{engine}.{name}"]
        by_scope = grouped(parameters, lambda p: p.scope)
        factors: dict[str, PlacedConstant] = {}
        chosen: dict[str, PlacedConstant] = {}
        for scope in (*general_scopes, *device_scopes):  # a later one overrides an earlier one
            for p in by_scope.get(scope, ()):
                if scope in device_scopes and p.times:
                    factors[p.place] = p
                else:
                    chosen[p.name] = p
        architectures = (of_kernels, architecture_of(gpu))
        drifts = _drifts(engine, version, architectures, parameters)
        return cls(kernels, chosen, (*factors.values(), *drifts))

    @property
    def parameters(self) -> tuple[PlacedConstant, ...]:
        """All parameters of these constants."""
        return (*self.chosen.values(), *self.drifts)

    def known(self, values: Values) -> Values:
        """The values of these parameters; the expected ones if none is given."""
        return {p.place: values.get(p.place, p.expected) for p in self.parameters}

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values by place, and the expected ones for other parameters."""
        values = self.known(values)
        update: dict[str, Constant] = {}
        for name, parameter in self.chosen.items():
            scale = getattr(self.kernels, name).value if parameter.times else 1.0
            update[name] = Constant(value=scale * values[parameter.place], source="being fitted")
        for p in self.drifts:
            base = update.get(p.name, getattr(self.kernels, p.name)).value
            update[p.name] = Constant(value=base * values[p.place], source="being fitted")
        return self.kernels.replace(**update)


def _drifts(
    engine: str, version: str, architectures: Collection[str], parameters: Sequence[PlacedConstant]
) -> list[PlacedConstant]:
    """The factors of a version, ``ENGINE@VERSION`` or ``ENGINE@VERSION/ARCHITECTURE``: of each constant the
    newest one that is no newer than the version.
    """
    dated_drifts = []
    for parameter in parameters:
        if parameter.scope.startswith(engine + DRIFT):
            since, _, architecture = parameter.scope.partition(DRIFT)[2].partition(ONLY)
            dated_drifts.append((release(since), architecture, parameter))
    newest = {}
    for first_release, architecture, parameter in sorted(dated_drifts, key=lambda drift: drift[0]):
        if first_release <= release(version) and architecture in ("", *architectures):
            newest[parameter.name, architecture] = parameter
    return list(newest.values())


def load_kernels(name: str) -> Calibration:
    """A bundled calibration of kind ``kernels`` without its engine's constants, with the CUDA graphs of
    `GRAPH_TOKENS`.
    """
    return read_kernels(name).replace(graph_tokens=GRAPH_TOKENS)


@dataclass
class StepGroup:
    """Rows that differ only in batch and context. index: their places among all rows."""

    constants: FittedConstants
    scenario: Scenario
    index: NDArray[np.intp]
    batch: Array
    context: Array
    _counted: tuple[tuple[object, ...], list[Op]] | None = field(default=None, kw_only=True)
    _known: dict[tuple[float, ...], Array] = field(default_factory=dict, kw_only=True)

    def predicted(self, values: Values) -> Array:
        """Predicted measurements of the rows, by the values of the parameters. Parameters without effect on
        them cost no time.
        """
        key = tuple(self.constants.known(values).values())
        if key not in self._known:
            self._known[key] = self.predict(self.constants.calibration(values))
        return self._known[key]

    def predict(self, calibration: Calibration) -> Array:
        """Seconds of a step. Operations are counted again only for a change in them."""
        counted_for: tuple[object, ...] = ()
        if self.scenario.target.moe:
            counted_for = tuple(getattr(calibration, name) for name in OF_SHARDS)
        if self._counted is None or self._counted[0] != counted_for:
            self.scenario = with_calibration(self.scenario, calibration)
            self._counted = counted_for, self.scenario.target_ops(self.batch, self.context)
        _, ops = self._counted
        machine = replace(self.scenario.machine, calibration=calibration)
        return np.asarray(machine.predicted_s(ops, self.batch))


class DecodeRows(FittedRows[DecodeRow]):
    """Baseline steps, with predictions as functions of the parameters."""

    def __init__(
        self,
        rows: Sequence[DecodeRow],
        parameters: Sequence[PlacedConstant],
        kernels_of: Mapping[str, str] | None = None,
    ) -> None:
        """kernels_of: device -> another one whose kernels replace its own."""
        self.rows = tuple(rows)
        self.parameters = tuple(parameters)
        self.logs = np.log([row.step_s for row in rows])
        keys = [(*served_as(row), row.weights, row.kv_dtype) for row in rows]
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
        """The parts of the errors: of a model on an engine and architecture as one source measured it, of its
        groups by version, and of rows.
        """
        groups = [served_as(r) for r in self.rows]
        kinds = [(r.source_id, r.engine, r.model, architecture_of(r.hardware)) for r in self.rows]
        return parts_of(groups, kinds, train, [ErrorSpread()] * len(groups))


def decoding(row: DecodeRow, calibration: Calibration) -> Scenario:
    """The question of a row. Its draft does not matter."""
    return with_calibration(resolve(query_of(row, row.model, row.context_tokens, row.batch, 0)), calibration)
