"""Finds out how the server of a question is placed on several nodes, or on more devices of a rack than one
node has.
"""

import math
from collections.abc import Iterator

from perfmodel.answers.question.nodes import devices_of_nodes
from perfmodel.answers.question.query import CommonOptions
from perfmodel.costs import RackLayout
from perfmodel.costs.experts import imbalance_of
from perfmodel.costs.fabric import Fabric
from perfmodel.errors import InputError, refuse
from perfmodel.immutable import Immutable
from perfmodel.specs import Calibration, GPUSpec, ModelSpec, engine_of
from perfmodel.specs.devices.links import devices_of_node, dispatches_in_box, link_of
from perfmodel.specs.engines.rack_constants import rack_constants
from perfmodel.speculation import Scenario


class Placed(Immutable):
    """How a server is placed on nodes.

    - fabric: the links between its devices. None means that the calibration already covers the times of all
      messages, as within most nodes.
    - layout: the pipeline stages, the exchange of tokens between ranks, and the copies of experts.
    """

    fabric: Fabric | None
    layout: RackLayout


def place(
    question: CommonOptions,
    gpu: GPUSpec,
    calibration: Calibration,
    target: ModelSpec,
    tp: int,
    ep: int,
    dp: int,
) -> Placed:
    """How the server of a question is placed on nodes. Raises InputError if the placement is impossible, or
    if a table of message times is missing.
    """
    _check(question, target, tp)
    fabric = _fabric(question, gpu, calibration, tp, dp)
    exchanges = fabric is not None and dp > 1 and ep > 1 and question.all_to_all != "gather"
    if fabric is not None and exchanges and fabric.link.exchange is None:
        raise InputError(f"--dp: hardware/links/{fabric.link.name}.yaml has no table exchange")
    micro_batches = 1
    if question.overlap == "two-batch":
        if not exchanges:
            allowed = "auto or none without a dispatch (--ep and --dp over nodes)"
            raise refuse("--overlap", None, allowed, question.overlap)
        micro_batches = 2
    layout = RackLayout(
        exchanges=exchanges,
        redundant_experts=question.redundant_experts,
        imbalance=_imbalance(question, target, ep) if exchanges else question.moe_imbalance or 1.0,
        stages=question.pp,
        micro_batches=micro_batches,
    )
    return Placed(fabric, layout)


def _check(question: CommonOptions, target: ModelSpec, tp: int) -> None:
    """Raises InputError for numbers that contradict each other or the model."""
    stages = question.pp
    if question.nodes is not None and devices_of_nodes(question.nodes) != tp * stages:
        counted = f"--tp {tp}" if stages == 1 else f"--tp {tp} x --pp {stages}"
        raise refuse("--nodes", None, f"as many devices as {counted}", question.nodes)
    if question.redundant_experts and not target.moe:
        none = f"0 for {target.name}, which has no experts"
        raise refuse("--redundant-experts", None, none, question.redundant_experts)
    if stages > target.num_hidden_layers:
        raise refuse("--pp", None, f"at most the {target.num_hidden_layers} layers of {target.name}", stages)


def _fabric(
    question: CommonOptions, gpu: GPUSpec, calibration: Calibration, tp: int, dp: int
) -> Fabric | None:
    """The links between the devices of a server. The result is None if the calibration covers these devices
    as one node and the engine does not dispatch tokens there.
    """
    devices = tp * question.pp
    nodes, each = (1, devices)
    if question.nodes is not None:
        nodes, each = map(int, question.nodes.split("x"))
    table = calibration.allreduce
    apart = devices > 1 and gpu.link is None and devices_of_node(gpu) == 1
    in_box = table is None or devices <= max(table.knots) or gpu.over_host(tp)
    within = nodes == 1 and in_box and not apart
    auto = dp > 1 and question.all_to_all == "auto" and dispatches_in_box(gpu, calibration.stack)
    if within and not auto and question.all_to_all != "dispatch":
        return None
    link = link_of(gpu, "--tp" if question.nodes is None else "--nodes")
    most = int(link.node_devices.value)
    if question.nodes is None:
        each = min(devices, most)
        nodes = math.ceil(devices / each)
    if each > most:
        raise refuse("--nodes", None, f"nodes of at most {most} devices for {gpu.name}", question.nodes)
    if nodes > 1 and link.joins_a_rack:
        file = f"hardware/links/{link.name}.yaml"
        raise InputError(f"--nodes: {file} has no table between racks, given {nodes} nodes")
    overlap = _overlap(question, calibration) if question.overlap == "two-batch" else 0.0
    return Fabric(link, each, nodes, rack_constants().waiting.value, overlap)


def _overlap(question: CommonOptions, calibration: Calibration) -> float:
    """The share of the communication that an engine hides with two micro-batches. Raises InputError if this
    share is not known for the engine.
    """
    engine = engine_of(calibration) or calibration.stack
    known = rack_constants().overlap
    if engine not in known:
        raise InputError(
            f"--overlap: hardware/fitted/racks.yaml has no overlap of {engine} (it has {', '.join(known)})"
        )
    return known[engine].value


def _imbalance(question: CommonOptions, target: ModelSpec, ep: int) -> float:
    """The number of tokens of the rank with the most tokens, divided by the mean number over all ranks, if
    tokens are dispatched.
    """
    if question.moe_imbalance is not None:
        return question.moe_imbalance
    assert target.moe is not None
    known = rack_constants().imbalance
    in_order = imbalance_of(target.moe.num_experts, ep, known.spread)
    return min(known.balanced, in_order) if question.redundant_experts else in_order


def without_stages(question: CommonOptions, verb: str) -> None:
    """Raises InputError for pipeline stages in a question to a verb that does not place them."""
    if question.pp > 1:
        raise refuse(
            "--pp", None, f"1 in {verb}, which places no pipeline stages (whatif and sweep do)", question.pp
        )


def rack_doubts(question: CommonOptions, scenario: Scenario, batch: float, gamma: int) -> Iterator[str]:
    """Warnings about a server on several nodes: which values are assumed, and which times were not
    measured.
    """
    layout = scenario.layout
    groups = scenario.data_parallel
    if layout.stages > 1 and gamma:
        yield "few versions of engines combine pipeline stages and speculation (vLLM not before 2026-08)"
    fabric = scenario.machine.fabric
    if fabric is None:
        return
    parts = groups * layout.stages
    each = math.ceil(batch / parts)
    if parts > 1 and batch > 1:
        yield f"batch {batch:.0f} counts the sequences of all {parts} ranks: {each} on the fullest"
    if question.nodes is None and fabric.nodes > 1 and fabric.link.node_devices.value > 1:
        gpu = scenario.machine.gpu.name
        yield f"no --nodes was given: {fabric.nodes} nodes of {fabric.node_devices} {gpu} are assumed"
    link = fabric.link
    attends = scenario.machine.tensor_parallel // groups
    table = link.allreduce
    if attends > fabric.node_devices and table and table.evidence == "assumed":
        yield f"the times of all-reduces between nodes are assumed, not from a table ({table.source})"
    elif attends > (table.measured_devices if table else attends):
        measured = table.measured_devices if table else 0
        yield f"all-reduces of {attends} devices are assumed to be as fast as those of {measured}"
    if layout.exchanges and link.exchange:
        yield from _of_exchange(question, scenario, each * (gamma + 1))


def _of_exchange(question: CommonOptions, scenario: Scenario, tokens: float) -> Iterator[str]:
    """Warnings about times that the table of a dispatch does not contain, and about an assumed imbalance."""
    fabric = scenario.machine.fabric
    assert fabric is not None
    table = fabric.link.exchange
    assert table is not None
    ranks = max(table.dispatch.us)
    if scenario.expert_parallel > ranks:
        yield f"{table.library}: measured on up to {ranks} ranks, given {scenario.expert_parallel}"
    if tokens < table.assumed_below:
        yield (
            f"{table.library}: measured from {table.assumed_below:.0f} tokens per rank on; for {tokens:.0f} "
            "the time of NVIDIA's kernels within a node is taken as a lower bound"
        )
    if question.moe_imbalance is None:
        copies = "with" if question.redundant_experts else "without"
        yield (
            f"the fullest rank is assumed to have {scenario.layout.imbalance:.3g} times the mean tokens, as "
            f"published {copies} redundant experts (--moe-imbalance)"
        )
