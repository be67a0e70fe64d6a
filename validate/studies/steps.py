"""Engine rows with their operations counted, so that many values of the engines' constants can be tried on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.query import Query, resolve
from perfmodel.operations import Op
from perfmodel.specs.calibration import Calibration, read_kernels
from perfmodel.specs.constants import Constant
from perfmodel.specs.engines import architecture_of
from perfmodel.specs.published_engines import DecodeRow
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import OF_SHARDS, with_calibration
from perfmodel.validate.studies.parameters import Parameter

Array = NDArray[np.float64]


GRAPH_TOKENS = (8, 512)
"""CUDA graphs of 1, 2, 4 and multiples of 8 tokens up to 512: vLLM's default (config/compilation.py)."""
REMEMBERED = 64


def group_of(row: DecodeRow) -> tuple[str, str, str, int]:
    """What is left out together: engine, model, device and degree."""
    return row.engine, row.model, row.hardware, row.tensor_parallel


@dataclass(frozen=True)
class Setting:
    """Constants of an engine on a device as functions of the parameters: its kernels, and which place sets what."""

    kernels: Calibration
    chosen: Mapping[str, Parameter]

    @classmethod
    def of(
        cls, hardware: str, engine: str, parameters: Sequence[Parameter], kernels_of: str | None = None
    ) -> "Setting":
        """kernels_of: another device whose kernels stand in for this one's."""
        kernels = load_kernels(f"{kernels_of or hardware}.{engine}")
        scopes = ("all", architecture_of(hardware), engine, f"{engine}.{architecture_of(hardware)}")
        return cls(kernels, {p.name: p for scope in scopes for p in parameters if p.place == f"{scope}.{p.name}"})

    def calibration(self, values: Mapping[str, float]) -> Calibration:
        """With these values by place."""
        update = {}
        for name, parameter in self.chosen.items():
            scale = getattr(self.kernels, name).value if parameter.times else 1.0
            update[name] = Constant(value=scale * values[parameter.place], source="being fitted")
        return self.kernels.model_copy(update=update)


def load_kernels(name: str) -> Calibration:
    """A calibration of kind ``kernels`` as its file has it, without its engine's constants, graphs padded."""
    return read_kernels(name).model_copy(update={"graph_tokens": GRAPH_TOKENS})


@dataclass
class Group:
    """Rows that differ in batch and context alone. index: their places among all rows."""

    setting: Setting
    scenario: Scenario
    index: NDArray[np.intp]
    batch: Array
    context: Array
    _counted: tuple[tuple[object, ...], list[Op]] | None = None
    _known: dict[tuple[float, ...], Array] = field(default_factory=dict)

    def seconds(self, values: Mapping[str, float]) -> Array:
        """Of a step, by the values of the parameters; those that this group does not depend on cost nothing."""
        key = tuple(values[parameter.place] for parameter in self.setting.chosen.values())
        if key not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = self.predict(self.setting.calibration(values))
        return self._known[key]

    def predict(self, calibration: Calibration) -> Array:
        """Seconds of a step; operations are counted anew only where that changes them."""
        counted_for = tuple(getattr(calibration, name) for name in OF_SHARDS) if self.scenario.target.moe else ()
        if self._counted is None or self._counted[0] != counted_for:
            self.scenario = with_calibration(self.scenario, calibration)
            self._counted = counted_for, self.scenario.target_ops(self.batch, self.context)
        machine = replace(self.scenario.machine, calibration=calibration)
        return np.asarray(machine.predicted_s(self._counted[1], self.batch))


class DecodeRows:
    """Rows in a fixed order, with predictions as functions of the parameters."""

    def __init__(
        self,
        rows: Sequence[DecodeRow],
        parameters: Sequence[Parameter],
        kernels_of: Mapping[str, str] | None = None,
        change: Callable[[Calibration], Calibration] = lambda kernels: kernels,
        ragged: bool = True,
    ) -> None:
        """kernels_of: device -> another whose kernels stand in. change: of all kernels. ragged: lengths differ."""
        self.rows, self.parameters = tuple(rows), tuple(parameters)
        self._change, self._ragged = change, ragged
        self.logs = np.log([row.step_s for row in rows])
        self._settings: dict[tuple[str, str], Setting] = {}
        kinds: dict[tuple[object, ...], list[int]] = {}
        for i, r in enumerate(rows):
            kinds.setdefault((*group_of(r), r.weights, r.kv_dtype), []).append(i)
        self.groups = [self._group(index, kernels_of or {}) for index in kinds.values()]

    def _group(self, index: list[int], kernels_of: Mapping[str, str]) -> Group:
        rows = [self.rows[i] for i in index]
        hardware, engine = rows[0].hardware, rows[0].engine
        if (hardware, engine) not in self._settings:
            stand_in = kernels_of.get(hardware)
            made = Setting.of(hardware, engine, self.parameters, stand_in)
            self._settings[hardware, engine] = replace(made, kernels=self._change(made.kernels))
        setting = self._settings[hardware, engine]
        std = np.array([r.context_std_tokens * self._ragged for r in rows])
        scenario = replace(decoding(rows[0], setting.kernels), context_std=std)
        batch, context = (np.array([getattr(r, n) for r in rows], float) for n in ("batch", "context_tokens"))
        return Group(setting, scenario, np.array(index), batch, context)

    def predict(self, values: Mapping[str, float]) -> Array:
        """Logarithm of each row's step in seconds."""
        found = np.empty(len(self.rows))
        for group in self.groups:
            found[group.index] = np.log(group.seconds(values))
        return found

    def off(self, values: Mapping[str, float]) -> Array:
        """Logarithm of predicted over measured."""
        return np.asarray(self.predict(values) - self.logs)


def decoding(row: DecodeRow, calibration: Calibration) -> Scenario:
    """The question that a row answers; its draft is of no account."""
    query = Query(
        model=row.model,
        hardware=row.hardware,
        batch=row.batch,
        context=row.context_tokens,
        gamma=0,
        tp=row.tensor_parallel,
        weights=row.weights,
        kv_dtype=row.kv_dtype,
    )
    return with_calibration(resolve(query), calibration)
