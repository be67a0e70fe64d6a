"""What the engine says of a plan's points: scenarios to compare with, and memory and time before anything is run."""

from dataclasses import dataclass

from perfmodel.costs.roofline import Machine
from perfmodel.drafts import make_draft
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.specs.calibration import Calibration, load_calibration
from perfmodel.specs.formats import Precision
from perfmodel.specs.gpu import GPUSpec, load_gpu
from perfmodel.specs.model import load_model
from perfmodel.speculation import capacity
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload
from perfmodel.validate.harness.plans import Plan, Point, model_reference


@dataclass(frozen=True)
class Bench:
    """The device that predictions are for, and its calibration."""

    gpu: GPUSpec
    calibration: Calibration
    tensor_parallel: int
    precision: Precision

    @classmethod
    def of(cls, plan: Plan, hardware: str | None = None, calibration: str | None = None) -> "Bench":
        """By name or path; the plan's own device and that device's own calibration unless given."""
        gpu = load_gpu(hardware or plan.hardware)
        return cls(gpu, load_calibration(calibration or gpu.calibration), plan.tensor_parallel, plan.precisions())

    def scenario(self, target: str, draft: str, draft_kv: str, acceptance: Acceptance) -> Scenario:
        """A question of the engine for one pair and KV method."""
        spec = load_model(model_reference(target))
        name = draft if draft == "self" else model_reference(draft)
        drafter = make_draft(name, spec, self.precision, self.tensor_parallel, parse_kv(draft_kv))
        machine = Machine(self.gpu, self.calibration, self.tensor_parallel)
        return Scenario(spec, machine, self.precision, drafter, acceptance)


def check(plan: Plan, bench: Bench) -> None:
    """Refuse (InputError) what could be timed but never compared: a pair that cannot draft, a device without a peak."""
    for target, draft, draft_kv in dict.fromkeys((p.target, p.draft, p.draft_kv) for p in plan.points()):
        scenario = bench.scenario(target, draft, draft_kv, Acceptance.from_alpha(0.0))
        own, drafted = scenario.target.vocab_size, scenario.draft.model.vocab_size
        if own != drafted:
            raise InputError(f"{plan.name}: draft: must have {target}'s {own} vocabulary entries, given {drafted}")
        scenario.target_pass_s(1.0, 1.0)
        scenario.draft_pass_s(1.0, 1.0)


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


def estimate(plan: Plan, bench: Bench, fill_bytes_per_s: float | None = None) -> list[Estimate]:
    """All points of a plan. fill_bytes_per_s: how fast caches are filled with random values (default: at bandwidth)."""
    fill = fill_bytes_per_s or bench.gpu.memory_bandwidth_bytes_per_s
    return [_one(plan, bench, point, fill) for point in plan.points()]


def _one(plan: Plan, bench: Bench, point: Point, fill: float) -> Estimate:
    scenario = bench.scenario(point.target, point.draft, point.draft_kv, Acceptance.from_alpha(point.alpha))
    p = predict(scenario, Workload.of(point.batch, point.context, point.gamma))
    room = capacity.memory(
        scenario.target_shard,
        scenario.draft_shard,
        scenario.draft,
        bench.gpu,
        float(point.batch),
        float(point.context),
        float(point.gamma),
        capacity.DEFAULT_MEMORY_FRACTION,
    )
    needed = float(room.weight_bytes + room.kv_bytes + room.draft_weight_bytes + room.draft_kv_bytes)
    protocol = plan.protocol
    loops = (protocol.samples + protocol.warmup) * protocol.iterations * len(protocol.modes)
    seconds = loops * float(p.target_s + p.iteration_s) + needed / fill
    return Estimate(point, needed, bool(room.fits), float(p.target_s), float(p.iteration_s), float(p.speedup), seconds)
