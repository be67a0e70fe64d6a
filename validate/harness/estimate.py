"""Checks the points of a plan before a run, and estimates their memory and time."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.speculation import Account, Scenario, Workload, capacity, predict, tree_cost
from perfmodel.speculation.tree import Tree, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_shape import widths
from perfmodel.validate.records import Plan, PlanPoint, model_reference


def scenario_of(plan: Plan, point: PlanPoint, calibration: str | None = None) -> Scenario:
    """The scenario that predicts a point of a plan.

    - calibration: name or path; by default the device's own.
    """
    question = Query(
        model=model_reference(point.target),
        hardware=plan.hardware,
        batch=point.batch,
        context=point.context,
        gamma=point.gamma,
        tp=plan.tensor_parallel,
        draft=point.draft if point.draft == "self" else model_reference(point.draft),
        draft_kv=point.draft_kv,
        alpha=point.alpha or 0.0,  # a tree's acceptance is by rank
        weights=plan.precisions().weights.name,
        kv_dtype=plan.precision.kv,
        calibration=calibration,
    )
    return resolve(question)


def check(plan: Plan, calibration: str | None = None) -> None:
    """Raises InputError for points that could be timed but not predicted. For example, target and draft have
    different vocabularies, or the device has no published peak for the format.
    """
    distinct = {(p.target, p.draft, p.draft_kv, p.parents): p for p in plan.points()}
    for point in distinct.values():
        scenario = scenario_of(plan, point, calibration)
        vocabulary = scenario.target.vocab_size
        of_draft = scenario.draft.model.vocab_size
        if vocabulary != of_draft:
            allowed = f"{point.target}'s {vocabulary} vocabulary entries"
            raise InputError(f"{plan.name}: draft: must have {allowed}, given {of_draft}")
        most_children = max(Counter(point.parents or ()).values(), default=0)
        if most_children > vocabulary:
            allowed = f"at most {vocabulary} children at a node"
            raise InputError(f"{plan.name}: tree: must have {allowed}, given {most_children}")
        scenario.target_pass_s(point.batch, point.context)
        scenario.draft_pass_s(point.batch, point.context)


def fitting(plan: Plan, calibration: str | None = None) -> Plan:
    """The plan without the batches and contexts that do not fit in the memory of its device. Raises
    InputError if no point fits.
    """
    fits = {of_point.point: of_point.fits for of_point in estimate(plan, calibration)}
    restricted = plan.restricted_to(lambda point: fits[point])
    if restricted is None:
        raise InputError(f"{plan.name}: must have a point that fits {plan.hardware}")
    return restricted


class PredictedTimes(NamedTuple):
    """The predicted seconds of a step without a draft and of an iteration with it, and the predicted
    speedup.
    """

    target_s: float
    iteration_s: float
    speedup: float


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """The estimate of one point.

    - needed_bytes: the bytes that the point needs on the device.
    - fits: whether these bytes fit into the memory of the device.
    - times: the predicted times.
    - seconds: time that all rows of the point need.
    """

    point: PlanPoint
    needed_bytes: float
    fits: bool
    times: PredictedTimes
    seconds: float


def estimate(plan: Plan, calibration: str | None = None) -> list[PointEstimate]:
    """The estimates of all points of a plan. The time to fill the caches with random values is included, at
    the device's bandwidth.
    """
    return [_of_point(plan, point, scenario_of(plan, point, calibration)) for point in plan.points()]


def _of_point(plan: Plan, point: PlanPoint, scenario: Scenario) -> PointEstimate:
    """The estimate of a point, with the memory that the decoder needs for it."""
    batch = float(point.batch)
    context = float(point.context)
    drafted = point.queries[-1] - 1
    tree = None
    stored = scenario
    if point.draft != "self" and not parse_kv(point.draft_kv).needs_own_prefill:
        stored = scenario_of(plan, point.replace(draft_kv="full"))  # the decoder keeps a whole cache
    alone = replace(stored, account=Account())  # without the memory of an engine
    room = capacity.memory_of(alone, batch, context, drafted)
    if point.parents is not None:
        gained = expected_tokens(point.parents, TreeAcceptance.of(point.rates or ()))
        tree = Tree(point.parents, widths(point.parents), gained)
    times = predicted_times(scenario, batch, context, point.gamma, tree)
    target_bytes = room.weight_bytes + room.kv_bytes
    draft_bytes = room.draft_weight_bytes + room.draft_kv_bytes
    needed_bytes = float(target_bytes + draft_bytes)
    protocol = plan.protocol
    samples = protocol.samples + protocol.warmup
    loops = samples * protocol.iterations * len(protocol.modes)
    filling_s = needed_bytes / scenario.machine.gpu.memory_bandwidth_bytes_per_s
    seconds = loops * (times.target_s + times.iteration_s) + filling_s
    return PointEstimate(point, needed_bytes, bool(room.fits), times, seconds)


def predicted_times(
    scenario: Scenario, batch: float, context: float, gamma: int, tree: Tree | None
) -> PredictedTimes:
    """The predicted times of a point, as the commands `whatif` and `tree` compute them.

    - tree: the drafted tree; None for a chain.
    """
    if tree is not None:
        target_s = scenario.target_pass_s(batch, context)
        iteration_s = tree_cost.iteration_s(scenario, batch, context, tree)
        speedup = tree.tokens_per_iteration * target_s / iteration_s
        return PredictedTimes(float(target_s), float(iteration_s), float(speedup))
    predicted = predict(scenario, Workload.of(batch, context, gamma))
    return PredictedTimes(float(predicted.target_s), float(predicted.iteration_s), float(predicted.speedup))
