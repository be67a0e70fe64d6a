"""Computes the errors of steps and speedups on racks, with constants that were fitted without the source of
the row.
"""

import math
from dataclasses import dataclass

import numpy as np

from perfmodel.specs import Z, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation import Passes, Scenario
from perfmodel.speculation.evidence import speedup_class, step_class
from perfmodel.validate.studies.rack_fit import RackConstants, predicted_iteration
from perfmodel.validate.studies.rack_rows import RackRow, row_of, scenario_of


@dataclass(frozen=True, slots=True)
class RackError:
    """A measured figure of a row, and its prediction.

    - figure: ``step``, ``speedup``, ``throughput``, ``prefill`` or ``ratio``.
    - links: the standard deviation of the log error of a step that comes from the errors of the link tables.
    - node_width: the half-width of the interval for an instance within one node, in logarithms
      (`source_errors`).
    - beyond_node: whether the instance has more than one node. If so, the errors of other racks also widen
      the interval.
    """

    row_id: str
    source_id: str
    figure: str
    measured: float
    predicted: float
    links: float = 0.0
    node_width: float = 0.0
    beyond_node: bool = True

    @property
    def log_error(self) -> float:
        """The log error: log(predicted / measured)."""
        return math.log(self.predicted / self.measured)

    @property
    def unexplained(self) -> float:
        """The half-width that the interval needs to contain the measured value, in addition to the error of
        the link tables.
        """
        return math.sqrt(max(self.log_error**2 - (Z * self.links) ** 2, 0.0))


def step_error(row: RackRow, constants: RackConstants) -> RackError:
    """The error of a step or an iteration, in milliseconds."""
    scenario = constants.of_engine(row.engine).applied_to(scenario_of(row.row_id))
    return RackError(
        row.row_id,
        row.source_id,
        "step",
        measured=row.measured_step_ms,
        predicted=predicted_iteration(row, constants).seconds * 1e3,
        links=_error_of_links(row, scenario),
        node_width=width_of_steps(scenario),
        beyond_node=scenario.machine.fabric is not None,
    )


def _error_of_links(row: RackRow, scenario: Scenario) -> float:
    """See `RackError.links`."""
    fabric = scenario.machine.fabric
    if fabric is None:
        return 0.0
    tokens = (row.gamma or 0) + 1.0
    step = scenario.target_step(float(row.batch or 1), float(row.context or 0), tokens)
    share_of_exchanges = float(step.comm_s / step.predicted_s)
    return fabric.log_error(scenario.layout.exchanges) * share_of_exchanges


def speedup_error(row: RackRow, constants: RackConstants) -> RackError:
    """The error of the speedup over the row without a draft under the same load. The prediction uses the
    acceptance that the source states, or else the acceptance of other published runs.
    """
    plain = row_of(row.baseline)
    measured = row.speedup or (plain.tpot_ms or math.nan) / (row.tpot_ms or math.nan)
    iteration = predicted_iteration(row, constants)
    baseline_s = predicted_iteration(plain, constants).seconds
    scenario = scenario_of(row.row_id)
    return RackError(
        row.row_id,
        row.source_id,
        "speedup",
        measured=measured,
        predicted=baseline_s * iteration.tokens / iteration.seconds,
        node_width=_width_of_speedups(row, scenario),
        beyond_node=scenario.machine.fabric is not None,
    )


def width_of_steps(scenario: Scenario) -> float:
    """The half-width of the interval of a step within one node, in logarithms; 0 for a calibration that
    states its own error.
    """
    kind = step_class(scenario)
    return source_errors().steps[kind].log_within_on(scenario.machine.gpu) if kind else 0.0


def _width_of_speedups(row: RackRow, scenario: Scenario) -> float:
    """The half-width of the interval of a speedup within one node, in logarithms; 0 for a calibration that
    states its own error.
    """
    kind = speedup_class(scenario)
    if kind is None:
        return 0.0
    gammas = np.array([row.gamma or 0])
    passes = Passes(scenario, float(row.batch or 1), float(row.context or 0), gammas)
    share = float(extra_share(passes.ratios().item()))
    return source_errors().speedups[kind].log_within_on(scenario.machine.gpu) * share
