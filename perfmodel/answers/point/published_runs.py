"""Finds published measurements with the same configuration as a question."""

from typing import NamedTuple

from perfmodel.specs.published import published_points
from perfmodel.speculation import Scenario


class PublishedRun(NamedTuple):
    """A published speedup, and the batch, context and draft length at which it was measured."""

    batch: int
    context: int
    gamma: int
    speedup: float


def measured_speedups(scenario: Scenario) -> list[PublishedRun]:
    """The published runs of the MagicDec benchmark with the same target, draft, KV method, device,
    tensor-parallel degree and software.

    The list is empty if there are none.
    """
    kv = scenario.draft.kv
    machine = scenario.machine
    spelt = kv.name if kv.budget is None else f"{kv.name}:{kv.budget}"
    pair = (scenario.target.name, scenario.draft.name)
    same = (machine.calibration.stack, machine.gpu.name, machine.tensor_parallel, *pair, spelt)
    runs = []
    for p in published_points("magicdec"):
        setting = (p.stack, p.hardware, p.tp, p.target, p.draft, p.draft_kv)
        if setting == same and p.speedup is not None and p.gamma is not None:
            runs.append(PublishedRun(p.batch, p.context, p.gamma, p.speedup))
    return runs
