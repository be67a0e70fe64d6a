"""Reads the published runs on racks and in pools: the rows of ``results/published/racks.csv``."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfmodel.answers.question import Query, resolve
from perfmodel.specs.published import read_published
from perfmodel.speculation import Scenario


@dataclass(frozen=True, slots=True)
class RackRow:
    """One published run. A field is None or "" if the source does not state it.

    - batch: the number of sequences that a decode instance runs at once.
    - tp: the number of devices of a decode instance.
    - step_ms: the time of a step, or of an iteration if gamma > 0.
    - baseline: the id of the row without a draft under the same load.
    - prefill: the prefill pool, as ``<instances>x<devices>``.
    - prompts_by: the id of the row that measures only prefill in the same deployment.
    - pass_tokens: the number of prompt tokens that a device processes in one pass.
    - left_out: the reason why the row does not count in the errors; empty if it counts.
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
        """The arguments of `whatif` for this run. An argument is missing if the source does not state it and
        `whatif` has a default.
        """
        arguments = self._served() | self._layout() | self._speculation()
        arguments |= {"batch": self.batch, "context": self.context}
        return {name: value for name, value in arguments.items() if value is not None}

    def _served(self) -> dict[str, Any]:
        """The model, its weights, the device and the engine. None stands for a default."""
        return {
            "model": self.model,
            "hardware": self.hardware,
            "engine": self.engine,
            "weights": self.weights or None,
        }

    def _layout(self) -> dict[str, Any]:
        """The nodes and the parallel layout of a decode instance. None stands for a default."""
        return {
            "nodes": self.nodes or None,
            "tp": self.tp,
            "ep": self.ep or 1,
            "dp": self.dp or 1,
            "redundant_experts": self.redundant_experts or 0,
            "moe_imbalance": self.moe_imbalance,
            "overlap": self.overlap or "auto",
        }

    def _speculation(self) -> dict[str, Any]:
        """The draft length, and for a run with a draft also its kind and acceptance. The draft is MTP,
        also if the source simulates its acceptance (``simulated``). None stands for a default.
        """
        if not self.gamma:
            return {"gamma": self.gamma}
        return {
            "gamma": self.gamma,
            "draft": "mtp",
            "tokens_per_iteration": self.tokens_per_iteration,
        }

    @property
    def has_pools(self) -> bool:
        """Whether the row states everything that a prediction of its two pools needs, and their
        throughput.
        """
        lengths = (self.input_len, self.output_len)
        stated = (self.prefill, self.clients, *lengths, self.tokens_per_s_gpu, self.tp)
        return self.kind in ("step", "served") and all(stated)

    @property
    def measured_step_ms(self) -> float:
        """`step_ms`; NaN if the row does not state it."""
        return self.step_ms or math.nan

    @property
    def measured_tokens_per_s_gpu(self) -> float:
        """`tokens_per_s_gpu`; NaN if the row does not state it."""
        return self.tokens_per_s_gpu or math.nan


@cache
def rows() -> tuple[RackRow, ...]:
    """All rows of the file."""
    return tuple(read_published("racks", RackRow))


def row_of(row_id: str) -> RackRow:
    """The row with this id."""
    return next(row for row in rows() if row.row_id == row_id)


@cache
def scenario_of(row_id: str) -> Scenario:
    """The scenario of a row with the bundled constants."""
    return resolve(Query(**row_of(row_id).question()))
