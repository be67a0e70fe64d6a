"""Lists the kernels to time for a plan. They are matrix products of every shape for several numbers of rows,
attention for several cache sizes and numbers of queries, and nearly empty passes.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

from perfmodel import costs
from perfmodel.kv import parse_kv
from perfmodel.kv.quest import Quest
from perfmodel.specs import ModelSpec
from perfmodel.validate.records import Plan, spec_of

COPY_BYTES = (2**20, 2**23, 2**25, 2**27, 2**29, 2**31)
"""Sizes of copied and read data. The plan has an upper limit for them."""
MESSAGE_BYTES = (2**12, 2**14, 2**16, 2**18, 2**20, 2**23, 2**26)
"""Sizes of the messages of all-reduces."""
SMALL = ("add_norm", "rope", "activation")
"""Kinds of element-wise kernels."""
SMALL_TOKENS = (1, 4, 16, 64, 256, 1024)
"""Numbers of tokens of element-wise kernels."""
SMALL_CACHES = (64, 512)
"""Contexts of attention over nearly empty caches, in addition to those of the plan."""
SHELL_HIDDEN = 64
"""Hidden size of a nearly empty model."""
BARE = ("linears", "attention")
"""Parts of a nearly empty layer that are timed alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel at one size.

    - kind: the name of the kernel.
    - at: the sizes of the kernel.
    """

    kind: str
    at: dict[str, Any]

    @property
    def key(self) -> str:
        """The key of its row in a record."""
        sizes = ",".join(f"{name}={value}" for name, value in self.at.items())
        return f"{self.kind}/{sizes}"


def jobs(plan: Plan) -> list[Job]:
    """All jobs of a plan, without duplicates. The many attention jobs come last, so an interrupted run
    already has the other kinds.
    """
    return list({job.key: job for job in _jobs(plan)}.values())


def _jobs(plan: Plan) -> list[Job]:
    """All jobs of a plan. Models with equal shapes have the same jobs."""
    names = {name for block in plan.grid for name in (block.target, block.draft)}
    specs = [spec_of(name) for name in sorted(names - {"self"})]
    planned = []
    for size in COPY_BYTES:
        if size <= plan.micro.max_bytes:
            planned += [Job("copy", {"bytes": size}), Job("read", {"bytes": size})]
    for spec in specs:
        planned += _small(plan, spec) + _host(plan, spec)
    for spec in specs:
        for n, k in linear_shapes(spec, plan.tensor_parallel):
            planned += [Job("gemm", {"n": n, "k": k, "m": m}) for m in plan.micro.rows]
        planned += _search(plan, spec) + _attention(plan, spec)
    if plan.tensor_parallel > 1:
        planned += [Job("allreduce", {"bytes": size}) for size in MESSAGE_BYTES]
    return planned


def linear_shapes(spec: ModelSpec, devices: int = 1) -> list[tuple[int, int]]:
    """The (outputs, inputs) of every dense projection on one device, including the LM head.

    - devices: the tensor-parallel degree.
    """
    heads, kv_heads, head_dim = heads_of(spec, devices).values()
    hidden = spec.hidden_size
    inner = spec.intermediate_size // devices
    width = heads * head_dim
    return [
        (width + 2 * kv_heads * head_dim, hidden),
        (hidden, width),
        (2 * inner, hidden),
        (hidden, inner),
        (spec.vocab_size // devices, hidden),
    ]


def heads_of(spec: ModelSpec, devices: int) -> dict[str, Any]:
    """Query heads and KV heads on one device, and the head size.

    - devices: the tensor-parallel degree.
    """
    kv = max(1, spec.num_key_value_heads // devices)
    return {"heads": spec.num_attention_heads // devices, "kv_heads": kv, "head_dim": spec.head_dim}


def _attention(plan: Plan, spec: ModelSpec) -> list[Job]:
    """Attention at the batches, contexts and query lengths of all points with a model."""
    points = [p for p in plan.points() if spec.name in (p.target, p.draft)]
    batches = sorted({p.batch for p in points})
    contexts = sorted({*SMALL_CACHES, *(p.context for p in points)})
    queries = sorted({1, *(n for p in points for n in p.queries)})
    heads = heads_of(spec, plan.tensor_parallel)
    jobs = []
    for batch, context in product(batches, contexts):
        timed = queries[:1] if context in SMALL_CACHES else queries
        for query in timed:
            jobs.append(Job("attention", {**heads, "batch": batch, "context": context, "query": query}))
    return jobs


def _search(plan: Plan, spec: ModelSpec) -> list[Job]:
    """The searches for the best pages of a cache, for self-drafts of a model that choose pages."""
    searches = []
    kv_heads = heads_of(spec, plan.tensor_parallel)["kv_heads"]
    for point in plan.points():
        kv = parse_kv(point.draft_kv)
        if isinstance(kv, Quest) and spec.name == point.target and kv.budget < point.context:
            pages = -(-point.context // kv.page)
            sizes = {"kv_heads": kv_heads, "batch": point.batch, "units": pages}
            searches.append(Job("search", {**sizes, "count": kv.budget // kv.page}))
    return searches


def _small(plan: Plan, spec: ModelSpec) -> list[Job]:
    """The element-wise kernels of a model, and the sampling of its tokens."""
    widths = {
        **heads_of(spec, plan.tensor_parallel),
        "hidden": spec.hidden_size,
        "inner": spec.intermediate_size // plan.tensor_parallel,
    }
    small = [Job(kind, {**widths, "tokens": tokens}) for tokens in SMALL_TOKENS for kind in SMALL]
    for batch in (1, 4, 16):
        small.append(Job("sampling", {"vocab": spec.vocab_size, "batch": batch}))
    return small


def _host(plan: Plan, spec: ModelSpec) -> list[Job]:
    """Nearly empty passes (``shell``), the linear ops or the attention of one such layer (``bare``), and
    iterations without passes (``loop``).
    """
    smallest = {min(block.batch) for block in plan.grid}
    largest = {max(block.batch) for block in plan.grid}
    batches = sorted(smallest | largest)
    loads = [{"batch": batch, "query": query} for batch in batches for query in (1, 4)]
    host = []
    for layers in sorted({1, spec.num_hidden_layers}):
        host += [Job("shell", {"layers": layers, **load}) for load in loads]
    for what in BARE:
        host += [Job("bare", {"what": what, **load}) for load in loads]
    blocks = [block for block in plan.grid if spec.name in (block.target, block.draft)]
    sizes = {
        **heads_of(spec, 1),
        "layers": spec.num_hidden_layers,
        "vocab": spec.vocab_size,
        "draft_kv": blocks[0].draft_kv[0],
    }
    for batch in batches:
        host += [Job("loop", {**sizes, "batch": batch, "gamma": gamma}) for gamma in (1, 4)]
    return host


def small_bytes(kind: str, at: dict[str, Any], activation_bytes: float) -> float:
    """Bytes that an element-wise kernel moves per token, as predictions count them (`perfmodel.costs`).

    A pass adds the residual and computes the norm in one step, ``add_norm``. Earlier records timed them
    separately.
    """
    kv_values = 2 * at["kv_heads"] * at["head_dim"]
    values = {
        "norm": 2 * at["hidden"],
        "rope": 2 * (at["heads"] * at["head_dim"] + kv_values),
        "activation": 3 * at["inner"],
        "residual": 3 * at["hidden"],
        "add_norm": 5 * at["hidden"],
    }
    return values[kind] * activation_bytes


def shell_spec(layers: int, like: dict[str, Any] | None = None, vocab: int = 256) -> ModelSpec:
    """A model with `layers` nearly empty layers.

    - like: the heads of a real model; by default small ones.
    """
    heads = like or {"heads": 4, "kv_heads": 2, "head_dim": 16}
    return ModelSpec(
        name=f"shell-{layers}",
        title="Next to no work",
        model_type="llama",
        num_hidden_layers=layers,
        hidden_size=SHELL_HIDDEN,
        num_attention_heads=heads["heads"],
        num_key_value_heads=heads["kv_heads"],
        head_dim=heads["head_dim"],
        intermediate_size=SHELL_HIDDEN,
        vocab_size=vocab,
        max_position_embeddings=131072,
        tie_word_embeddings=True,
        source="made up for measuring the host",
    )


def shell_smalls(layers: int, plan: Plan) -> float:
    """Number of element-wise kernels in a pass of a nearly empty model, as predictions count them."""
    shard = costs.shard(shell_spec(layers), costs.Degrees(1), plan.precisions())
    return float(sum(op.kernels for op in shard.smalls))
