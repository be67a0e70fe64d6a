"""The questions that a user can ask, with their arguments."""

from dataclasses import KW_ONLY, fields
from typing import Any, get_args

from perfmodel.answers.declaration import SHARE, TINY, Question, argument, options, question
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.question.nodes import ALL_TO_ALLS, OVERLAPS, devices_of_nodes, parse_nodes
from perfmodel.answers.readers import MaybeReal, MaybeWhole, Real, Whole, state_format, whole
from perfmodel.errors import InputError
from perfmodel.parse import items
from perfmodel.specs import ENGINES, parse_engine
from perfmodel.specs.calibrations.engine_words import DEFAULT_ENGINE
from perfmodel.speculation import (
    DEFAULT_BATCH_RANGE,
    DEFAULT_MAX_GAMMA,
    MAX_GAMMA,
    Rollback,
)
from perfmodel.uniform import largest_std

OF_SERVER = (
    "tp",
    "ep",
    "dp",
    "pp",
    "layer_split",
    "cpu_moe",
    "gpu_layers",
    "host_bandwidth",
    "attention_backend",
    "memory_fraction",
    "state_rollback",
    "power_limit",
    "weights",
    "draft_weights",
    "kv_dtype",
    "draft_tp",
)
"""Arguments of a `Query` that describe the server, without its model, device, draft and calibration."""


@options
class CommonOptions(Question):
    """The arguments of all questions. Model and device come first. All other arguments are passed by name."""

    model: arg.Model
    hardware: arg.Hardware
    _: KW_ONLY
    weights: arg.Weights = argument(default=None)
    draft_weights: str | None = argument(
        "Format of the draft's weights.",
        "FORMAT",
        shown="that of its checkpoint; for llama.cpp and MLX that of --weights",
        default=None,
        group="Formats",
    )
    kv_dtype: arg.KVType = argument(default=None)
    draft_kv_dtype: str | None = argument(
        "Format of the draft's KV cache.", "FORMAT", shown="as --kv-dtype", default=None, group="Formats"
    )
    kv_reread: MaybeReal = argument(
        "Number of times that a verification reads the cache, from 1 to gamma + 1.",
        "R",
        shown="from the calibration",
        limits=(1, MAX_GAMMA + 1),
        default=None,
        group="Engine",
    )
    engine: str | None = argument(
        "Serving engine, with or without a version, such as vllm@0.20.1 or vllm.",
        "|".join(ENGINES) + "[@VERSION]",
        read=parse_engine,
        shown=f"{DEFAULT_ENGINE} at its newest fitted version; perfmodel on a CPU",
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
    context_std: Whole = argument(
        "Standard deviation of the context lengths within a batch.",
        "COUNT",
        read=whole,
        limits=(0, 2**40),
        default=0,
    )
    kv_page: Whole = argument(
        "Number of tokens per page of the KV caches.",
        arg.TOKENS,
        "--block-size",
        limits=(1, 2**20),
        default=1,
        group="Engine",
    )
    topk_reuse: Real = argument(
        "For sparse attention: share of the selected tokens that the next query token selects again.",
        "SHARE",
        limits=SHARE,
        default=0.0,
        group="Engine",
    )
    layer_split: Whole = argument(
        "Number of devices that share the layers and run one after another, like llama.cpp's -sm layer.",
        "N",
        limits=(1, 64),
        default=1,
        group="Engine",
    )
    cpu_moe: Whole = argument(
        "Number of layers whose routed experts stay in host memory, like llama.cpp's --n-cpu-moe.",
        "N",
        read=whole,
        limits=(0, 1024),
        default=0,
        group="Engine",
    )
    gpu_layers: MaybeWhole = argument(
        "Number of layers on the device, like llama.cpp's -ngl; the others run on the host.",
        "N",
        read=whole,
        limits=(1, 1024),
        shown="all",
        default=None,
        group="Engine",
    )
    host_bandwidth: MaybeReal = argument(
        "Memory bandwidth of the host in GB/s; required by --cpu-moe and --gpu-layers.",
        "GB/S",
        limits=(TINY, 10_000),
        default=None,
        group="Engine",
        needs=("cpu_moe", "gpu_layers"),
        why="which leave the host a part",
    )
    state_dtype: str | None = argument(
        "Format of the states of recurrent layers (fp32, bf16 or fp16), as in vLLM and SGLang.",
        "FORMAT",
        "--mamba-ssm-dtype --mamba-ssm-cache-dtype",
        read=state_format,
        shown="the checkpoint's",
        default=None,
        group="Engine",
    )
    state_rollback: str = argument(
        "For recurrent layers: whether a verification stores every state (keep) or only one (replay).",
        choices=get_args(Rollback),
        default="keep",
        group="Engine",
    )
    memory_fraction: MaybeReal = argument(
        "Share of device memory that the engine may use.",
        "SHARE",
        "--gpu-memory-utilization --mem-fraction-static",
        limits=(TINY, 1),
        shown="the engine's default for its version and the device",
        default=None,
        group="Engine",
    )
    max_num_seqs: MaybeWhole = argument(
        "Maximum number of requests that run at the same time.",
        "N",
        "--max-running-requests",
        limits=(1, arg.MOST_SEATS),
        shown="the engine's default for its version and the device",
        default=None,
        group="Engine",
    )
    max_num_batched_tokens: MaybeWhole = argument(
        "Token budget of one pass.",
        arg.TOKENS,
        limits=(2, 2**24),
        shown="the engine's default for its version and the device",
        default=None,
        group="Engine",
    )
    max_model_len: MaybeWhole = argument(
        "Maximum length of a sequence that the server accepts.",
        arg.TOKENS,
        shown="the model's own maximum",
        default=None,
        group="Engine",
    )

    nodes: str | None = argument(
        "Number of nodes x devices per node, such as 2x8; --tp then defaults to the total number of devices.",
        "NODESxDEVICES",
        read=parse_nodes,
        shown="one node, or as many as --tp and --pp need",
        default=None,
        group="Rack",
    )
    pp: Whole = argument(
        "Number of pipeline stages, each with --tp devices; the batch is divided among the stages.",
        "N",
        "--pipeline-parallel-size --pp-size",
        limits=(1, 256),
        default=1,
        group="Rack",
    )
    redundant_experts: Whole = argument(
        "Number of additional copies of experts, placed according to the load of the experts (EPLB).",
        "N",
        "--ep-num-redundant-experts",
        read=whole,
        limits=(0, 4096),
        default=0,
        group="Rack",
    )
    moe_imbalance: MaybeReal = argument(
        "Largest number of tokens on an expert-parallel rank, divided by the mean over all ranks.",
        "RATIO",
        limits=(1, 16),
        shown="1 on one node; the published value on racks",
        default=None,
        group="Rack",
    )
    overlap: str = argument(
        "two-batch overlaps the computation of one micro-batch with the communication of another; "
        "auto means none, the engines' default.",
        choices=OVERLAPS,
        default="auto",
        group="Rack",
    )
    all_to_all: str = argument(
        "How tokens reach their experts: gathered from all ranks, or sent by a dispatch library. "
        "auto uses the library only on several nodes.",
        "WAY",
        "--moe-a2a-backend",
        choices=ALL_TO_ALLS,
        default="auto",
        group="Rack",
    )

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments after reading. If `nodes` is given without `tp`, then `tp` becomes the number of
        devices per pipeline stage.
        """
        nodes = values.get("nodes")
        if nodes is None or values.get("tp") not in (1, (1,), None):
            return super().settled(values)
        devices = devices_of_nodes(nodes)
        stages = values.get("pp") or 1
        if devices % stages:
            raise InputError(f"--pp: must divide the {devices} devices of --nodes {nodes}, given {stages}")
        degree = devices // stages
        return super().settled(values | {"tp": degree if values.get("tp") == 1 else (degree,)})

    def query(self, **changes: Any) -> "Query":
        """A `Query` with the values of this question in the fields that both have.

        - changes: argument -> value that replaces the value of this question.
        """
        return Query(
            **{f.name: getattr(self, f.name) for f in fields(Query) if hasattr(self, f.name)} | changes
        )


@options
class Options(CommonOptions):
    """The arguments that questions about chains of drafted tokens share, such as draft, acceptance and
    parallel degrees.
    """

    _: KW_ONLY
    draft: str | None = argument(
        arg.WHO_DRAFTS,
        "self|KIND|NAME|PATH",
        "--draft-model --speculative-algorithm",
        shown="a published head that the engine runs; self if an acceptance or --draft-kv is given",
        default=None,
        group="Draft",
    )
    ep: arg.EP = argument(default=1)
    dp: arg.DP = argument(default=1)
    draft_tp: arg.DraftTP = argument(default=None)
    acceptance_rate: MaybeReal = argument(
        "Share of drafted tokens that are accepted at --gamma (engines log this share), instead of --alpha.",
        "SHARE",
        limits=SHARE,
        default=None,
        group="Acceptance",
    )
    tokens_per_iteration: arg.TokensPerIteration = argument(default=None)
    acceptance: arg.AcceptanceFile = argument(default=None)
    task: arg.Task = argument(default=None)
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments after reading, with `acceptance_rate` converted to tokens per iteration (1 + gamma x
        rate).
        """
        rate = values["acceptance_rate"]
        if rate is None:
            return super().settled(values)
        if any(values.get(name) is not None for name in arg.ACCEPTANCES):
            raise InputError("--acceptance-rate: must not be given with another acceptance")
        lengths = items(values.get("gamma"))
        if len(lengths) != 1 or lengths[0] is None or lengths[0] < 1:
            raise InputError("--acceptance-rate: needs --gamma N, the draft length at which it was counted")
        return super().settled(
            values | {"tokens_per_iteration": 1 + lengths[0] * rate, "acceptance_rate": None}
        )


@question
class Query(Options):
    """A question about one batch and one context. Every argument is also a flag of ``perfmodel whatif``.

    - gamma: None (or ``"auto"``) searches for the best draft length from 0 to `max_gamma`.
    - alpha, rate, tokens_per_iteration, acceptance: at most one of them may be given. `tokens_per_iteration`
      must have been measured at `gamma`, and `acceptance` is a file. Without them, the published acceptance
      of this target, draft and KV budget is used.
    - draft: None means ``self`` if an acceptance or `draft_kv` is given. Otherwise None means the first of
      three drafts that the engine runs: a draft that is published for the target, the target's own MTP layer,
      and an EAGLE-3 head.
    - weights, kv_dtype: None means the formats of the checkpoint.
    """

    batch: arg.Batch
    context: arg.Context
    gamma: arg.Gamma = argument(default=None)
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    rate: arg.ChainRate = argument(default=None)
    power_limit: arg.PowerLimit = argument(default=None)
    batch_range: arg.BatchRange = argument(default=DEFAULT_BATCH_RANGE)

    def check(self) -> None:
        super().check()
        if self.context_std:
            most = largest_std(self.context)
            self.within(
                "context_std",
                0,
                most,
                f"at most context / sqrt(3) = {most:.0f} (contexts are uniform about their mean)",
            )
        if self.gamma is not None:
            self.within("kv_reread", 1, self.gamma + 1, f"at most gamma + 1 = {self.gamma + 1}")


def acceptances_of(question: CommonOptions) -> list[str]:
    """The names of the acceptance arguments that the question states."""
    return [name for name in arg.ACCEPTANCES if getattr(question, name, None) is not None]
