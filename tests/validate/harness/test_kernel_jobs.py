"""Which kernels a plan asks for, what each of them touches, and how its calls are timed: sizes and seconds by
hand.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from perfmodel.specs import ModelSpec
from perfmodel.validate.decoder import RandomWeights, RankShard, Request, build
from perfmodel.validate.harness.clock import Clock
from perfmodel.validate.harness.micro import kernels, run
from perfmodel.validate.harness.micro.jobs import Job, jobs, shell_smalls, shell_spec, small_bytes
from perfmodel.validate.records import Plan
from tests.validate.tiny_plan import BLOCK, planned

CPU = torch.device("cpu")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    blocks = [
        {**BLOCK, "batch": [1, 2], "context": [64, 96], "gamma": [2, 3]},
        {**BLOCK, "draft": "tiny", "draft_kv": ["full"], "batch": [1, 4]},
    ]
    return planned(tmp_path, micro={"rows": [1, 4], "max_bytes": 2**23}, tensor_parallel=2, grid=blocks)


HALF = (2, 1, 16)
WHOLE = (4, 2, 16)
BATCHES = (1, 2, 4)
SMALLS = [(*HALF, 64, 64, tokens) for tokens in (1, 4, 16, 64, 256, 1024)]
EXPECTED_JOBS = {
    **{kind: [(2**20,), (2**23,)] for kind in ("copy", "read")},
    **dict.fromkeys(("add_norm", "rope", "activation"), SMALLS),
    "sampling": [(256, 1), (256, 4), (256, 16)],
    "shell": list(product((1, 2), BATCHES, (1, 4))),
    "bare": list(product(("linears", "attention"), BATCHES, (1, 4))),
    "loop": [(*WHOLE, 2, 256, "streamingllm:16", *size) for size in product(BATCHES, (1, 4))],
    "gemm": [(*shape, m) for shape in ((64, 64), (64, 32), (128, 64)) for m in (1, 4)],
    "attention": [
        (*HALF, b, *size) for b in BATCHES for size in ((64, 1), (96, 1), (96, 3), (96, 4), (512, 1))
    ],
    "allreduce": [(2**power,) for power in (12, 14, 16, 18, 20, 23, 26)],
}
"""Kind -> sizes: of two devices half the heads, of the loop all of them."""


def test_the_jobs_of_a_plan_on_two_devices(plan) -> None:
    """Half the heads, inner values and vocabulary; a cache that no point has is read by one query alone."""
    by_device: dict[str, list[tuple[Any, ...]]] = {}
    for job in jobs(plan):
        by_device.setdefault(job.kind, []).append(tuple(job.at.values()))
    assert by_device == EXPECTED_JOBS


def test_a_device_has_one_kv_head_where_there_are_more_devices_than_heads(tmp_path) -> None:
    """Of the 2 KV heads on 4 devices, each device keeps a copy of one."""
    attention = [job.at for job in jobs(planned(tmp_path, tensor_parallel=4)) if job.kind == "attention"]
    assert {(sizes["heads"], sizes["kv_heads"]) for sizes in attention} == {(1, 1)}


def test_the_last_page_of_a_search_may_be_partly_filled(tmp_path) -> None:
    """100 tokens of context in pages of 16: 6 full pages and one with 4 tokens."""
    block = {**BLOCK, "draft_kv": ["quest:32,page=16"], "batch": [1], "context": [100]}
    (search,) = (job.at for job in jobs(planned(tmp_path, grid=[block])) if job.kind == "search")
    assert (search["units"], search["count"]) == (7, 2)


def test_element_wise_bytes_and_shells_by_hand(plan) -> None:
    at = {"heads": 2, "kv_heads": 1, "head_dim": 16, "hidden": 64, "inner": 48}
    sizes = [small_bytes(kind, at, 2) for kind in ("norm", "residual", "add_norm", "rope", "activation")]
    assert sizes == [256, 384, 640, 256, 288]
    assert [shell_smalls(layers, plan) for layers in (1, 3)] == [9, 23]
    bare = shell_spec(1)
    like = shell_spec(2, {"heads": 6, "kv_heads": 3, "head_dim": 8}, 99)

    def shape(spec: ModelSpec) -> tuple[int, ...]:
        heads = spec.num_attention_heads, spec.num_key_value_heads, spec.head_dim
        return spec.num_hidden_layers, *heads, spec.vocab_size, spec.max_position_embeddings

    assert shape(bare) == (1, 4, 2, 16, 256, 131072)
    assert shape(like) == (2, 6, 3, 8, 99, 131072)


def shapes(made: Any) -> Any:
    if isinstance(made, torch.Tensor):
        return tuple(made.shape)
    return [shapes(part) for part in made]


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


SMALL = {"heads": 4, "kv_heads": 2, "head_dim": 8, "hidden": 32, "inner": 48, "tokens": 3}
ATTENTION = {"heads": 4, "kv_heads": 2, "head_dim": 8, "batch": 3, "context": 5, "query": 2}
KERNELS: list[tuple[Job, int, float, Any]] = [
    (Job("copy", {"bytes": 4096}), 1, 4096, (512,)),
    (Job("read", {"bytes": 4096}), 1, 4096, ()),
    (Job("gemm", {"n": 6, "k": 10, "m": 3}), 5, 1200, (3, 6)),  # 240 B each, of which 1000 B are 4.2
    (Job("gemm", {"n": 1, "k": 1, "m": 1}), 9, 36, (1, 1)),  # as many as there may be
    (Job("gemm", {"n": 32, "k": 32, "m": 1}), 1, 4096, (1, 32)),
    (Job("attention", {**ATTENTION, "context": 1, "batch": 1}), 8, 1024, (1, 2, 32)),  # 128 B
    (Job("attention", ATTENTION), 1, 1920, (3, 2, 32)),
    (Job("add_norm", SMALL), 1, 768, [(1, 3, 32)] * 2),
    (Job("rope", SMALL), 1, 768, [(1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)]),
    (Job("activation", SMALL), 1, 1152, (1, 3, 48)),
    (Job("sampling", {"vocab": 7, "batch": 3}), 1, 84, (3,)),
    (Job("bare", {"what": "linears", "batch": 3, "query": 2}), 1, 0, [(6, n) for n in (128, 64, 128, 64)]),
    (Job("bare", {"what": "attention", "batch": 1, "query": 2}), 1, 16384, (1, 2, 64)),
    (Job("shell", {"layers": 2, "batch": 3, "query": 2}), 1, 0, (3, 2, 256)),
    (Job("allreduce", {"bytes": 4096}), 1, 4096, None),
]


@pytest.mark.parametrize(
    ("job", "buffers", "touched", "made"), KERNELS, ids=lambda value: getattr(value, "key", "")
)
def test_what_a_kernel_touches_and_makes(plan, alone, job, buffers, touched, made) -> None:
    """In fp32. Buffers of GEMMs and attention take turns until they are 1000 bytes together, 9 of them at
    most.
    """
    maker = kernels.KernelMaker(plan, CPU, torch.float32, spread_bytes=1000, max_buffers=9)
    kernel = maker.make(job)
    assert kernel.buffers == buffers
    assert kernel.working_set_bytes == touched
    assert kernel.max_calls == 2000
    assert (kernel.spacer is not None) == (job.kind in ("gemm", "attention"))
    results = kernel.call(buffers - 1)
    if job.kind != "allreduce":
        assert shapes(results) == made
    if kernel.spacer is not None:
        assert shapes(kernel.spacer()) == (1, 1024)
    assert maker.make(job).buffers == buffers


def test_buffers_that_take_turns(plan) -> None:
    """Of 240 and 80 bytes, in memory of their own; the next job of the shapes has the same ones."""
    maker = kernels.KernelMaker(plan, CPU, torch.float32, spread_bytes=1000, max_buffers=9)
    buffers = maker.rotating(torch.float32, (6, 10), (20,))
    addresses = {tensor.data_ptr() for buffer in buffers for tensor in buffer}
    assert len(buffers) == 4
    assert len(addresses) == 8
    assert maker.rotating(torch.float32, (6, 10), (20,)) is buffers
    assert maker.rotating(torch.float32, (20,), (6, 10)) is not buffers


@torch.inference_mode()
def test_a_loop_kernel_goes_on_and_comes_back() -> None:
    """From 256 tokens, 1 to 5 more a call; 819 calls of 5 tokens at most fit into the 4096 there is room
    for.
    """
    shape = {"heads": 2, "kv_heads": 1, "head_dim": 8}
    model = build(shell_spec(1, shape, 16), RandomWeights(0, CPU, torch.float32))
    request = Request(40, 256, 4096, 4, draft_kv="streamingllm:16", script=(1.0,) * 5)
    loop = kernels.DecisionLoop(model, request, torch.randn(40, 5, 16))
    kernel = loop.kernel()
    state = loop.state
    cache = loop.decoder.target.cache
    assert kernel.max_calls == 819
    assert kernel.buffers == 1
    assert kernel.working_set_bytes == 0
    assert cache.capacity == 4416, "256 + 4096 + 5 tokens in blocks of 64"
    for _ in range(3):
        kernel.call(0)
    gained = state.length - 257
    assert torch.equal(cache.lengths, state.length - 1)
    assert (int(gained.min()), int(gained.max())) == (3, 14), "of 3 to 15"
    assert state.histogram.sum(0).gt(0).all(), "each count is accepted as often"
    kernel.restore()
    assert state.length.tolist() == [257] * 40
    assert cache.lengths.tolist() == [256] * 40


class SimulatedTime:
    """Time that passes only where something takes it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.clock = Clock(lambda: round(self.now_s * 1e9))
        self.buffers: list[int] = []

    def work(self, seconds: float) -> Any:
        """A call, on a buffer or none, that takes so long."""

        def call(*buffer: int) -> None:
            self.now_s += seconds
            self.buffers.extend(buffer)

        return call


@pytest.mark.parametrize(("spacer_s", "own_s"), [(None, 1e-3), (2e-4, 1e-3), (1.0, 0.01001)])
def test_a_stretch_is_timed_less_what_lies_between(plan, spacer_s, own_s) -> None:
    """Calls of 1 ms: one, one more, then stretches of 4; a spacer as slow as all leaves a hundredth."""
    simulated = SimulatedTime()
    spacer = None if spacer_s is None else simulated.work(spacer_s)
    kernel = kernels.Kernel(simulated.work(1e-3), 3, 77.0, spacer, restore=simulated.work(5.0))
    maker = SimpleNamespace(plan=plan, make=lambda job: kernel)
    slowest_of_two_ranks = SimpleNamespace(of_all=lambda mine: [mine, mine / 2])
    row = run.time_job(maker, Job("gemm", {}), simulated.clock, CPU, slowest_of_two_ranks, samples=2)
    calls = 4 if own_s == 1e-3 else 1
    assert row.pop("samples")["call_s"] == pytest.approx([own_s] * 2)
    assert row == {
        "kind": "gemm",
        "at": {},
        "status": "ok",
        "calls": calls,
        "captured": False,
        "working_set_bytes": 77.0,
    }
    assert simulated.buffers == [0, 1, *(i % 3 for i in range(2 * calls))]


def test_a_kernel_that_failed_on_another_rank_is_not_timed(plan) -> None:
    """Its first call is the only one: the other rank would not join a further collective."""
    simulated = SimulatedTime()
    kernel = kernels.Kernel(simulated.work(1e-3), 3, 77.0)
    maker = SimpleNamespace(plan=plan, make=lambda job: kernel)
    beside_a_failure = SimpleNamespace(of_all=lambda mine: [mine, False])
    row = run.time_job(maker, Job("allreduce", {"bytes": 8}), simulated.clock, CPU, beside_a_failure)
    assert row == {
        "kind": "allreduce",
        "at": {"bytes": 8},
        "status": "failed",
        "error": "RuntimeError: failed on another rank",
    }
    assert simulated.buffers == [0]


def test_a_rank_whose_own_kernel_fails_states_its_error(plan) -> None:
    def make(job: Job) -> kernels.Kernel:
        raise ValueError("no such shape")

    maker = SimpleNamespace(plan=plan, make=make)
    both_fail = SimpleNamespace(of_all=lambda mine: [mine, False])
    row = run.time_job(maker, Job("gemm", {}), SimulatedTime().clock, CPU, both_fail)
    assert row["error"] == "ValueError: no such shape"


@pytest.mark.parametrize(
    ("call_s", "other_is_short", "buffers"),
    [(0.2, True, [0, 1, 0, 1]), (0.3, True, [0, 0, 1]), (0.2, False, [0, 0, 1])],
)
def test_a_long_kernel_is_warmed_up_once(plan, call_s, other_is_short, buffers) -> None:
    """Two samples of one call. If the kernel is long on one of the ranks, no rank calls it again."""
    simulated = SimulatedTime()
    kernel = kernels.Kernel(simulated.work(call_s), 3, 77.0)
    maker = SimpleNamespace(plan=plan, make=lambda job: kernel)
    answers = iter([True, other_is_short, 1])
    two_ranks = SimpleNamespace(of_all=lambda mine: [mine, next(answers)])
    row = run.time_job(maker, Job("gemm", {}), simulated.clock, CPU, two_ranks, samples=2)
    assert row["calls"] == 1
    assert simulated.buffers == buffers


CALLED = {"copy", "read", "allreduce", "loop"}
REPLAYED = {"gemm", "attention", "add_norm", "rope", "activation", "sampling", "search", "bare"}


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("kind", sorted(CALLED | REPLAYED | {"shell"}))
def test_which_kernels_are_replayed_on_a_gpu(tmp_path, monkeypatch, kind, graphs) -> None:
    """A nearly empty pass is replayed where passes are. Every replay has the same buffers and no spacer."""
    simulated = SimulatedTime()
    monkeypatch.setattr(run, "synchronize", lambda device: None)
    monkeypatch.setattr(run, "captured", lambda series: series)
    kernel = kernels.Kernel(simulated.work(1e-3), 3, 77.0, spacer=simulated.work(2e-4))
    maker = SimpleNamespace(plan=planned(tmp_path, protocol={"graphs": graphs}), make=lambda job: kernel)
    row = run.time_job(maker, Job(kind, {}), simulated.clock, torch.device("cuda"), RankShard(), samples=2)
    is_replayed = kind in REPLAYED or (kind == "shell" and graphs)
    assert row["captured"] is is_replayed
    assert row["samples"]["call_s"] == pytest.approx([1e-3] * 2)
    series = [0, 1, 2, 0, 0, 1, 2, 0] if is_replayed else [0, 1, 2, 0, 1, 2, 0, 1]
    assert simulated.buffers == [0, 1, *series]


def test_every_sweep_has_keys_of_its_own() -> None:
    """All jobs of one sweep come before those of the next. The first sweep's keys are those of the jobs."""
    copy = Job("copy", {"bytes": 8})
    read = Job("read", {"bytes": 8})
    keys = [key for key, _ in run.swept([copy, read], 3)]
    assert keys == [f"{job.key}{sweep}" for sweep in ("", "/1", "/2") for job in (copy, read)]
    assert [job for _, job in run.swept([copy, read], 2)] == [copy, read, copy, read]
