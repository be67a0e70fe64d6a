"""Two ways to put more query tokens into a pass that mostly loads: speculation and batching, in bytes and in time.

One sequence verifying m tokens reads W + S kappa and yields Omega tokens; m sequences decoding one token each read
W + m S kappa and yield m. Weights are shared either way, the cache is not: speculation shares it among the m tokens of
one sequence. On bytes per token it wins from  S kappa / W = (m - Omega) / (m (Omega - 1))  on (docs/decisions.md).
"""

from dataclasses import asdict, dataclass

import numpy as np

from perfmodel import costs
from perfmodel.errors import refuse
from perfmodel.kv.full import Full
from perfmodel.operations import Floats, Op
from perfmodel.speculation import capacity
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

MAX_BATCH = 1024
"""Batch up to which is looked for the most throughput."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One target pass on one device of the group: what it moves and computes, how long it takes, what it yields."""

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
    """A verification; draft_s: what drafting costs beside it, the iteration's overhead included."""

    draft_s: float


@dataclass(frozen=True, slots=True)
class BothWays:
    """m tokens either way: `speculating` one sequence verifying m, `batching` m sequences decoding one each.

    kv_ratio: KV bytes of batching over speculation's. bytes_per_pass_ratio: weight and KV bytes of a pass, batching
    over speculation. bytes_per_token_ratio: the same per token gained, speculation over batching: below 1 speculation
    is the cheaper. seconds_per_token_ratio: time per token gained, drafting included, speculation over batching.
    crossover_context: where both move the same weight and KV bytes per token gained, the draft's left out; None where
    batching never loses (Omega <= 1, or windows that end a cache before it is large enough).
    """

    speculating: Speculating
    batching: Pass
    kv_ratio: float
    bytes_per_pass_ratio: float
    bytes_per_token_ratio: float
    seconds_per_token_ratio: float
    crossover_context: float | None


def both_ways(scenario: Scenario, context: float, tokens: int) -> BothWays:
    """One request verifying `tokens` (gamma + 1) tokens against `tokens` requests at the same context.

    Raises InputError beyond what the acceptance knows.
    """
    gained = float(np.ravel(scenario.acceptance.tokens_per_iteration(tokens - 1))[0])
    p = predict(scenario, Workload.of(1, context, tokens - 1))
    verify = _pass(scenario, 1.0, context, float(tokens), gained)
    one = Speculating(**asdict(verify), draft_s=float(p.gamma * p.draft_s + p.overhead_s))
    many = _pass(scenario, float(tokens), context, 1.0, float(tokens))
    cache = crossover_cache_bytes(one.weight_bytes, tokens, gained, many.weight_bytes)
    return BothWays(
        speculating=one,
        batching=many,
        kv_ratio=many.kv_bytes / one.kv_bytes,
        bytes_per_pass_ratio=_load(many) / _load(one),
        bytes_per_token_ratio=_load(one) / one.tokens / (_load(many) / many.tokens),
        seconds_per_token_ratio=(one.predicted_s + one.draft_s) / one.tokens / (many.predicted_s / many.tokens),
        crossover_context=None if cache is None else scenario.target_shard.context_of(cache),
    )


def crossover_cache_bytes(weight_bytes: float, tokens: int, gained: float, batched: float) -> float | None:
    """One sequence's cache where speculation moves no more bytes per token: (m W - Omega W') / (m (Omega - 1)).

    batched: W', what a batch of m sequences moves of the weights. A sequence may route its tokens alike.
    """
    if gained <= 1:
        return None
    return max(tokens * weight_bytes - gained * batched, 0.0) / (tokens * (gained - 1))


def _load(p: Pass) -> float:
    return p.weight_bytes + p.kv_bytes


def _pass(scenario: Scenario, sequences: float, context: float, query: float, gained: float) -> Pass:
    ops = scenario.target_ops(sequences, context, query)
    return Pass(
        sequences=sequences,
        query=query,
        weight_bytes=_sum(ops, "weight_bytes"),
        kv_bytes=_sum(ops, "kv_bytes"),
        activation_bytes=_sum(ops, "activation_bytes"),
        flops=_sum(ops, "flops"),
        predicted_s=float(scenario.target_pass_s(sequences, context, query)),
        tokens=gained,
    )


def _sum(ops: list[Op], what: str) -> float:
    return float(sum(getattr(op.cost, what) for op in ops))


@dataclass(frozen=True, slots=True)
class Composition:
    """How both compose in the memory there is; throughputs are tokens/s of the group.

    alone: one sequence of the baseline. batched: its batch that fits with the most throughput. drafted: one sequence at
    its best gamma. both: the batch and gamma that fit with the most throughput; gamma 0 where drafting adds nothing.
    """

    alone: float
    batched: float
    batched_at: int
    drafted: float
    drafted_gamma: int
    both: float
    both_at: int
    both_gamma: int


def compose(scenario: Scenario, context: float, max_gamma: int, fraction: float) -> Composition:
    """Batching alone, speculation alone, and both, under capacity. Raises InputError where not one sequence fits."""
    batches = np.arange(1.0, MAX_BATCH + 1)[:, None]
    gammas = np.arange(max_gamma + 1)
    room = capacity.memory_of(scenario, batches, np.asarray(context), gammas.astype(float), fraction)
    p = predict(scenario, Workload.of(batches, context, gammas), max_gamma)
    rate = np.where(np.broadcast_to(room.fits, p.tpot_s.shape), p.throughput_tokens_per_s, 0.0)
    rate[:, 0] = np.where(np.broadcast_to(room.fits, rate.shape)[:, 0], batches[:, 0] / p.target_s[:, 0], 0.0)
    if rate[0, 0] == 0:
        raise refuse("--context", None, "short enough for one sequence to fit", f"{context:g}")
    at, gamma = divmod(int(np.argmax(rate)), rate.shape[1])
    return Composition(
        alone=float(rate[0, 0]),
        batched=float(rate[:, 0].max()),
        batched_at=int(np.argmax(rate[:, 0])) + 1,
        drafted=float(rate[0].max()),
        drafted_gamma=int(np.argmax(rate[0])),
        both=float(rate[at, gamma]),
        both_at=at + 1,
        both_gamma=gamma,
    )


@dataclass(frozen=True, slots=True)
class Disaggregation:
    """A decode pool fed by prefill groups of the same devices, without and with speculation, per decode group.

    requests_per_s at the batch; transfer_s: one request's cache (and the draft's) over the link, None without a link.
    prefill_groups: groups that prefill fast enough for one decode group. link_share: of the link's time that transfers
    take; above 1 the link, not the devices, is the limit.
    """

    requests_per_s: float
    transfer_bytes: float
    transfer_s: float | None
    prefill_groups: float
    link_share: float | None


def disaggregate(
    scenario: Scenario, batch: float, context: float, gamma: int, new_tokens: int
) -> tuple[Disaggregation, Disaggregation]:
    """Without and with speculation. Answers take `new_tokens`, prompts `context` tokens, prefilled singly."""
    p = predict(scenario, Workload.of(batch, context, gamma))
    prefill = costs.forward(scenario.target_shard, 1.0, context, 0.0, Full(), head_query=1.0)
    prefill_s = float(scenario.machine.predicted_s(prefill, context))
    cache = float(scenario.target_shard.stored_kv_bytes(context))
    own = float(capacity.draft_stored_bytes(scenario.draft_shard, scenario.draft, context))
    # what a self-draft keeps is gathered from the cache on arrival; a draft model's cache has to come along
    moved = 0.0 if scenario.draft.views_target_cache else own
    baseline = _pool(scenario, batch / float(p.target_s) / new_tokens, cache, prefill_s)
    drafted_s = prefill_s + float(scenario.setup_s(1.0, context))
    return baseline, _pool(scenario, float(p.throughput_tokens_per_s) / new_tokens, cache + moved, drafted_s)


def _pool(scenario: Scenario, requests_per_s: float, moved: float, prefill_s: float) -> Disaggregation:
    link = scenario.machine.gpu.link_bytes_per_s
    seconds = None if link is None else moved / link
    return Disaggregation(
        requests_per_s=requests_per_s,
        transfer_bytes=moved,
        transfer_s=seconds,
        prefill_groups=requests_per_s * prefill_s,
        link_share=None if seconds is None else requests_per_s * seconds,
    )


def idle_tokens(scenario: Scenario, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
    """Prompt tokens that a pass can carry in its linear layers before these compute for longer than they load.

    Chunked prefill lives on the same idle FLOPs as speculation: a verification of `query` tokens has batch (query - 1)
    fewer of them left. 0 where the layers are compute-bound already. Calibrated rates; the chunk's attention left out.
    """
    linears = [op for op in scenario.target_ops(batch, context, query) if op.kind == "linear" and op.name != "lm_head"]
    load, compute = scenario.machine.load_and_compute_s(linears)
    tokens = batch * np.asarray(query)
    return np.maximum(load / (compute / tokens) - tokens, 0.0)


@dataclass(frozen=True, slots=True)
class Chunked:
    """Chunked prefill in the passes of a decode batch: `tokens` prompt tokens a pass, as many as the linear layers
    carry before they compute for longer than they load (`idle_tokens`).

    pass_s: the pass alone, chunk_pass_s with the chunk in its linear layers; prompt_tokens_per_s and
    output_tokens_per_s of the batch with a chunk in every pass (a speculating one: in every verification).
    """

    tokens: float
    pass_s: float
    chunk_pass_s: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float


def chunked(scenario: Scenario, batch: float, context: float, gamma: int) -> tuple[Chunked, Chunked]:
    """Without and with speculation; the chunk's own attention left out."""
    p = predict(scenario, Workload.of(batch, context, gamma))
    outside = float(p.gamma * p.draft_s + p.overhead_s)
    baseline = _chunk(scenario, batch, context, 1.0, 0.0, 1.0)
    return baseline, _chunk(scenario, batch, context, gamma + 1.0, outside, float(p.tokens_per_iteration))


def _chunk(scenario: Scenario, batch: float, context: float, query: float, outside: float, gained: float) -> Chunked:
    tokens = float(idle_tokens(scenario, batch, context, query))
    alone = scenario.target_ops(batch, context, query)
    wide = scenario.target_ops(batch + tokens / query, context, query)
    # the LM head and attention see the decode batch alone
    ops = [a if a.kind == "attention" or a.name == "lm_head" else b for a, b in zip(alone, wide, strict=True)]
    total = batch * query
    pass_s = float(scenario.machine.predicted_s(alone, total))
    carried = float(scenario.machine.predicted_s(ops, total + tokens))
    every = carried + outside
    return Chunked(tokens, pass_s, carried, tokens / every, batch * gained / every)
