"""Makes the scenario of a question: looks up the named model, device and calibration, and checks that they
fit together.
"""

import os
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from perfmodel.answers.question import arguments as arg
from perfmodel.answers.question.acceptance_of import library_word, measured_acceptance
from perfmodel.answers.question.engine_support import usual_draft
from perfmodel.answers.question.named import Named
from perfmodel.answers.question.placement import (
    check_backend,
    check_engine,
    check_engine_groups,
    check_groups,
    check_head,
    check_parts,
    check_vocabulary,
)
from perfmodel.answers.question.query import Query, acceptances_of
from perfmodel.answers.question.racks import Placed, place
from perfmodel.answers.question.rates import GIVEN, parse_rate
from perfmodel.costs import check_tensor_parallel, largest_degree
from perfmodel.costs.roofline import Machine
from perfmodel.drafts import make_draft
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.kv import parse_kv
from perfmodel.specs import (
    Calibration,
    GPUSpec,
    ModelSpec,
    Precision,
    UnknownAcceptance,
    engine_of,
    kv_format,
    modelled_power_limit,
    serving_engine_of,
)
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.specs.boundary.files import looks_like_path
from perfmodel.speculation import (
    Acceptance,
    Scenario,
    ServerSettings,
    Workload,
    account_of,
    check_draft_length,
    predict,
)


def resolve(query: Query, acceptance: Acceptance | None = None, named: Named | None = None) -> Scenario:
    """Makes the scenario of a question, with its acceptance. Raises InputError for an impossible question.

    - acceptance: replaces the acceptance of the question.
    - named: the model, device and calibration, if they were looked up already.

    A question about the baseline (gamma 0) only has an acceptance if it states one.
    """
    if acceptance is not None:
        return resolve_costs(query, named).with_acceptance(acceptance)
    looked_up = not acceptances_of(query)
    if named is not None or _names_a_file(query):
        scenario = _built(query, named or Named.of(query), looked_up)
        return scenario.with_acceptance(_acceptance(query, scenario.target, scenario.draft))
    parts = _Parts.of(query, looked_up)
    scenario = _remembered(parts)
    if looked_up and query.gamma != 0:
        return scenario.with_acceptance(_measured(parts, float(query.context)))
    return scenario.with_acceptance(_acceptance(query, scenario.target, scenario.draft))


def resolve_costs(query: Query, named: Named | None = None) -> Scenario:
    """The scenario of a question without an acceptance, for answers that do not depend on it. Raises
    InputError for an impossible question.
    """
    if named is not None or _names_a_file(query):
        return _built(query, named or Named.of(query), looked_up=False)
    return _remembered(_Parts.of(query, looked_up=False))


def _names_a_file(query: Query) -> bool:
    """Whether the scenario depends on a file, which may change."""
    names = (query.model, query.hardware, query.calibration, query.draft)
    return any(os.path.exists(name) for name in names if name and looks_like_path(name))


PARTS = tuple(
    f.name
    for f in fields(Query)
    if f.name not in ("batch", "context", "alpha", "tokens_per_iteration", "max_gamma", "memory_fraction")
)
"""The arguments in the key of the cached scenarios. They determine the scenario, except for a few that rarely
change.
"""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The key of a cached scenario. Two keys are equal if their questions have the same values of `PARTS`."""

    query: Query = field(compare=False)
    looked_up: bool
    values: tuple[Any, ...]

    @classmethod
    def of(cls, query: Query, looked_up: bool) -> "_Parts":
        return cls(query, looked_up, tuple([getattr(query, name) for name in PARTS]))


@lru_cache(maxsize=64)
def _remembered(parts: _Parts) -> Scenario:
    """The cached scenario of a question that only names bundled data. Such data do not change while a process
    runs.
    """
    return _built(parts.query, Named.of(parts.query), parts.looked_up)


def _measured(parts: _Parts, context: float) -> Acceptance:
    """The measured acceptance of a question at a context. Raises UnknownAcceptance if there is none."""
    acceptance = _looked_up(parts, context)
    if isinstance(acceptance, Acceptance):
        return acceptance
    raise UnknownAcceptance(*acceptance)


@lru_cache(maxsize=256)
def _looked_up(parts: _Parts, context: float) -> Acceptance | tuple[str, str, str, str]:
    """The measured acceptance of a question at a context. If there is none, the result has the arguments of
    `UnknownAcceptance`, because a cache does not store errors.
    """
    scenario = _remembered(parts)
    query = parts.query
    try:
        return _published(query, scenario.target, scenario.draft, context)
    except UnknownAcceptance as unknown:
        return unknown.flag, unknown.why, unknown.remedy, unknown.known


def _published(query: Query, target: ModelSpec, draft: Draft, context: float) -> Acceptance:
    """The measured acceptance of a draft, extended to the draft length of the question."""
    acceptance = measured_acceptance(query.model, target, draft, context, task=query.task, head=query.draft)
    longest = acceptance.max_gamma
    if query.gamma is None or longest is None or query.gamma <= longest:
        return acceptance
    return acceptance.extended(query.gamma, acceptance_library().typical.decay(library_word(draft)))


def _built(query: Query, named: Named, looked_up: bool) -> Scenario:
    """The scenario of a question without its acceptance.

    - looked_up: whether the acceptance is looked up. If so, the default draft is filled in.

    Raises InputError for parts that do not fit together.
    """
    target = named.target
    gpu = named.gpu
    engine = engine_of(named.calibration)
    precision = named.precision(query)
    placed = _placed(query, named, precision)
    if looked_up:
        query = with_draft(query, named)
    draft = _draft(query, named, precision)
    for flag, stated, weights, model in (
        ("--weights", named.stated_weights(query), precision.weights, target),
        ("--draft-weights", query.draft_weights, draft.precision.weights, draft.model),
    ):
        check_parts(flag, stated, model)
        gpu.check_peaks(weights.computes, query.hardware, flag)
    return Scenario(
        target=target,
        machine=_machine(query, named, placed),
        precision=precision,
        draft=draft,
        kv_page=query.kv_page,
        topk_reuse=query.topk_reuse,
        state_rollback=query.state_rollback,  # type: ignore[arg-type]  # checked when the question was made
        context_std=float(query.context_std),
        expert_parallel=query.ep,
        data_parallel=query.dp,
        layout=placed.layout,
        power_limit_w=modelled_power_limit(gpu, query.power_limit),
        account=account_of(engine, _server(query, gpu, named.calibration)),
    )


def _placed(query: Query, named: Named, precision: Precision) -> Placed:
    """The placement of the server on its devices. Raises InputError for degrees, an engine or a backend that
    do not fit the model or each other.
    """
    target = named.target
    gpu = named.gpu
    calibration = named.calibration
    tp = query.tp
    check_groups(target, tp, query.ep, query.dp, query.redundant_experts)
    check_engine_groups(engine_of(calibration), query.ep, query.dp)
    placed = place(query, gpu, calibration, target, tp, query.ep, query.dp)
    check_engine(calibration, gpu, target, precision, tp, query.ep, query.dp, query.calibration)
    check_backend(query.attention_backend, calibration, gpu, target)
    if tp > 1 and (query.layer_split > 1 or gpu.in_turn):
        raise refuse("--tp", None, "1 with --layer-split: llama.cpp splits by layers or by tensors", tp)
    return placed


def _draft(query: Query, named: Named, precision: Precision) -> Draft:
    """The draft with its formats and its degree. Raises InputError if it does not fit the target."""
    target = named.target
    tp = query.tp
    dp = query.dp
    engine = engine_of(named.calibration)
    cache = precision.kv
    if query.draft_kv_dtype is not None:
        cache = kv_format(query.draft_kv_dtype, "--draft-kv-dtype")
    draft = make_draft(
        "self" if query.draft is None else query.draft,
        target,
        Precision(precision.weights, cache),
        tp,
        parse_kv(draft_kv(query)),
        tensor_parallel=query.draft_tp,
        weights=query.draft_weights,
        own_on=named.gpu.peak if named.draft_keeps_format(query) else None,
    )
    check_head(query.draft, target)
    check_vocabulary(engine, draft, target)
    if query.draft_tp is None:
        allowed = largest_degree(draft.model, tp // dp) * dp
        if allowed != tp:
            draft = replace(draft, tensor_parallel=allowed)
    degree = draft.tensor_parallel
    attention_degree = degree // dp if degree == tp else degree
    check_tensor_parallel(draft.model, attention_degree, "--draft-tp")
    if degree > tp:
        raise refuse("--draft-tp", None, f"at most the target's --tp {tp}", degree)
    return draft


def _machine(query: Query, named: Named, placed: Placed) -> Machine:
    """The devices, and the layers and experts that llama.cpp runs on the host."""
    host_layers = 0.0
    if query.gpu_layers is not None:
        layers = named.target.num_hidden_layers + 1  # the output counts as one, as in llama.cpp
        host_layers = max(0.0, 1.0 - query.gpu_layers / layers)
    engine = serving_engine_of(named.calibration)
    return Machine(
        named.gpu,
        named.calibration,
        query.tp,
        query.kv_reread,
        attention_backend=query.attention_backend,
        host_experts=_host_experts(query, named.target) if query.cpu_moe else 0.0,
        host_layers=host_layers,
        fabric=placed.fabric,
        schedulers=query.dp * query.pp,
        host=None if engine is None else engine.host,
        host_bytes_per_s=1.0 if query.host_bandwidth is None else query.host_bandwidth * 1e9,
    )


def _server(query: Query, gpu: GPUSpec, calibration: Calibration) -> ServerSettings:
    """The limits of the server (seats, token budget and memory)."""
    return ServerSettings(
        calibration.version,
        query.max_num_seqs,
        query.max_num_batched_tokens,
        query.max_model_len,
        devices=max(query.layer_split, len(gpu.in_turn)),
    )


def _host_experts(query: Query, target: ModelSpec) -> float:
    """Share of the MoE layers whose experts the host reads."""
    if not target.moe:
        raise refuse("--cpu-moe", None, f"0 for {target.name}, which has no routed experts", query.cpu_moe)
    return max(0, min(query.cpu_moe - target.num_dense_layers, target.num_moe_layers)) / target.num_moe_layers


def with_draft(query: Query, named: Named | None = None) -> Query:
    """The question with the default draft filled in. The question is unchanged if it states a draft, a KV
    method or an acceptance, or if gamma is 0.
    """
    if query.gamma == 0 or query.draft is not None or query.draft_kv is not None or acceptances_of(query):
        return query
    specs = named or Named.of(query)
    return replace(
        query, draft=usual_draft(query.model, specs.target, engine_of(specs.calibration), query.engine)
    )


def draft_kv(query: Query) -> str:
    """The KV method of the draft: the one that the question states, or else the default. The default is
    `SELF_DRAFT_KV` for a self-draft and the full cache for other drafts.
    """
    if query.draft_kv is not None:
        return query.draft_kv
    alone = query.draft is None or query.draft.partition(":")[0].strip().lower() == "self"
    return arg.SELF_DRAFT_KV if alone else "full"


def length_of(query: Query, scenario: Scenario, least: int = 0) -> int:
    """The draft length of the question. If the question states none, the result is the best draft length, but
    at least `least`.
    """
    if query.gamma is not None:
        check_draft_length(scenario.draft, query.gamma)
        return query.gamma
    best = predict(scenario, Workload.of(query.batch, query.context), query.max_gamma)
    return max(int(best.gamma_optimal), least)


def given_tokens(tokens_per_iteration: float, gamma: int, draft: Draft) -> Acceptance:
    """The acceptance of a draft from its tokens per iteration, which were measured at draft length `gamma`.

    At positions beyond this length, the acceptance falls as with published drafts of this kind. For a
    self-draft, the acceptance stays the same, because measured rates hardly depend on the position (MagicDec,
    arXiv 2408.11049).
    """
    source = f"{GIVEN}, by tokens per iteration"
    decay = 1.0 if draft.kind == "self" else acceptance_library().typical.decay(library_word(draft))
    if decay < 1.0:
        source += f"; each position beyond {gamma} at {decay:.2f} of the one before, as is usual"
    return Acceptance.from_tokens_per_iteration(tokens_per_iteration, gamma, source, decay)


def given_rate(rate: str | float, flag: str, gamma: int | None, draft: Draft) -> Acceptance:
    """The acceptance of a draft from a rate that the question states. Raises InputError for other text. The
    message begins with `flag`.

    A single rate counts as measured at all positions of the draft length `gamma`, or only at the first
    position if gamma is None. A recommended draft exceeds the measured positions by at most `BEYOND_MEASURED`
    tokens. A self-draft may have any length, as in `given_tokens`.
    """
    accepted = parse_rate(rate, flag)
    if accepted.alpha is None or draft.kind == "self":
        return accepted
    return accepted.replace(measured_to=gamma or 1)


def _acceptance(query: Query, target: ModelSpec, draft: Draft) -> Acceptance | None:
    """The acceptance of a question; None for the baseline, unless the question states one."""
    if query.alpha is not None:
        return Acceptance.from_alpha(query.alpha, source=GIVEN)
    if query.rate is not None:
        return given_rate(query.rate, "--rate", query.gamma, draft)
    if query.tokens_per_iteration is not None:
        if query.gamma is None:
            raise InputError(
                "--tokens-per-iteration: needs --gamma N, the draft length at which it was measured"
            )
        gamma = query.gamma
        if gamma == 0:
            raise InputError("--tokens-per-iteration: must be measured at --gamma 1 or more, given gamma 0")
        query.within("tokens_per_iteration", 1, gamma + 1, f"a number from 1 to gamma + 1 = {gamma + 1}")
        return given_tokens(query.tokens_per_iteration, gamma, draft)
    if query.gamma == 0:
        return None
    rows = None
    if query.acceptance is not None:
        from perfmodel.specs.acceptance.acceptance_file import read_acceptance

        rows = read_acceptance(query.acceptance)
    context = float(query.context)
    if rows is None:
        return _published(query, target, draft, context)
    return measured_acceptance(query.model, target, draft, context, rows, query.task, head=query.draft)
