"""What the engine says of a plan's points before anything is run: refusals, memory and time."""

from dataclasses import dataclass

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.speculation import capacity
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload
from perfmodel.validate.records.plan import Plan, Point, model_reference


def scenario_of(plan: Plan, point: Point, calibration: str | None = None) -> Scenario:
    """The question that a point asks; calibration by name or path, the device's own unless given."""
    return resolve(
        Query(
            model=model_reference(point.target),
            hardware=plan.hardware,
            batch=point.batch,
            context=point.context,
            gamma=point.gamma,
            tp=plan.tensor_parallel,
            draft=point.draft if point.draft == "self" else model_reference(point.draft),
            draft_kv=point.draft_kv,
            alpha=point.alpha,
            weights=plan.precision.weights,
            kv_dtype=plan.precision.kv,
            calibration=calibration,
        )
    )


def check(plan: Plan, calibration: str | None = None) -> None:
    """Refuse (InputError) what could be timed but never compared: a pair that cannot draft, a device without a peak."""
    for point in {(p.target, p.draft, p.draft_kv): p for p in plan.points()}.values():
        scenario = scenario_of(plan, point, calibration)
        own, drafted = scenario.target.vocab_size, scenario.draft.model.vocab_size
        if own != drafted:
            raise InputError(
                f"{plan.name}: draft: must have {point.target}'s {own} vocabulary entries, given {drafted}"
            )
        scenario.target_pass_s(1.0, 1.0)
        scenario.draft_pass_s(1.0, 1.0)


def fitting(plan: Plan, calibration: str | None = None) -> Plan:
    """The plan without the batches and contexts that do not fit its device. Raises InputError where nothing does."""
    fits = {found.point: found.fits for found in estimate(plan, calibration)}
    left = plan.only(lambda point: fits[point])
    if left is None:
        raise InputError(f"{plan.name}: must have a point that fits {plan.hardware}")
    return left


@dataclass(frozen=True, slots=True)
class Estimate:
    """One point before it is run: bytes on the device, whether they fit, and seconds for all of its rows."""

    point: Point
    needed_bytes: float
    fits: bool
    target_s: float
    iteration_s: float
    speedup: float
    seconds: float


def estimate(plan: Plan, calibration: str | None = None) -> list[Estimate]:
    """All points of a plan. Caches are taken to be filled with random values at the device's bandwidth."""
    return [_one(plan, point, scenario_of(plan, point, calibration)) for point in plan.points()]


def _one(plan: Plan, point: Point, scenario: Scenario) -> Estimate:
    gpu = scenario.machine.gpu
    p = predict(scenario, Workload.of(point.batch, point.context, point.gamma))
    room = capacity.memory(
        scenario.target_shard,
        scenario.draft_shard,
        scenario.draft,
        gpu,
        float(point.batch),
        float(point.context),
        float(point.gamma),
        capacity.DEFAULT_MEMORY_FRACTION,
    )
    needed = float(room.weight_bytes + room.kv_bytes + room.draft_weight_bytes + room.draft_kv_bytes)
    protocol = plan.protocol
    loops = (protocol.samples + protocol.warmup) * protocol.iterations * len(protocol.modes)
    seconds = loops * float(p.target_s + p.iteration_s) + needed / gpu.memory_bandwidth_bytes_per_s
    return Estimate(point, needed, bool(room.fits), float(p.target_s), float(p.iteration_s), float(p.speedup), seconds)
