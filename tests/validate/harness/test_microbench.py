"""Microbenchmarks: the kernels are those of the models, and constants put into times come out of the fit
again.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel import costs
from perfmodel.cli import run
from perfmodel.specs import CONSTANTS, GPUSpec, load_calibration, load_gpu
from perfmodel.validate.harness.micro.fit import calibration_from
from perfmodel.validate.harness.micro.host import host_spec
from perfmodel.validate.harness.micro.jobs import jobs, linear_shapes, shell_smalls, small_bytes
from perfmodel.validate.records import RESULTS, Plan, Record, load_plan, read_record, spec_of, stamped
from tests.refusals import refused
from tests.validate.tiny_plan import BLOCK, planned, with_rows, write_plan

TRUTH = {
    "gemm_bandwidth_fraction": 0.8,
    "gemm_flops_fraction": 0.7,
    "gemm_fixed_s": 4e-6,
    "gemm_blend_power": 2.5,
    "gemm_column_s": 2e-10,
    "attention_bandwidth_fraction": 0.6,
    "attention_flops_fraction": 0.01,
    "attention_fixed_s": 2e-5,
    "kv_reread_per_query": 0.04,
    "small_kernel_s": 6e-6,
    "small_bandwidth_fraction": 0.5,
    "pass_fixed_s": 3e-4,
    "token_s": 1e-6,
    "iteration_fixed_s": 5e-4,
    "iteration_sequence_s": 2e-5,
}
SEARCHES = {"search_s": 1.5e-5, "searched_unit_s": 1.2e-9}
SAMPLING_S = 4e-5
BARE_S = {"linears": 2e-5, "attention": 1e-5}


def true_time(kind: str, at: dict[str, Any], gpu: GPUSpec, plan: Plan) -> float:
    """What a kernel would take on a machine with the constants of TRUTH; written from the model, not from the
    fit.
    """
    t = TRUTH
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    peak = gpu.peak_flops("bf16")
    if kind in ("copy", "read"):
        return float(at["bytes"] / (0.9 * bandwidth))
    if kind == "gemm":
        n = at["n"]
        k = at["k"]
        m = at["m"]
        moved = 2 * (n * k + m * (n + k))
        load = moved / (t["gemm_bandwidth_fraction"] * bandwidth) + n * t["gemm_column_s"]
        compute = 2 * m * n * k / (t["gemm_flops_fraction"] * peak)
        p = t["gemm_blend_power"]
        blended = (load**p + compute**p) ** (1 / p)
        return float(t["gemm_fixed_s"] + blended)
    if kind == "attention":
        b = at["batch"]
        s = at["context"]
        q = at["query"]
        token = 4 * at["kv_heads"] * at["head_dim"]
        width = at["heads"] * at["head_dim"]
        again = t["kv_reread_per_query"] * (q - 1)
        cached = b * s * token * (1 + again)
        fresh = b * q * (4 * width + token)
        pairs = q * s + q * (q + 1) / 2
        flops = 4 * width * b * pairs
        memory = (cached + fresh) / (t["attention_bandwidth_fraction"] * bandwidth)
        compute = flops / (t["attention_flops_fraction"] * peak)
        return float(t["attention_fixed_s"] + max(memory, compute))
    if kind in ("add_norm", "rope", "activation"):
        moved = small_bytes(kind, at, 2) * at["tokens"]
        return float(t["small_kernel_s"] + moved / (0.5 * bandwidth))
    if kind == "sampling":
        return SAMPLING_S * at["batch"]
    if kind == "shell":
        smalls = shell_smalls(at["layers"], plan)
        tokens = at["batch"] * at["query"]
        bare = at["layers"] * (BARE_S["linears"] + BARE_S["attention"])
        per_pass = t["pass_fixed_s"] + tokens * t["token_s"]
        return bare + smalls * t["small_kernel_s"] + per_pass
    if kind == "bare":
        return BARE_S[at["what"]]
    if kind == "allreduce":
        return 1e-5 + at["bytes"] / 1e11
    if kind == "search":
        rounds = math.ceil(at["batch"] * at["kv_heads"] / gpu.multiprocessors.value)
        looked = SEARCHES["search_s"] + at["units"] * SEARCHES["searched_unit_s"]
        return float(t["attention_fixed_s"] + rounds * looked)
    assert kind == "loop"
    return t["iteration_fixed_s"] + at["batch"] * t["iteration_sequence_s"]


def synthetic(folder: Path, plan: Plan, gpu: GPUSpec, noise: float = 0.0) -> Path:
    """A record of every kernel of a plan, timed by `true_time`; noise: of a kernel, and between its
    samples.
    """

    def noisy(seconds: float, number: int) -> list[float]:
        return [seconds * (1 + noise * math.sin(7 * i + number)) for i in range(7)]

    rows = [
        {
            "key": job.key,
            "kind": job.kind,
            "at": job.at,
            "status": "ok",
            "calls": 1,
            "working_set_bytes": 2**27,
            "samples": {"call_s": noisy(true_time(job.kind, job.at, gpu, plan), number)},
        }
        for number, job in enumerate(jobs(plan))
    ]
    device = {"kind": "cpu", "name": "Intel(R) Test", "bf16": "amx", "last_level_cache_bytes": 2**25}
    environment = {
        "device": device,
        "libraries": {"torch": "2"},
        "threads": 2,
        "memory_bytes": 32_000_000_000,
        "system": "Linux x86_64",
        "world_size": plan.tensor_parallel,
    }
    record = {
        "schema_version": 2,
        "kind": "microbench",
        "machine": "t-1",
        "hardware": gpu.name,
        "commit": "0123456789abcdef",
        "dirty": False,
        "plan": plan.resolved(),
        "plan_sha256": plan.digest,
        "points": rows,
        "environment": environment,
        "protocol": {"timer": "perf_counter", "timer_overhead_s": 1e-7, "samples": 7},
    }
    path = folder / f"20260101T000000Z-01234567-{plan.name}-micro.json"
    path.write_text(stamped(json.dumps(record)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plan() -> Plan:
    return load_plan("cpu-full").replace(hardware="h100-sxm-80gb")


@pytest.fixture(scope="module")
def gpu() -> GPUSpec:
    return load_gpu("h100-sxm-80gb")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, plan: Plan, gpu: GPUSpec) -> Record:
    return read_record(synthetic(tmp_path_factory.mktemp("micro"), plan, gpu))


def test_the_fit_finds_the_constants_that_made_the_times(record, gpu) -> None:
    """Times without noise determine them."""
    fitted = calibration_from(record, gpu, "h100-sxm-80gb.test")
    for name, value in TRUTH.items():
        constant = getattr(fitted, name)
        assert constant.value == pytest.approx(value, rel=1e-9), name
        assert constant.stderr == pytest.approx(0.0, abs=1e-9 * value), name


def test_searches_of_two_lengths_have_constants(tmp_path, record, gpu) -> None:
    """One length determines none of both, so it states none."""
    fitted = calibration_from(read_record(synthetic(tmp_path, load_plan("gpu-quest"), gpu)), gpu)
    for name, value in SEARCHES.items():
        assert getattr(fitted, name).value == pytest.approx(value), name
        assert name in calibration_from(record, gpu).absent


def test_searches_of_more_heads_than_multiprocessors_take_several_rounds(tmp_path, gpu) -> None:
    """Eight KV heads of four and of eight sequences: one round of 40 multiprocessors, and two."""
    small = gpu.replace(multiprocessors=gpu.multiprocessors.replace(value=40))
    fitted = calibration_from(read_record(synthetic(tmp_path, load_plan("gpu-quest"), small)), small)
    for name, value in SEARCHES.items():
        assert getattr(fitted, name).value == pytest.approx(value), name


def test_searches_of_one_length_have_no_constants(tmp_path, gpu) -> None:
    """In batches of four and of eight."""
    plan = load_plan("gpu-quest")
    long = plan.grid[0].replace(batch=(4, 8), context=(32768,))
    one = plan.replace(grid=(long,))
    fitted = calibration_from(read_record(synthetic(tmp_path, one, gpu)), gpu)
    assert fitted.absent >= SEARCHES.keys()


def test_a_record_of_two_devices(tmp_path, plan, gpu) -> None:
    """The curve of the all-reduce, and the bandwidth of a CPU that GEMMs alone show."""
    halves = plan.replace(tensor_parallel=2)
    noisy = read_record(synthetic(tmp_path, halves, gpu, 0.2))
    medians = calibration_from(noisy)
    (knots,) = medians.allreduce.knots.values()
    curve = [row for row in noisy.kernels if row.kind == "allreduce"]
    assert knots == tuple((row.at["bytes"], row.call_s) for row in curve)
    others = [row for row in noisy.kernels if row.kind != "allreduce"]
    fits = [calibration_from(with_rows(noisy, [*others, *curve[:count]])) for count in (1, 2)]
    assert [fit.allreduce is not None for fit in fits] == [False, True]
    gemms = with_rows(noisy, [row for row in noisy.kernels if row.kind == "gemm"])
    rates = [2e-9 * row.at["n"] * row.at["k"] / row.best_s for row in gemms.kernels]
    best = max(rates)
    assert host_spec(gemms, "test-cpu").memory_bandwidth.value == pytest.approx(best, rel=1e-3)


def test_a_shipped_calibration_is_the_fit_of_its_kernels() -> None:
    """Value by value, and so is the device file of the CPU. Further kernels add constants."""
    for name in ("h200-sxm-141gb", "xeon-amx-2core"):
        shipped = load_calibration(f"{name}.micro")
        kernels = read_record(RESULTS / f"{shipped.fitted_on[0]}.json")
        again = calibration_from(kernels)
        assert shipped.absent <= again.absent
        for constant in {*CONSTANTS} - again.absent:
            stated = getattr(shipped, constant)
            refitted = getattr(again, constant)
            assert refitted.source == stated.source
            numbers = stated.value, stated.stderr or 0.0
            assert (refitted.value, refitted.stderr or 0.0) == pytest.approx(numbers, rel=1e-3, abs=1e-13)
        assert again.notes == shipped.notes
        assert again.stack == shipped.stack
        assert again.date == shipped.date
    assert host_spec(kernels, name) == load_gpu(name)


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("kv-heavy", 1),
        ("weight-heavy", 1),
        ("llama-3.1-8b", 1),
        ("llama-3.1-8b", 8),
    ],
)
def test_the_linear_shapes_are_those_the_engine_counts(name, devices) -> None:
    spec = spec_of(name)
    precisions = load_plan("gpu-8b").precisions()
    part = costs.shard(spec, costs.Degrees(devices), precisions)
    counted = [op.weight_bytes / op.kernels for op in (*part.linears, part.lm_head)]
    shapes = linear_shapes(spec, devices)
    assert sorted(2.0 * n * k for n, k in shapes) == sorted(counted)
    columns = [op.columns / op.kernels for op in (*part.linears, part.lm_head)]
    assert sorted(columns) == sorted(n for n, _ in shapes)


def test_a_fit_of_the_wrong_record_is_refused(tmp_path, plan, gpu) -> None:
    path = synthetic(tmp_path, plan, gpu)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["crc32"]
    data["points"] = [row for row in data["points"] if row["kind"] != "attention"]
    path.write_text(stamped(json.dumps(data)), encoding="utf-8")
    refused("kind attention", calibration_from, read_record(path))
    rows = data["points"]
    cached = [row | {"working_set_bytes": 2**27 - 1} for row in rows]
    for few in ([row for row in rows if row["kind"] != "gemm"], cached):
        path.write_text(stamped(json.dumps(data | {"points": few})), encoding="utf-8")
        refused("must hold copy, read and gemm kernels", host_spec, read_record(path), "x")
    data["environment"]["device"]["kind"] = "cuda"
    path.write_text(stamped(json.dumps(data)), encoding="utf-8")
    refused("must be of a CPU", host_spec, read_record(path), "x")


def test_kernels_run_and_are_recorded(tmp_path) -> None:
    """Every kind once, on a tiny model; times are positive and nothing more is asked of them."""
    micro = {"rows": [1, 4], "max_bytes": 2**20}
    chosen = str(write_plan(tmp_path, micro=micro, grid=[{**BLOCK, "batch": [1]}]))
    assert run(["validate", "microbench", chosen, "--machine", "t-1", "--results", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("t-1/*-micro.json")
    record = read_record(path)
    assert not record.failures()
    kinds = "copy read gemm attention add_norm rope activation sampling shell bare loop"
    assert {row.kind for row in record.kernels} == set(kinds.split())
    assert {len(row.samples["call_s"]) for row in record.kernels} == {7}
    assert all(row.call_s > 0 for row in record.kernels)


def slower(record: Record, kind: str, factor: float) -> Record:
    """The record with other times of the kernels of a kind."""
    times = {row.key: tuple(factor * s for s in row.samples["call_s"]) for row in record.kernels}
    rows = [
        row.replace(samples={"call_s": times[row.key]}) if row.kind == kind else row for row in record.kernels
    ]
    return with_rows(record, rows)


@pytest.mark.parametrize(("kind", "factor"), [("gemm", 0.2), ("gemm", 1e4), ("attention", 0.01)])
def test_a_calibration_names_kernels_whose_times_no_efficiency_of_the_device_explains(
    record, gpu, kind: str, factor: float
) -> None:
    """Far faster than at its whole bandwidth, or far slower than at a hundredth of it."""
    notes = calibration_from(slower(record, kind, factor), gpu).notes
    assert f"WARNING: no efficiency of {gpu.name} explains its {kind} times." in notes
    assert "WARNING" not in calibration_from(record, gpu).notes
    assert "WARNING" not in calibration_from(slower(record, kind, 1.2), gpu).notes


def test_times_that_scatter_widely_about_a_possible_efficiency_are_no_reason_for_doubt(
    tmp_path, plan, gpu
) -> None:
    fitted = calibration_from(read_record(synthetic(tmp_path, plan, gpu, noise=0.95)), gpu)
    errors = re.findall(r"(\d+\.\d)%", fitted.notes)
    assert min(map(float, errors)) > 25
    assert fitted.gemm_bandwidth_fraction.value == pytest.approx(TRUTH["gemm_bandwidth_fraction"], rel=0.1)
    assert "WARNING" not in fitted.notes


def test_a_constant_that_the_kernels_do_not_determine_states_the_widest_error(tmp_path, gpu) -> None:
    """Products of one or two rows take the time of their weights, so they tell nothing about the blend with
    FLOPs. The reader would refuse a larger error than the widest.
    """
    record = read_record(synthetic(tmp_path, load_plan("gpu-8b"), gpu, noise=0.9))
    rows = [row for row in record.kernels if row.kind != "gemm" or row.at["m"] <= 2]
    fitted = calibration_from(with_rows(record, rows), gpu)
    assert fitted.gemm_blend_power.stderr == CONSTANTS["gemm_blend_power"].widest == pytest.approx(15)
    assert calibration_from(record, gpu).gemm_blend_power.stderr < 15


def test_sweeps_pool_their_samples_and_a_busy_host_moves_no_thread_time(tmp_path) -> None:
    """Three sweeps of a record on one thread: in one of them, every kernel takes twice as long."""
    plan = planned(tmp_path, grid=[BLOCK])
    gpu = load_gpu("h100")
    record = read_record(synthetic(tmp_path, plan, gpu))
    quiet = calibration_from(record, gpu)
    slow = {row.key: tuple(2 * s for s in row.samples["call_s"]) for row in record.kernels}
    again = [row.replace(key=f"{row.key}/1", samples={"call_s": slow[row.key]}) for row in record.kernels]
    protocol = record.data.protocol.replace(timer="thread_time")
    points = (*record.kernels, *again)
    swept = replace(record, data=record.data.replace(points=points, protocol=protocol))
    busy = calibration_from(swept, gpu)
    assert busy.gemm_bandwidth_fraction.value == pytest.approx(quiet.gemm_bandwidth_fraction.value, rel=0.02)
    assert "lower quartiles" in busy.notes
