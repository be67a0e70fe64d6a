"""Prepares the kernel of a job: a function that can be called repeatedly, and the size of its data.

The inputs are random, never zeros. Successive calls use different buffers, which together exceed the caches,
as the tensors of a pass do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from perfmodel.specs import ModelSpec
from perfmodel.validate.decoder import (
    CacheSpan,
    Decoder,
    KVCache,
    Layer,
    Model,
    Projected,
    RandomWeights,
    RankShard,
    Request,
    backends,
    build,
    captured,
    graphs,
    make_decoder,
    start_random,
)
from perfmodel.validate.decoder.fp8 import FP8, product
from perfmodel.validate.decoder.rope import rotary
from perfmodel.validate.harness.micro.jobs import Job, heads_of, linear_shapes, shell_spec
from perfmodel.validate.harness.point_runner import DecoderRun, Snapshot
from perfmodel.validate.records import Plan

SPREAD_BYTES = 2**28
"""Total bytes of all buffers, unless one buffer is larger."""
MAX_BUFFERS = 512
"""Largest number of buffers."""
SHELL_CONTEXT = 64
"""Cached tokens of a nearly empty pass."""
SHELL_ROOM = 8
"""Tokens for which the cache of a nearly empty pass has room after its context."""
LOOP_ROOM = 4096
"""Tokens for which the cache of a decision loop has room."""
EPS = 1e-5
"""Epsilon of the norms. It does not affect their times."""
SPACER_VALUES = 1024
"""Number of values of the element-wise kernel between two large kernels."""


@dataclass
class Kernel:
    """A kernel that is ready to run.

    - call: `call(i)` runs it on buffer i, which is below `buffers`.
    - working_set_bytes: the total size of all buffers.
    - spacer: an element-wise kernel that runs before each call, as between two large kernels of a pass. Its
      own time is subtracted.
    - restore: called before each series of at most `max_calls` calls.
    """

    call: Callable[[int], Any]
    buffers: int
    working_set_bytes: float
    spacer: Callable[[], Any] | None = None
    restore: Callable[[], None] | None = None
    max_calls: int = 2000


class DecisionLoop:
    """A loop that accepts and commits drafted tokens, without passes of a model.

    - logits: the scores of all queries, [batch, gamma + 1, vocabulary].
    - graph: whether iterations are replayed as a CUDA graph.
    """

    def __init__(self, model: Model, request: Request, logits: torch.Tensor, graph: bool = False) -> None:
        decoder: Decoder = make_decoder(model, request)
        state = start_random(decoder, request.context, request.new_tokens)
        drafted = torch.ones((request.batch, request.gamma), dtype=torch.int64, device=model.device)
        self.request = request
        self.decoder = decoder
        self.state = state
        self._snapshot = Snapshot(DecoderRun(decoder, state))

        def iteration() -> None:
            decoder.commit(state, drafted, decoder.accept(state, drafted, None, logits))

        self._iteration: Callable[[], object] = iteration
        if graph:
            graphs.fix_bounds(decoder)
            iteration()
            self._iteration = captured(iteration, state.generator)

    def run(self, _: int) -> None:
        """One iteration."""
        self._iteration()
        self.decoder.refresh()

    def kernel(self) -> Kernel:
        """The loop as a `Kernel`. The room of the cache limits the calls of a series."""
        tokens_per_call = self.request.gamma + 1
        max_calls = (self.request.new_tokens - 1) // tokens_per_call
        return Kernel(self.run, 1, 0.0, restore=self._snapshot.restore, max_calls=max_calls)


class KernelMaker:
    """Makes kernels for one device and type. Small steps run as in passes of the decoder (fused on CUDA).
    Matrices and caches are fp8 if those of the plan are.

    With fp8, the LM head is fp8 too, although models keep it in `dtype`, because one efficiency is fitted to
    all matrices.

    - spread_bytes, max_buffers: see `rotating`.
    """

    def __init__(
        self,
        plan: Plan,
        device: torch.device,
        dtype: torch.dtype,
        spread_bytes: int = SPREAD_BYTES,
        max_buffers: int = MAX_BUFFERS,
    ) -> None:
        self.plan = plan
        self.spread_bytes = spread_bytes
        self.max_buffers = max_buffers
        self.device = device
        self.dtype = dtype
        self.fp8 = plan.precision.weights == "fp8"
        self.kv_dtype = "fp8" if plan.precision.kv == "fp8" else "auto"
        self.pointwise = backends.pointwise("auto", device, dtype, self.kv_dtype == "fp8")
        self.stored = FP8 if self.fp8 else dtype
        self.cached = FP8 if self.kv_dtype == "fp8" else dtype
        self.generator = torch.Generator(device).manual_seed(plan.protocol.seed)
        self._kept: tuple[object, list[Any]] = (None, [])

    def make(self, job: Job) -> Kernel:
        """Makes the kernel of a job. The kind of the job is the name of the method that makes it."""
        return getattr(self, f"_{job.kind}")(**job.at)

    def _spacer(self) -> Callable[[], Any] | None:
        """The spacer of a CPU, whose threads drift apart in the element-wise work between two large kernels;
        None on a GPU.
        """
        if self.device.type != "cpu":
            return None
        x = self._random(1, SPACER_VALUES)
        return lambda: F.rms_norm(x, (SPACER_VALUES,))

    def _random(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        drawn_in = self.dtype if dtype in (None, FP8) else dtype
        drawn = torch.empty(shape, device=self.device, dtype=drawn_in).normal_(generator=self.generator)
        return drawn.to(dtype or drawn_in)

    def rotating(self, dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[tuple[torch.Tensor, ...]]:
        """Buffers with random tensors of these shapes. Each buffer has its own memory. The next call with the
        same shapes returns the same buffers.

        In total they have at least `spread_bytes`, unless `max_buffers` limits their number.
        """
        if self._kept[0] != (dtype, shapes):
            self._kept = (None, [])  # freed before the next buffers are made
            first = tuple(self._random(*shape, dtype=dtype) for shape in shapes)
            buffer_bytes = sum(tensor.nbytes for tensor in first)
            count = min(self.max_buffers, math.ceil(self.spread_bytes / buffer_bytes))
            copies = [tuple(tensor.clone() for tensor in first) for _ in range(count - 1)]
            self._kept = ((dtype, shapes), [first, *copies])
        return self._kept[1]

    def _copy(self, bytes: int) -> Kernel:
        source, sink = (self._random(bytes // 8, dtype=torch.float32) for _ in "rw")
        return Kernel(lambda i: sink.copy_(source), 1, source.nbytes + sink.nbytes)

    def _read(self, bytes: int) -> Kernel:
        source = self._random(bytes // 4, dtype=torch.float32)
        return Kernel(lambda i: source.sum(), 1, source.nbytes)

    def _gemm(self, n: int, k: int, m: int) -> Kernel:
        size = n * k * self.stored.itemsize
        weights = self.rotating(self.stored, (n, k))
        x = self._random(m, k)
        linear = self._linear(n)
        return Kernel(lambda i: linear(x, weights[i][0]), len(weights), size * len(weights), self._spacer())

    def _linear(self, n: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """The function that multiplies activations by a matrix of n rows, as in a model."""
        if not self.fp8:
            return F.linear
        scale = torch.ones(n, device=self.device)
        return lambda x, codes: product(x, codes, scale)

    def _attention(
        self, heads: int, kv_heads: int, head_dim: int, batch: int, context: int, query: int
    ) -> Kernel:
        attend = backends.choose(self.plan.attention, self.device, self.dtype, self.cached == FP8)
        shape = (batch, kv_heads, context, head_dim)
        size = 2 * math.prod(shape) * self.cached.itemsize
        caches = self.rotating(self.cached, shape, shape)
        q = self._random(batch, heads, query, head_dim)
        k, v = (self._random(batch, kv_heads, query, head_dim) for _ in "kv")
        span = CacheSpan(torch.full((batch,), context, dtype=torch.int64, device=self.device), context)

        def call(i: int) -> torch.Tensor:
            return attend(q, caches[i][0], caches[i][1], span, k, v)

        count = len(caches)
        return Kernel(call, count, size * count, self._spacer())

    def _add_norm(self, hidden: int, tokens: int, **_: int) -> Kernel:
        x = self._random(1, tokens, hidden)
        residual = self._random(1, tokens, hidden)
        weight = self._random(hidden)
        add_norm = self.pointwise.add_norm
        return Kernel(lambda i: add_norm(x, residual, weight, EPS), 1, 2 * x.nbytes)

    def _rope(self, heads: int, kv_heads: int, head_dim: int, tokens: int, **_: int) -> Kernel:
        """The kernel that rotates queries and keys and fills the cache, as in a pass."""
        spec = shell_spec(1, {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim})
        with torch.device("meta"):
            layer = Layer(spec, RankShard(), 0)
        qkv = self._random(1, tokens, (heads + 2 * kv_heads) * head_dim)
        positions = torch.arange(tokens, device=self.device)[None]
        turns = rotary(spec, self.device, tokens).turns(positions, self.dtype)
        slots = KVCache((1, 1, kv_heads, tokens, head_dim), self.device, self.cached).at(0, positions)
        given = Projected(layer, qkv, turns, self.pointwise)
        return Kernel(lambda i: given.rotate(slots=slots), 1, qkv.nbytes)

    def _activation(self, inner: int, tokens: int, **_: int) -> Kernel:
        both = self._random(1, tokens, 2 * inner)
        silu_mul = self.pointwise.silu_mul
        return Kernel(lambda i: silu_mul(both), 1, both.nbytes)

    def _sampling(self, vocab: int, batch: int) -> Kernel:
        logits = self._random(batch, vocab)
        return Kernel(lambda i: logits.argmax(1), 1, logits.nbytes)

    def _search(self, kv_heads: int, batch: int, units: int, count: int) -> Kernel:
        """The kernel that finds the best pages, over random scores."""
        attention = backends.choose(self.plan.attention, self.device, self.dtype, self.cached == FP8)
        selection = backends.selection(attention)
        score = self._random(batch, kv_heads, units, dtype=torch.float32)
        return Kernel(lambda i: selection.search(score, count), 1, score.nbytes)

    def _bare(self, what: str, batch: int, query: int) -> Kernel:
        """The kernel of the linear ops or the attention of one layer of a nearly empty model."""
        spec = shell_spec(1)
        if what == "attention":
            heads = heads_of(spec, 1)
            attention = self._attention(**heads, batch=batch, context=SHELL_CONTEXT, query=query)
            return replace(attention, spacer=None)
        *layer, _ = linear_shapes(spec)
        products: list[Callable[[], torch.Tensor]] = []
        for n, k in layer:
            x = self._random(batch * query, k)
            weight = self._random(n, k, dtype=self.stored)
            products.append(partial(self._linear(n), x, weight))
        return Kernel(lambda i: [run() for run in products], 1, 0.0)

    def _model(self, spec: ModelSpec) -> Model:
        return build(spec, RandomWeights(self.plan.protocol.seed, self.device, self.dtype), fp8=self.fp8)

    def _shell(self, layers: int, batch: int, query: int) -> Kernel:
        model = self._model(shell_spec(layers))
        request = Request(
            batch,
            SHELL_CONTEXT,
            SHELL_ROOM,
            attention=self.plan.attention,
            kv_dtype=self.kv_dtype,
        )
        decoder = make_decoder(model, request)
        start_random(decoder, SHELL_CONTEXT, SHELL_ROOM)
        tokens = torch.ones((batch, query), dtype=torch.int64, device=self.device)
        return Kernel(lambda i: model.logits(decoder.target.extend(tokens)), 1, 0.0)

    def _loop(self, layers: int, vocab: int, draft_kv: str, batch: int, gamma: int, **heads: int) -> Kernel:
        """The kernel that accepts and commits tokens, without passes of a model."""
        request = Request(
            batch,
            context=4 * SHELL_CONTEXT,
            new_tokens=LOOP_ROOM,
            gamma=gamma,
            draft_kv=draft_kv,
            script=(1.0,) * (gamma + 1),
            attention=self.plan.attention,
            kv_dtype=self.kv_dtype,
        )
        model = self._model(shell_spec(layers, heads, vocab))
        logits = self._random(batch, gamma + 1, vocab)
        graph = self.device.type == "cuda" and self.plan.protocol.graphs
        return DecisionLoop(model, request, logits, graph).kernel()

    def _allreduce(self, bytes: int) -> Kernel:
        message = self._random(bytes // self.dtype.itemsize)
        return Kernel(lambda i: dist.all_reduce(message), 1, bytes)
