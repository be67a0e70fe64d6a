"""A plan in fp8: what it asks of the decoder, what the engine predicts of it, and what its kernels read."""

from pathlib import Path

import pytest
import torch

from perfmodel.costs import Degrees, shard
from perfmodel.speculation import DEFAULT_MEMORY_FRACTION, memory_of
from perfmodel.validate.decoder.fp8 import FP8, Fp8Linear
from perfmodel.validate.decoder.weights import weight_bytes
from perfmodel.validate.harness.estimate import scenario_of
from perfmodel.validate.harness.micro.jobs import Job
from perfmodel.validate.harness.micro.kernels import KernelMaker
from perfmodel.validate.harness.point_runner import LoadedModels, PointRunner
from perfmodel.validate.records import Plan, points, spec_of
from tests.validate.tiny_plan import BLOCK, measured, planned

CPU = torch.device("cpu")
EIGHT = {"weights": "fp8", "kv": "fp8"}
GRID = [{**BLOCK, "batch": [2]}]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, precision=EIGHT, grid=GRID)


def test_the_prediction_is_of_the_bytes_that_the_decoder_holds(plan: Plan) -> None:
    (point,) = plan.points()
    scenario = scenario_of(plan, point)
    models = LoadedModels(plan, CPU)
    runner, (target, _) = PointRunner(models, plan, point), models.pair(point)
    scales = sum(part.scale.numel() for part in target.modules() if isinstance(part, Fp8Linear))
    engines = shard(spec_of("tiny"), Degrees(1), scenario.precision)
    assert weight_bytes(target, target.dtype) == engines.stored_weight_bytes + 2 * scales
    in_fp8 = sum(p.numel() for p in target.parameters() if p.dtype == FP8)
    assert in_fp8 == sum(op.weight_bytes for op in engines.linears)
    decoder = runner.runs["sd"].decoder
    assert decoder.target.cache.k.dtype == decoder.models[0].view.k.dtype == FP8  # type: ignore[attr-defined]
    context = decoder.target.cache.capacity - 1.0  # the engine keeps room for the token that follows
    assert (
        decoder.target.cache.kv.nbytes
        == memory_of(scenario, 2.0, context, 0.0, DEFAULT_MEMORY_FRACTION).kv_bytes
    )


@pytest.mark.parametrize(("device", "weights"), [("cpu", "fp8-wo"), ("cuda", "fp8")])
def test_the_engine_has_the_format_of_the_device(tmp_path: Path, device: str, weights: str) -> None:
    """Widened before the product on a CPU, multiplied as they are by tensor cores."""
    plan = planned(tmp_path, precision=EIGHT, grid=GRID, device=device)
    scenario = scenario_of(plan, plan.points()[0])
    assert scenario.precision.weights.name == weights
    assert scenario.precision.kv.name == "fp8"
    assert scenario.draft.precision.weights.name == weights
    assert scenario.draft.precision.kv.name == "fp8"
    assert plan.precisions().weights == scenario.precision.weights
    half = planned(tmp_path, precision={"weights": "bf16", "kv": "fp8"}, grid=GRID, device=device)
    assert half.precisions().weights.name == "bf16"


def test_a_run_shows_predicted_beside_measured(tmp_path, capsys) -> None:
    """The plan's point, and as the record has it for every later comparison."""
    record = measured(tmp_path, precision=EIGHT, grid=GRID, hardware="xeon-amx-2core")
    assert "predicted with xeon-amx-2core.micro / measured / error" in capsys.readouterr().out
    assert not record.failures()
    (point,) = points(record)
    assert point.weights == "fp8-wo"
    assert point.kv_dtype == "fp8"


def test_kernels_read_what_the_plan_stores(plan: Plan) -> None:
    maker = KernelMaker(plan, CPU, torch.bfloat16)
    gemm = maker.make(Job("gemm", {"n": 48, "k": 32, "m": 3}))
    assert gemm.working_set_bytes == gemm.buffers * 48 * 32
    assert gemm.call(0).shape == (3, 48)
    heads = {"heads": 2, "kv_heads": 2, "head_dim": 16}
    size = {"batch": 1, "query": 2}
    attention = maker.make(Job("attention", {**heads, **size, "context": 64}))
    assert attention.working_set_bytes == attention.buffers * 2 * 2 * 64 * 16
    assert attention.call(0).shape == (1, 2, 32)
    for job in (Job("bare", {"what": "linears", **size}), Job("shell", {"layers": 1, **size})):
        maker.make(job).call(0)
