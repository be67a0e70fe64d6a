"""Compares speculation with batching at one context. Speculation and batching both add query tokens to a pass
that spends most of its time on loading data.

Let W be the bytes of the weights, kappa the bytes of the KV cache per token, and S the context. One sequence
that verifies m tokens reads W + S kappa bytes and gains Omega tokens. m sequences that decode one token each
read W + m S kappa bytes and gain m tokens. In both cases, m tokens share the weights, but only with
speculation do they also share the cache. Speculation reads fewer bytes per token if the context is longer
than S with (docs/decisions.md)

    S kappa / W = (m - Omega) / (m (Omega - 1)).
"""

from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import SHARE, argument, asks, question
from perfmodel.answers.point.apart import Apart, check_apart, drafter_apart
from perfmodel.answers.question import NO_INTERVAL, Options, Query, arguments as arg, doubts, resolve
from perfmodel.answers.readers import MaybeReal, Whole, whole
from perfmodel.answers.text import devices, model_and_shape, tokens
from perfmodel.costs.sharding import check_tensor_parallel
from perfmodel.specs import load_gpu
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import Scenario, Workload, memory_of, predict

MAX_BATCH = 1024
"""Largest batch in the search for the most throughput."""
MOST_APART = 64
"""Largest number of devices of a separate draft model, and largest number of outcomes for which it drafts."""
OF_DRAFT = "the devices of the draft"
"""The reason why some arguments need `draft_hardware`."""


@question
class CompareQuery(Options):
    """A question that compares two passes over m = gamma + 1 tokens: one request verifies m tokens, or m
    requests decode one token each.
    """

    context: arg.Context
    gamma: arg.GivenGamma
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    draft_hardware: str | None = argument(
        "Run the draft model on its own devices, and compare this with replicas on the same total number of "
        "devices.",
        "NAME|PATH",
        shown="none",
        default=None,
        group="Draft",
    )
    draft_devices: Whole = argument(
        "Number of --draft-hardware devices.",
        "N",
        read=whole,
        limits=(1, MOST_APART),
        default=1,
        group="Draft",
        needs=("draft_hardware",),
        why=OF_DRAFT,
    )
    hit: MaybeReal = argument(
        "Measured probability that a draft computed during a verification is usable after the verification.",
        "P",
        limits=SHARE,
        shown="none: drafting and verification alternate",
        default=None,
        group="Draft",
        needs=("draft_hardware",),
        why=OF_DRAFT,
    )
    outcomes: Whole = argument(
        "Number of possible verification outcomes for which the draft computes tokens.",
        "N",
        read=whole,
        limits=(1, MOST_APART),
        default=1,
        group="Draft",
        needs=("hit",),
        why="the probability that one of them comes",
    )


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the target. Bytes and FLOPs are those of one device.

    - query: new tokens per sequence.
    - tokens: expected number of output tokens, over all sequences.
    """

    sequences: float
    query: float
    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    flops: float
    predicted_s: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Speculating(Pass):
    """A verification pass.

    - draft_s: time of the draft passes and of the overhead of the iteration, in seconds.
    """

    draft_s: float


@dataclass(frozen=True, slots=True)
class BothWays:
    """The comparison of two passes over m tokens. In `speculating`, one sequence verifies m tokens. In
    `batching`, m sequences decode one token each.

    - kv_ratio: KV bytes of the batching pass divided by those of the verification.
    - bytes_per_pass_ratio: the same ratio for weight and KV bytes together.
    - bytes_per_token_ratio: weight and KV bytes per output token, speculation divided by batching. If this
      ratio is below 1, speculation reads fewer bytes.
    - seconds_per_token_ratio: time per output token, speculation (with drafting) divided by batching.
    - crossover_context: the context at which both read the same number of weight and KV bytes per output
      token. The bytes that the draft reads are not counted. None means that batching reads fewer bytes at
      every context.
    """

    speculating: Speculating
    batching: Pass
    kv_ratio: float
    bytes_per_pass_ratio: float
    bytes_per_token_ratio: float
    seconds_per_token_ratio: float
    crossover_context: float | None


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Answer, BothWays):
    """The answer of `compare`, with the fields of `BothWays`.

    - shape: the bundled model whose shape the model has, or the name in the model's file.
    - apart: the comparison with a draft model on its own devices. None means that the question names no such
      devices.
    """

    query: Query
    shape: str
    apart: Apart | None
    warnings: tuple[str, ...]

    def headline(self) -> str:
        q = self.query
        return (
            f"per token gained, speculation moves {self.bytes_per_token_ratio:.2f} times as many bytes as "
            f"batching and takes {self.seconds_per_token_ratio:.2f} times as long; fewer bytes from context "
            f"{tokens(self.crossover_context)}; {model_and_shape(q.model, self.shape)} on "
            f"{devices(q.hardware, float(q.tp * q.pp))}"
        )


@asks(CompareQuery)
def compare(question: CompareQuery) -> Comparison:
    """Which is faster per token: one request that verifies gamma + 1 tokens, or gamma + 1 requests that
    decode one token each?

    With `draft_hardware`, the answer also compares two uses of additional devices: a draft model on its own
    devices, and more replicas.

    Raises InputError for wrong input.
    """
    query = question.query(batch=1)
    gamma = question.gamma
    context = float(query.context)
    scenario = resolve(query)
    comparison = both_ways(scenario, context, gamma + 1)
    many = memory_of(scenario, gamma + 1.0, context, 0, query.memory_fraction).single()
    elsewhere = None
    if question.draft_hardware is not None:
        check_apart(scenario.draft)
        devices = question.draft_devices
        load_gpu(question.draft_hardware, "--draft-hardware")
        for model in (scenario.target, scenario.draft.model):
            check_tensor_parallel(model, devices, "--draft-devices")
        far = replace(query, hardware=question.draft_hardware, tp=devices, draft_tp=devices, ep=1, dp=1)
        elsewhere = drafter_apart(
            scenario,
            resolve(replace(far, calibration=None)),
            context,
            gamma,
            query.memory_fraction,
            MAX_BATCH,
            question.hit,
            question.outcomes,
        )
    draft = scenario.draft
    asked = asked_name(query.model, scenario.target)
    figures = {f.name: getattr(comparison, f.name) for f in fields(comparison)}
    doubtful = doubts(query, scenario, 1.0, context, gamma, shown=NO_INTERVAL)
    return Comparison(
        query=replace(query, model=asked, draft=draft.name, draft_kv=draft.kv.label()),
        shape=scenario.target.name,
        **figures,
        apart=elsewhere,
        warnings=(*doubtful, *many.shortage(gamma + 1.0)),
    )


def both_ways(scenario: Scenario, context: float, m: int) -> BothWays:
    """Compares one request that verifies m = gamma + 1 tokens with m requests at the same context.

    Raises InputError for a gamma that the acceptance does not cover.
    """
    gained = float(np.ravel(scenario.tokens_per_iteration(m - 1))[0])
    p = predict(scenario, Workload.of(1, context, m - 1))
    verify = _pass(scenario, 1.0, context, float(m), gained)
    one = Speculating(**asdict(verify), draft_s=float(p.gamma * p.draft_s + p.overhead_s))
    many = _pass(scenario, float(m), context, 1.0, float(m))
    moved = one.weight_bytes + one.kv_bytes
    batched = many.weight_bytes + many.kv_bytes
    one_token_s = (one.predicted_s + one.draft_s) / one.tokens
    many_token_s = many.predicted_s / many.tokens
    cache = crossover_cache_bytes(one.weight_bytes, m, gained, many.weight_bytes)
    return BothWays(
        speculating=one,
        batching=many,
        kv_ratio=many.kv_bytes / one.kv_bytes,
        bytes_per_pass_ratio=batched / moved,
        bytes_per_token_ratio=moved / one.tokens / (batched / many.tokens),
        seconds_per_token_ratio=one_token_s / many_token_s,
        crossover_context=None if cache is None else scenario.target_shard.context_of(cache),
    )


def crossover_cache_bytes(weight_bytes: float, tokens: int, gained: float, batched: float) -> float | None:
    """The size of one sequence's cache, in bytes, above which speculation reads fewer bytes per token than
    batching. The formula is (m W - Omega W') / (m (Omega - 1)). The result is None if Omega <= 1, because
    batching then always reads fewer bytes.

    - weight_bytes: the bytes of weights that a verification reads (W).
    - tokens: m.
    - gained: the output tokens of an iteration (Omega).
    - batched: the bytes of weights that a batch of m sequences reads (W'). W' may differ from W, because
      tokens of one sequence more often choose the same experts.
    """
    if gained <= 1:
        return None
    return max(tokens * weight_bytes - gained * batched, 0.0) / (tokens * (gained - 1))


def _pass(scenario: Scenario, sequences: float, context: float, query: float, gained: float) -> Pass:
    """One pass of the target over `query` tokens of each sequence.

    - gained: the expected number of output tokens.
    """
    ops = scenario.target_ops(sequences, context, query)
    counted = ("weight_bytes", "kv_bytes", "activation_bytes", "flops")
    return Pass(
        sequences=sequences,
        query=query,
        **{name: float(sum(getattr(op.cost, name) for op in ops)) for name in counted},
        predicted_s=float(scenario.target_pass_s(sequences, context, query)),
        tokens=gained,
    )
