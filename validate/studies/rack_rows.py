"""Published runs on racks and in pools (``results/published/racks.csv``), and their prediction errors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from perfmodel.answers.question import Query, resolve
from perfmodel.specs import Z, source_errors
from perfmodel.specs.published import read_published
from perfmodel.speculation import Scenario
from perfmodel.speculation.evidence import step_class

USUAL = {"waiting": 1.25, "overlap": 0.5}
"""Values without any row, towards which a fit is drawn."""


@dataclass(frozen=True, slots=True)
class RackRow:
    """One row of the file.

    - batch: the sequences of a whole decode instance.
    - tp: the devices of a decode instance.
    - step_ms: the time of a step, or of an iteration if gamma > 0.
    - baseline: the row without a draft under the same load.
    - prefill: the prefill instances, as instances x devices.
    - prompts_by: the row that measures prompts alone in the same deployment.
    - pass_tokens: the tokens of a device in a pass over prompts, if the source states them.
    """

    row_id: str
    source_id: str
    source: str
    locator: str
    date: str
    kind: str
    engine: str
    model: str
    weights: str
    hardware: str
    nodes: str
    tp: int | None
    ep: int | None
    dp: int | None
    redundant_experts: int | None
    moe_imbalance: float | None
    overlap: str
    batch: int | None
    context: int | None
    draft: str
    gamma: int | None
    tokens_per_iteration: float | None
    step_ms: float | None
    measured_as: str
    baseline: str
    speedup: float | None
    prefill: str
    prefill_ep: int | None
    prefill_dp: int | None
    decode_instances: int | None
    clients: int | None
    input_len: int | None
    output_len: int | None
    tpot_ms: float | None
    ttft_ms: float | None
    ttft_stat: str
    tokens_per_s_gpu: float | None
    throughput_of: str
    prompts_by: str
    pass_tokens: int | None
    left_out: str
    notes: str

    @property
    def counts(self) -> bool:
        """Whether the row counts in the errors."""
        return not self.left_out

    def question(self) -> dict[str, Any]:
        """The arguments of the `whatif` question about this row."""
        arguments = {
            "model": self.model,
            "hardware": self.hardware,
            "engine": self.engine,
            "weights": self.weights or None,
            "nodes": self.nodes or None,
            "tp": self.tp,
            "ep": self.ep or 1,
            "dp": self.dp or 1,
            "redundant_experts": self.redundant_experts or 0,
            "moe_imbalance": self.moe_imbalance,
            "overlap": self.overlap or "auto",
            "batch": self.batch,
            "context": self.context,
            "gamma": self.gamma,
        }
        if self.gamma:
            arguments |= {"draft": "mtp", "tokens_per_iteration": self.tokens_per_iteration}
        return {name: value for name, value in arguments.items() if value is not None}

    @property
    def has_pools(self) -> bool:
        """Whether the row states both pools, its clients and its lengths."""
        lengths = (self.input_len, self.output_len)
        stated = (self.prefill, self.clients, *lengths, self.tokens_per_s_gpu, self.tp)
        return self.kind in ("step", "served") and all(stated)

    @property
    def measured_step_ms(self) -> float:
        """The measured milliseconds of an iteration; NaN if the row has none."""
        return self.step_ms or math.nan

    @property
    def measured_tokens_per_s_gpu(self) -> float:
        """The measured tokens per second of a device; NaN if the row has none."""
        return self.tokens_per_s_gpu or math.nan


@cache
def rows() -> tuple[RackRow, ...]:
    """All rows of the file."""
    return tuple(read_published("racks", RackRow))


def row_of(row_id: str) -> RackRow:
    """The row with this name."""
    return next(row for row in rows() if row.row_id == row_id)


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """The fitted constants of one fold.

    - overlap: engine -> the fitted overlap.
    """

    waiting: float
    overlap: Mapping[str, float]

    def of(self, scenario: Scenario, engine: str) -> Scenario:
        """The scenario with these constants."""
        fabric = scenario.machine.fabric
        if fabric is None:
            return scenario
        overlap = self.overlap.get(engine, USUAL["overlap"]) if fabric.overlap else 0.0
        changed = replace(fabric, waiting=self.waiting, overlap=overlap)
        return replace(scenario, machine=replace(scenario.machine, fabric=changed))


@cache
def scenario_of(row_id: str) -> Scenario:
    """The scenario of a row with the bundled constants."""
    return resolve(Query(**row_of(row_id).question()))


@dataclass(frozen=True, slots=True)
class RackError:
    """One measured row and its prediction with constants that were fitted without the row's source.

    - links: the standard deviation that the link tables add to the logarithm of a step.
    - box_width: the half-width of the interval for runs within one node, in logarithms (`source_errors`).
    - beyond_box: whether the instance has more than one node. If it has, the errors of other racks also
      count.
    """

    row_id: str
    source_id: str
    figure: str
    measured: float
    predicted: float
    links: float = 0.0
    box_width: float = 0.0
    beyond_box: bool = True

    @property
    def log_error(self) -> float:
        """The logarithm of the predicted over the measured value."""
        return math.log(self.predicted / self.measured)

    @property
    def unexplained(self) -> float:
        """The half-width that the interval needs to contain the row, in addition to the error of the link
        tables.
        """
        return math.sqrt(max(self.log_error**2 - (Z * self.links) ** 2, 0.0))


def width_of_steps(scenario: Scenario) -> float:
    """The half-width of the interval of a step within one node, in logarithms; 0 for a calibration that
    states its own error.
    """
    kind = step_class(scenario)
    return source_errors().steps[kind].log_within_on(scenario.machine.gpu) if kind else 0.0
