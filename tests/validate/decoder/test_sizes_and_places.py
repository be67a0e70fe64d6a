"""What output cannot show: how long caches and masks are, what is looked at, which implementation and
device.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from perfmodel.errors import InputError
from perfmodel.validate.decoder import (
    CacheSpan,
    KVCache,
    ModelPair,
    RandomWeights,
    RankShard,
    Request,
    backends,
    load,
    memory,
    shard,
)
from perfmodel.validate.decoder.attention import causal_bias, partial_sdpa
from perfmodel.validate.decoder.heads import load_head
from perfmodel.validate.decoder.kv import every_method, names
from perfmodel.validate.decoder.pieces import Piece
from perfmodel.validate.decoder.request import check_prompts
from perfmodel.validate.decoder.tuning import VARIABLE, Tuning, of_rows, tunings
from perfmodel.validate.harness import environment
from perfmodel.validate.lm import CHECKPOINT
from tests.refusals import refused
from tests.validate.tiny_model import tiny_spec

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def test_the_bounds_of_a_cache() -> None:
    cache = KVCache((1, 2, 1, 65, 4), CPU, torch.float32)

    def bounds() -> tuple[int, int, bool]:
        return cache.bound, cache.floor, cache.exact

    assert bounds() == (0, 0, True)
    cache.set_lengths(torch.tensor([20, 20]), 20, exact=True)
    assert bounds() == (20, 20, True)
    cache.advance(torch.tensor([3, 1]), 5)
    assert bounds() == (25, 20, False)
    cache.tighten()
    assert bounds() == (23, 21, False)
    cache.set_lengths(torch.tensor([10, 12]), 12)
    assert bounds() == (12, 0, False)
    cache.advance(torch.tensor([1, 1]), 200)
    assert bounds() == (128, 0, False), "its capacity"
    cache.fixed = True
    cache.set_lengths(torch.tensor([7, 7]), 7, exact=True)
    assert bounds() == (128, 0, False)
    cache.advance(torch.tensor([1, 1]), 1)
    assert bounds() == (128, 0, False)
    cache.tighten()
    assert bounds() == (128, 0, False)
    first = torch.zeros(2, 1, dtype=torch.int64)
    cache.floor = 21
    starts = [cache.span(first, window).start for window in (None, 5, 21, 22, 23)]
    assert starts == [0, 17, 1, 0, 0]
    positions = cache.positions(torch.tensor([3, 9]), 3)
    assert positions.tolist() == [[3, 4, 5], [9, 10, 11]]


class FusedAttention(TorchDispatchMode):
    """The fused kernel of CUDA, for its arguments alone: its log-sum-exp has rows of 32 queries."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket is torch.ops.aten._scaled_dot_product_efficient_attention:
            self.calls.append(args)
            return args[0], torch.zeros(3, 2, 32, device="meta"), None, None
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("slots", [33, 48])
def test_what_the_fused_kernel_of_cuda_is_given(slots) -> None:
    """A mask whose rows begin at multiples of 16 elements; seen without a device."""
    q = torch.zeros(3, 2, 5, 16, device="meta")
    k = torch.zeros(3, 2, slots, 16, device="meta")
    with FusedAttention() as kernel:
        mask = torch.zeros(3, 1, 1, slots, device="meta")
        _, lse = partial_sdpa(q, k, k, mask)
        partial_sdpa(q, k, k, None)
    masked, unmasked = kernel.calls
    bias = masked[3]
    assert bias.shape == (3, 2, 5, slots)
    assert bias.stride(0) == 48
    assert lse.shape == (3, 2, 5)
    assert unmasked[3:] == (None, True)


@pytest.mark.parametrize(
    ("programs", "bound", "parts"),
    [
        (64, 32_768, 6),  # 6 x 64 programs have room at once, 7 x 64 have not
        (8, 32_768, 32),  # of 49 that have room, as many as the tuning allows
        (8, 1024, 4),  # four tiles of 64 tokens each
        (8, 100, 1),
        (1000, 32_768, 1),
    ],
)
def test_the_parts_of_a_cache_fill_the_device_once(programs: int, bound: int, parts: int) -> None:
    """132 multiprocessors with room for three programs each."""
    tuning = Tuning(block=64, programs_per_processor=3, max_splits=32)
    assert tuning.parts(programs, bound, processors=132) == parts


def test_tunings_by_rows_are_read_from_a_file(monkeypatch, tmp_path) -> None:
    """As a sweep wrote it; a record holds them, and anything else is refused with the file's name."""
    assert tunings() == {16: Tuning(), 32: Tuning(programs_per_processor=2)}
    path = tmp_path / "tuning.json"
    monkeypatch.setenv(VARIABLE, str(path))
    path.write_text('{"32": {"block": 32, "stages": 4}, "16": {"warps": 8}}')
    tuned = tunings()
    assert tuned == {16: Tuning(warps=8), 32: Tuning(block=32, stages=4)}
    warps = [of_rows(tuned, rows).warps for rows in (1, 16, 17, 99)]
    assert warps == [8, 8, 4, 4]
    assert environment.capture(CPU)["attention_tuning"]["16"]["warps"] == 8
    for bad, says in {
        "[]": "must hold a mapping",
        "{}": "rows: must be a mapping of length >= 1",
        '{"16": {"tile": 1}}': "rows.16.tile: must not be given",
        '{"x": {}}': "rows.x: must be a whole number",
        '{"16": {"warps": true}}': "rows.16.warps: must be a whole number",
        '{"16": {"warps": 0}}': "rows.16.warps: must be a whole number >= 1",
    }.items():
        path.write_text(bad)
        refused(f"{path}: .*{says}", tunings)


def test_a_spans_mask() -> None:
    """Half of the least number, which stays finite in a kernel that multiplies by log2(e)."""
    lengths = torch.tensor([4, 2])
    low = 0.5 * torch.finfo(torch.float32).min
    assert CacheSpan(lengths, 4, exact=True).bias(2, torch.float32) is None
    plain = CacheSpan(lengths, 4).bias(2, torch.float32)
    assert plain.tolist() == [[[[0, 0, 0, 0]]], [[[0, 0, low, low]]]]
    first = torch.tensor([[2, 3], [1, 2]])
    slid = CacheSpan(lengths, 4, exact=True, first=first, start=1).bias(2, torch.float32)
    later, full = (slid == 0).tolist()
    assert later == [[[False, True, True], [False, False, True]] * 2]
    assert full == [[[True, False, False], [False, False, False]] * 2]
    for mask in (plain.bfloat16(), causal_bias(2, 2, 1, torch.float32, CPU)):
        assert (mask.float() * math.log2(math.e)).isfinite().all()


@pytest.mark.parametrize(
    ("device", "dtype", "attention", "pointwise"),
    [
        (CPU, torch.float32, "sdpa", "torch"),
        (CPU, torch.bfloat16, "sdpa", "torch"),
        (CPU, torch.float64, "math", "torch"),
        (CUDA, torch.float64, "math", "torch"),
        (CUDA, torch.float32, "sdpa", "triton"),
        (CUDA, torch.bfloat16, "triton", "triton"),
    ],
)
def test_the_fastest_implementation(monkeypatch, device, dtype, attention, pointwise) -> None:
    pytest.importorskip("triton")
    assert backends.choose("auto", device, dtype).name == attention
    assert backends.pointwise("auto", device, dtype).name == pointwise
    assert backends.pointwise("torch", device, dtype).name == "torch"
    monkeypatch.setitem(sys.modules, "triton", None)
    assert backends.choose("auto", device, dtype).name == attention.replace("triton", "sdpa")
    for choice in (backends.choose, backends.pointwise):
        refused("triton needs the package triton, a CUDA device", choice, "triton", device, dtype)


@pytest.mark.parametrize(
    ("cuda", "device", "expected"),
    [
        (False, "auto", "cpu"),
        (False, "cpu", "cpu"),
        (True, "auto", "cuda:3"),
        (True, "cuda", "cuda:3"),
        (True, "cpu", "cpu"),
        (False, "cuda", None),
    ],
)
def test_the_place_of_a_pair(monkeypatch, cuda, device, expected) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setenv("LOCAL_RANK", "3")
    pair = ModelPair("tinyllama-1.1b", device=device)
    assert pair.tp == 1
    refusal = pytest.raises(InputError, match="--device: must be auto or cpu where")
    with nullcontext() if expected else refusal:
        assert str(pair.place()) == expected
        assert pair.precision() == ("bf16" if cuda and device != "cpu" else "fp32")


@pytest.mark.parametrize(
    ("target", "chosen", "threads"),
    [(CHECKPOINT, None, 1), (CHECKPOINT, 3, 3), ("llama-68m", None, None), ("llama-68m", 2, 2)],
)
def test_a_small_target_has_one_thread_unless_asked(threads_before, target, chosen, threads) -> None:
    ModelPair(str(target)).set_threads(chosen)
    assert torch.get_num_threads() == (threads or threads_before)


@pytest.fixture
def threads_before() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    yield 5
    torch.set_num_threads(before)


def test_free_memory_of_a_host(tmp_path) -> None:
    """What is available without swapping, else the free pages."""
    meminfo = tmp_path / "meminfo"
    assert memory.free_host_bytes(meminfo) > 0, "of a system without the file"
    meminfo.write_text("MemTotal: 99 kB\n")
    assert memory.free_host_bytes(meminfo) > 99_000
    meminfo.write_text("MemTotal: 99 kB\nMemAvailable: 5000000 kB\n")
    assert memory.free_host_bytes(meminfo) == 5_120_000_000


def test_what_does_not_fit_is_refused_before_it_is_allocated() -> None:
    memory.check_fits("it", 1, CPU)
    says = r"^it: must fit in the \d+\.\d GB free on cpu, needs 100000000000\.0 GB: sleep$"
    refused(says, memory.check_fits, "it", 1e20, CPU, "sleep")
    memory.check_fits("it", 1e20, CUDA)
    tensor = memory.allocate("it", (3, 5), CPU, torch.float16)
    assert tensor.tolist() == [[0.0] * 5] * 3
    refused(r"needs 8000000\.0 GB", memory.allocate, "it", (10**6, 10**6, 2000), CPU, torch.float32)


def test_what_a_request_says_of_itself() -> None:
    chain = Request(1, 8, 8, 3, "ngram:2")
    tree = Request(1, 8, 8, 2, tree=(-1, 0, 0, 1, 1))
    assert [request.queries for request in (chain, tree)] == [4, 5]
    assert [request.cache_name for request in (chain, tree)] == ["ngram:2", "full"]
    assert tree.plain() == Request(1, 8, 8)
    assert Request(1, 8, 8, 1, script=(0.0, 1.0)).plain().script == (1.0,)


def test_prompts_up_to_the_last_token() -> None:
    spec = tiny_spec(max_position_embeddings=100)
    check_prompts([[0] * 90, [60]], 10, spec, 2, 100)
    check_prompts([[1] * 40], 1, spec, 1, 41)
    for length, room, says in (
        (91, 200, "90 tokens, .* the 100 positions of tiny"),
        (81, 90, "80 tokens, .* caches"),
    ):
        says_all = f"must be at most {says}, given {length}"
        refused(says_all, check_prompts, [[1] * length], 10, spec, 1, room)


@pytest.mark.parametrize(
    ("context", "gamma", "budget"),
    [
        (4096, 4, 512),
        (100, 4, 64),
        (519, 4, 64),
        (520, 4, 65),
        (100, 9, 72),
    ],
)
def test_every_method_and_its_budget(context, gamma, budget) -> None:
    """An eighth of the context, 64 or eight times gamma at least; layers that slide run no published
    window.
    """
    unlike = ("full", "quantized", "retrieval")
    budgeted = [f"{name}:{budget}" for name in names() if name not in unlike]
    every = {"full", "quantized,bits=4", f"retrieval:{budget},every=8", *budgeted}
    assert {*every_method(context, gamma, own_prefill=False)} == every
    assert {*every_method(context, gamma)} == every | {f"streamingllm:{budget},own_prefill=true"}


@pytest.fixture
def fifth_of_six() -> Iterator[RankShard]:
    """Of ranks that are not there."""
    dist.init_process_group("fake", rank=4, world_size=6, store=FakeStore())
    yield RankShard(4, 6, dist.group.WORLD)
    dist.destroy_process_group()


@pytest.mark.parametrize(("size", "rank", "neighbours"), [(2, 0, [4, 5]), (3, 1, [3, 4, 5])])
def test_drafts_split_over_fewer_ranks(fifth_of_six, size, rank, neighbours) -> None:
    draft_shard = shard.for_draft(fifth_of_six, size)
    assert draft_shard.rank == rank
    assert draft_shard.size == size
    assert dist.get_process_group_ranks(draft_shard.group) == neighbours


def test_sizes_over_which_no_draft_is_split() -> None:
    whole = RankShard(4, 6, None)
    assert shard.for_draft(whole, 6) is whole
    for size in (0, 4, 12):
        refused(f"--draft-tp: must divide --tp 6, given {size}", shard.for_draft, whole, size)


def test_random_weights_and_heads(make_model) -> None:
    """0.02 wide, another name or seed is another matrix, norms are 1; a head drafts tokens at even
    distances.
    """
    deep = make_model(num_hidden_layers=8)
    head = load_head("eagle:features=3,vocab=20", "random:0", deep)
    assert head.to_target.tolist() == list(range(0, 60, 3))
    assert head.features.layers == (2, 4, 5)
    one, other = (RandomWeights(seed, CPU, torch.float32) for seed in (0, 1))
    first = one.read(Piece("a", (200, 100)))
    assert first.mean().item() == pytest.approx(0, abs=5e-4)
    assert first.std().item() == pytest.approx(0.02, rel=0.02)
    assert not torch.equal(first, other.read(Piece("a", (200, 100))))
    columns = one.read(Piece("a", (200, 100), 1, 3, 5))
    assert torch.equal(columns, first[:, 3:5])
    rows = one.read(Piece("a", (200, 100), 0, 3, 5))
    assert rows.untyped_storage().nbytes() == 2 * 100 * 4, "the rest is freed"
    assert one.read(Piece("norm", (3,))).tolist() == [1, 1, 1]
    says = r"needs 1623\.4 GB: take a smaller model or dtype"
    refused(says, load, "llama-3.1-405b", "random:0", CPU, torch.float64, RankShard(0, 2))
