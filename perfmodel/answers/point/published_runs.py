"""Finds published measurements with the same configuration as a question."""

from typing import NamedTuple

from perfmodel.kv import parse_kv
from perfmodel.specs.published import published_points
from perfmodel.speculation import Scenario


class PublishedRun(NamedTuple):
    """A published speedup, and the batch, context and draft length at which it was measured."""

    batch: int
    context: int
    gamma: int
    speedup: float


def measured_speedups(scenario: Scenario) -> list[PublishedRun]:
    """The published runs of the MagicDec benchmark with the same target, draft, KV method and its options,
    device, tensor-parallel degree and software, and with the same formats of weights and caches.

    The list is empty if there are none.
    """
    draft = scenario.draft
    machine = scenario.machine
    pair = (scenario.target.name, draft.name)
    formats = [(each.weights.name, each.kv.name) for each in (scenario.precision, draft.precision)]
    same = (machine.calibration.stack, machine.gpu.name, machine.tensor_parallel, *pair, *formats)
    runs = []
    for p in published_points("magicdec"):
        its_formats = (p.weights, p.kv_dtype)  # of the target and of the draft
        setting = (p.stack, p.hardware, p.tp, p.target, p.draft, its_formats, its_formats)
        if setting != same or p.speedup is None or p.gamma is None or p.draft_kv is None:
            continue
        if parse_kv(p.draft_kv) == draft.kv:
            runs.append(PublishedRun(p.batch, p.context, p.gamma, p.speedup))
    return runs
