"""A question in the user's words, and the scenario that it resolves to."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, get_args

from perfmodel.answers.question import arguments as arg
from perfmodel.answers.question.acceptance_of import measured_acceptance
from perfmodel.answers.question.arguments import SHARE, TINY, TOKENS, argument, question
from perfmodel.answers.question.placement import SERVING, check_engine, check_groups, check_head
from perfmodel.answers.question.readers import MaybeReal, MaybeWhole, Parsed, Real, Whole, span, whole
from perfmodel.answers.question.runs_in import usual_draft
from perfmodel.costs import check_tensor_parallel, largest_degree
from perfmodel.costs.roofline import Machine
from perfmodel.drafts import make_draft
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.kv import parse_kv
from perfmodel.parse import items
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.calibrations.stacks import DEFAULT as DEFAULT_ENGINE
from perfmodel.specs.calibrations.stacks import ELSEWHERE, ENGINES, calibration_of, engine_of, parse_engine
from perfmodel.specs.devices.gpu import GPUSpec, load_gpu
from perfmodel.specs.models.formats import Precision, kv_format
from perfmodel.specs.models.ggml import CONVERTED, USUAL_MIX, in_gguf, is_gguf, of_mix
from perfmodel.specs.models.model import ModelSpec, load_model, precision_of
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA, predict
from perfmodel.speculation.lengths import DEFAULT_BATCH_RANGE
from perfmodel.speculation.scenario import Rollback, Scenario
from perfmodel.speculation.workload import MAX_BATCH, MAX_GAMMA, Workload

UNUSED = Acceptance.from_alpha(0.0, source="none needed")
"""Stands in where no answer depends on what is accepted."""
NO_ACCEPTANCE = "none needed at gamma 0"
GIVEN = "as given"
ACCEPTANCES = ("alpha", "tokens_per_iteration", "acceptance")
"""Arguments of which a question may state one."""


@question
class CommonOptions(arg.Question):
    """What every question has: model and device first, then by name formats, constants, pages and memory."""

    model: arg.Model
    hardware: arg.Hardware
    _: KW_ONLY
    weights: arg.Weights = None
    draft_weights: str | None = argument(
        "Format of the draft's weights.",
        "FORMAT",
        shown="as --weights, else its checkpoint's",
        default=None,
        group="Formats",
    )
    kv_dtype: arg.KVType = None
    draft_kv_dtype: str | None = argument(
        "Format of the draft's KV cache.", "FORMAT", shown="as --kv-dtype", default=None, group="Formats"
    )
    kv_reread: MaybeReal = argument(
        "Number of times that verification reads the cache, from 1 to gamma + 1.",
        "R",
        shown="calibrated",
        limits=(1, MAX_GAMMA + 1),
        default=None,
        group="Engine",
    )
    engine: str | None = argument(
        "Serving engine, such as vllm, or vllm@0.20.1 for a version.",
        "|".join(ENGINES) + "[@VERSION]",
        read=parse_engine,
        shown=f"{DEFAULT_ENGINE}, the newest version fitted; a CPU its own",
        default=None,
        listed="engines",
        group="Engine",
    )
    attention_backend: str | None = argument(
        "Attention kernels of the engine: flash-attn2, flash-attn3, flashinfer, triton, trtllm, ...",
        "NAME",
        shown="the engine's own choice for the device",
        default=None,
        group="Engine",
    )
    calibration: str | None = argument(
        "Calibration to use instead of the engine's (`perfmodel calibrations list`).",
        "NAME|PATH|ideal",
        listed="calibrations",
        default=None,
        group="Engine",
    )
    ep: Whole = argument("Expert-parallel groups.", "N", "--expert-parallel", default=1)
    dp: Whole = argument(
        "Data-parallel attention groups.",
        "N",
        "--data-parallel",
        default=1,
    )
    context_std: Whole = argument(
        "Standard deviation of --context within a batch.",
        "COUNT",
        read=whole,
        limits=(0, 2**40),
        default=0,
    )
    kv_page: Whole = argument(
        "Tokens per page of the KV caches.",
        TOKENS,
        "--block-size",
        limits=(1, 2**20),
        default=1,
        group="Engine",
    )
    topk_reuse: Real = argument(
        "Sparse attention: share of the chosen tokens that the next query token chooses again.",
        "SHARE",
        limits=SHARE,
        default=0.0,
        group="Engine",
    )
    layer_split: Whole = argument(
        "Devices that share the layers and run in turn, like llama.cpp's -sm layer.",
        "N",
        limits=(1, 64),
        default=1,
        group="Engine",
    )
    cpu_moe: Whole = argument(
        "Layers whose routed experts stay in host memory, like llama.cpp's --n-cpu-moe.",
        "N",
        read=whole,
        limits=(0, 1024),
        default=0,
        group="Engine",
    )
    gpu_layers: MaybeWhole = argument(
        "Layers on the device, like llama.cpp's -ngl; the others run on the host.",
        "N",
        read=whole,
        limits=(1, 1024),
        shown="all",
        default=None,
        group="Engine",
    )
    host_bandwidth: MaybeReal = argument(
        "Memory bandwidth of the host in GB/s; --cpu-moe and --gpu-layers need it.",
        "GB/S",
        limits=(TINY, 10_000),
        default=None,
        group="Engine",
    )
    state_rollback: str = argument(
        "Recurrent layers: verification stores every state (keep) or one (replay).",
        choices=get_args(Rollback),
        default="keep",
        group="Engine",
    )
    memory_fraction: Real = argument(
        "Share of device memory that may be used.",
        "SHARE",
        "--gpu-memory-utilization",
        limits=(TINY, 1),
        default=DEFAULT_MEMORY_FRACTION,
        group="Engine",
    )

    def query(self, **changes: Any) -> "Query":
        """The `Query` with the same values of what both have, and these changes."""
        return Query(
            **{f.name: getattr(self, f.name) for f in fields(Query) if hasattr(self, f.name)} | changes
        )


@question
class Options(CommonOptions):
    """What a question about chains of drafted tokens has beside its model, device and workload."""

    _: KW_ONLY
    draft: str | None = argument(
        arg.WHO_DRAFTS,
        "self|KIND|NAME|PATH",
        "--draft-model",
        shown="one published for the model that the engine runs; self where acceptance or --draft-kv "
        "is given",
        default=None,
        group="Draft",
    )
    draft_tp: arg.DraftTP = argument(default=None)
    acceptance_rate: MaybeReal = argument(
        "Share of drafted tokens that are accepted at --gamma, as engines log it; instead of --alpha.",
        "SHARE",
        limits=SHARE,
        default=None,
        group="Acceptance",
    )
    tokens_per_iteration: arg.TokensPerIteration = argument(default=None)
    acceptance: arg.AcceptanceFile = None
    task: arg.Task = None
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)
    batch_range: Parsed[tuple[float, float], str | Sequence[float]] = argument(
        "Range of batches over which the speedup must not fall at the inflection context.",
        "LOW..HIGH",
        read=span,
        shown="32..256",
        default=DEFAULT_BATCH_RANGE,
    )

    def check(self) -> None:
        super().check()
        low, high = self.batch_range
        if not 1 <= low < high <= MAX_BATCH:
            raise refuse(
                "--batch-range", None, f"two rising numbers from 1 to {MAX_BATCH:.0f}", f"{low}..{high}"
            )

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """A share of accepted tokens becomes the tokens per iteration that it is: 1 + gamma x share."""
        rate = values["acceptance_rate"]
        if rate is None:
            return super().settled(values)
        if any(values.get(name) is not None for name in ACCEPTANCES):
            raise InputError("--acceptance-rate: must not be given with another acceptance")
        lengths = items(values.get("gamma"))
        if len(lengths) != 1 or lengths[0] is None or lengths[0] < 1:
            raise InputError("--acceptance-rate: needs --gamma N, the draft length at which it was counted")
        gained = {"tokens_per_iteration": 1 + lengths[0] * rate, "acceptance_rate": None}
        return super().settled(values | gained)


@question
class Query(Options):
    """One point of a question. Every argument is a flag of ``perfmodel whatif``.

    gamma: None (or ``"auto"``) searches for the best length from 0 to max_gamma. alpha, tokens_per_iteration
    (measured at `gamma`) and acceptance (a file): at most one of them; without any, the published acceptance
    of this pair and budget is used. draft: None takes a published draft that the engine runs, or else
    ``self``. weights, kv_dtype: None takes the formats of the checkpoint.
    """

    batch: arg.Batch
    context: arg.Context
    gamma: arg.Gamma = argument(default=None)
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = argument(default=None)

    def check(self) -> None:
        super().check()
        if self.context_std:
            most = self.context / 3**0.5
            widest = f"at most context / sqrt(3) = {most:.0f} (contexts are uniform about their mean)"
            self.within("context_std", 0, most, widest)
        if self.gamma is not None:
            self.within("kv_reread", 1, self.gamma + 1, f"at most gamma + 1 = {self.gamma + 1}")


@dataclass(frozen=True, slots=True)
class Named:
    """What a question names, read."""

    target: ModelSpec
    gpu: GPUSpec
    calibration: Calibration

    @classmethod
    def of(cls, question: CommonOptions) -> "Named":
        """Raises InputError for a name that is unknown, or a file that cannot be read."""
        gpu, target, file = load_gpu(question.hardware), load_model(question.model), is_gguf(question.model)
        mix = question.weights and of_mix(question.weights.partition(",")[0].lower())
        calibration = calibration_of(gpu, question.engine, question.calibration, bool(file or mix))
        if question.layer_split > 1 or question.cpu_moe or question.gpu_layers is not None:
            gpu = _shared(question, gpu, engine_of(calibration))
        if question.host_bandwidth is not None and not question.cpu_moe and question.gpu_layers is None:
            raise InputError("--host-bandwidth: needs --cpu-moe or --gpu-layers, which leave the host a part")
        if calibration.stack == ELSEWHERE and not file:
            target = target.model_copy(update={"weights": CONVERTED.get(target.weights, USUAL_MIX)})
        return cls(target, gpu, calibration)

    def precision(self, question: CommonOptions) -> Precision:
        """The formats that the question asks for, on this device and engine."""
        weights = question.weights
        if weights is not None and self.calibration.stack == ELSEWHERE:
            weights = in_gguf(weights)
        return precision_of(self.target, self.gpu.peak, weights, question.kv_dtype)


def _shared(question: CommonOptions, gpu: GPUSpec, engine: str | None) -> GPUSpec:
    """A device that shares a model with others, in turn, or with the host; refused on other engines.

    Of devices in turn one computes at a time, with the memory of all.
    """
    devices, host = question.layer_split, "--cpu-moe" if question.cpu_moe else "--gpu-layers"
    if engine in SERVING:
        raise refuse(
            "--engine", None, f"llamacpp, which has {'--layer-split' if devices > 1 else host}", engine
        )
    if (question.cpu_moe or question.gpu_layers is not None) and question.host_bandwidth is None:
        raise InputError(f"{host}: needs --host-bandwidth, the GB/s that the host reads its memory at")
    if gpu.memory is None:
        return gpu
    memory = gpu.memory.model_copy(update={"value": gpu.memory.value * devices})
    return gpu.model_copy(update={"memory": memory})


def resolve(query: Query, acceptance: Acceptance | None = None, named: Named | None = None) -> Scenario:
    """Build the scenario of a question. Raises InputError for an impossible question.

    acceptance: replaces the acceptance of the question. named: the parts of the question that were already
    read.
    """
    found = named or Named.of(query)
    target, gpu, tp = found.target, found.gpu, query.tp
    precision = found.precision(query)
    draft_kv_type = precision.kv
    if query.draft_kv_dtype is not None:
        draft_kv_type = kv_format(query.draft_kv_dtype, "--draft-kv-dtype")
    ep, dp = query.ep, query.dp
    check_groups(target, tp, ep, dp)
    check_engine(found.calibration, gpu, target, precision, tp, ep, dp)
    if tp > 1 and query.layer_split > 1:
        raise refuse("--tp", None, "1 with --layer-split: llama.cpp splits by layers or by tensors", tp)
    if acceptance is None:
        query = with_draft(query, found)
    draft = make_draft(
        query.draft or "self",
        target,
        Precision(precision.weights, draft_kv_type),
        tp,
        parse_kv(draft_kv(query)),
        tensor_parallel=query.draft_tp,
        weights=query.draft_weights,
        own_on=gpu.peak if query.weights is None else None,
    )
    check_head(query.draft, target)
    if query.draft_tp is None and (allowed := largest_degree(draft.model, tp)) != tp:
        draft = replace(draft, tensor_parallel=allowed)
    check_tensor_parallel(draft.model, draft.tensor_parallel, "--draft-tp")
    if draft.tensor_parallel > tp:
        raise refuse("--draft-tp", None, f"at most the target's --tp {tp}", draft.tensor_parallel)
    for weights, flag in ((precision.weights, "--weights"), (draft.precision.weights, "--draft-weights")):
        gpu.check_peaks(weights.computes, query.hardware, flag)
    return Scenario(
        target=target,
        machine=Machine(
            gpu,
            found.calibration,
            tp,
            query.kv_reread,
            attention_backend=query.attention_backend,
            host_experts=_host_experts(query, target) if query.cpu_moe else 0.0,
            host_layers=0.0 if query.gpu_layers is None else _host_layers(query.gpu_layers, target),
            host_bytes_per_s=1.0 if query.host_bandwidth is None else query.host_bandwidth * 1e9,
        ),
        precision=precision,
        draft=draft,
        acceptance=_acceptance(query, target, draft) if acceptance is None else acceptance,
        kv_page=query.kv_page,
        topk_reuse=query.topk_reuse,
        state_rollback=query.state_rollback,  # type: ignore[arg-type]  # checked when the question was made
        context_std=float(query.context_std),
        expert_parallel=ep,
        data_parallel=dp,
    )


def _host_experts(query: Query, target: ModelSpec) -> float:
    """Share of the layers with routed experts that the host reads theirs of."""
    if not target.moe:
        raise refuse("--cpu-moe", None, f"0 for {target.name}, which has no routed experts", query.cpu_moe)
    return max(0, min(query.cpu_moe - target.num_dense_layers, target.num_moe_layers)) / target.num_moe_layers


def _host_layers(kept: int, target: ModelSpec) -> float:
    """Share of the layers that the host runs; the output counts as one, as it does in llama.cpp."""
    return max(0.0, 1.0 - kept / (target.num_hidden_layers + 1))


def with_draft(query: Query, named: Named | None = None) -> Query:
    """The question with the draft whose acceptance is looked up, where it leaves open who drafts."""
    if query.gamma == 0 or query.draft is not None or query.draft_kv is not None or acceptances_of(query):
        return query
    found = named or Named.of(query)
    return replace(
        query, draft=usual_draft(query.model, found.target, engine_of(found.calibration), query.engine)
    )


def draft_kv(query: Query) -> str:
    """What the draft reads: as given, a sparse default for a self-draft, all for a draft of its own."""
    if query.draft_kv is not None:
        return query.draft_kv
    alone = query.draft is None or query.draft.partition(":")[0].strip().lower() == "self"
    return arg.SELF_DRAFT_KV if alone else "full"


def assumed(query: Query, scenario: Scenario) -> tuple[str, ...]:
    """What stands in for an argument that was left open and decides the answer, as a sentence."""
    if query.draft is None and scenario.draft.kind != "self":
        return (f"draft was not given: {scenario.draft.name}",)
    if query.draft_kv is not None or scenario.draft.kind != "self":
        return ()
    return (f"draft_kv was not given: the self-draft reads {arg.SELF_DRAFT_KV}",)


def length_of(query: Query, scenario: Scenario, least: int = 0) -> int:
    """The question's gamma, or the best one from `least` on where it leaves that open."""
    if query.gamma is not None:
        return query.gamma
    best = predict(scenario, Workload.of(query.batch, query.context), query.max_gamma)
    return max(int(best.gamma_optimal), least)


def acceptances_of(question: CommonOptions) -> list[str]:
    """Which acceptances the question states."""
    return [name for name in ACCEPTANCES if getattr(question, name, None) is not None]


def _acceptance(query: Query, target: ModelSpec, draft: Draft) -> Acceptance:
    given = acceptances_of(query)
    if len(given) > 1:
        flags = " and ".join("--" + n.replace("_", "-") for n in given)
        raise InputError(f"{flags}: only one of them may be given")
    if query.alpha is not None:
        return Acceptance.from_alpha(query.alpha, source=GIVEN)
    if query.tokens_per_iteration is not None:
        if query.gamma is None:
            raise InputError(
                "--tokens-per-iteration: needs --gamma N, the draft length at which it was measured"
            )
        gamma = query.gamma
        if gamma == 0:
            raise InputError("--tokens-per-iteration: must be measured at --gamma 1 or more, given gamma 0")
        query.within("tokens_per_iteration", 1, gamma + 1, f"a number from 1 to gamma + 1 = {gamma + 1}")
        return Acceptance.from_tokens_per_iteration(
            query.tokens_per_iteration, gamma, source=f"{GIVEN}, by tokens per iteration"
        )
    if query.gamma == 0:
        return Acceptance.from_alpha(0.0, source=NO_ACCEPTANCE)
    rows = None
    if query.acceptance is not None:
        from perfmodel.specs.acceptance.acceptance_file import read_acceptance

        rows = read_acceptance(query.acceptance)
    return measured_acceptance(query.model, target, draft, float(query.context), rows, query.task)
