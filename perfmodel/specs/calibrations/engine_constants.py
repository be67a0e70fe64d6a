"""Constants that serving engines need beside those of a research stack; a calibration without them has none
of it.
"""

from collections.abc import Iterator
from typing import Annotated

from perfmodel.specs.boundary.frozen import Constrained, Frozen, Text
from perfmodel.specs.calibrations.constants import Constant, Knots, optional

ONE = Constant.model_construct(value=1.0, source="not part of this calibration")
"""What a factor is in a calibration that does not state it."""


class Curves(Frozen):
    """A curve for each number format, as `formats.Format.name` has it."""

    knots: dict[str, Knots]
    source: Text

    def values(self) -> Iterator[float]:
        """Every number that must lie within the constant's bounds."""
        return (value for knots in self.knots.values() for _, value in knots)


class ExpertKernel(Frozen):
    """Routed experts of one layer in one format: a start, and shares of bandwidth and of the peak it computes
    at.
    """

    fixed_s: Annotated[float, Constrained(ge=0, le=10)]
    bandwidth_fraction: Annotated[float, Constrained(gt=0, le=2)]
    flops_fraction: Annotated[float, Constrained(gt=0, le=2)]
    median_error: Annotated[float, Constrained(ge=0)] | None = None


class ExpertKernels(Frozen):
    """`ExpertKernel` by weight format. Loading and computing add up: few tokens an expert fill no tile."""

    kernels: dict[str, ExpertKernel]
    source: Text

    def values(self) -> Iterator[float]:
        """Every number that must lie within the constant's bounds."""
        return (
            each
            for k in self.kernels.values()
            for each in (k.fixed_s, k.bandwidth_fraction, k.flops_fraction)
        )


class EngineConstants(Frozen):
    """What `Calibration` has for serving engines (vLLM, TensorRT-LLM, SGLang)."""

    gemm_efficiency: Curves | None = optional(
        "linear",
        "param_load",
        "factor",
        "share of the roofline that GEMMs reach, for both shares",
        default=None,
    )
    gemm_factor: Constant = optional(
        "linear", "param_load", "factor", "multiplies `gemm_efficiency`", default=ONE
    )
    gemm_factor_fp8: Constant = optional(
        "linear", "param_load", "factor", "multiplies it for fp8 with no block scales", default=ONE
    )
    gemm_flops_factor: Constant = optional(
        "linear", "flops", "factor", "multiplies it where computing takes longer than loading", default=ONE
    )
    quantise_s: Constant = optional(
        "linear", "fixed", "s", "time of each kernel that quantises the inputs of a GEMM"
    )
    expert_kernels: ExpertKernels | None = optional(
        "linear",
        "param_load",
        "factor",
        "routed experts and routing by weight format; else GEMMs",
        default=None,
    )
    expert_factor: Constant = optional(
        "linear", "param_load", "factor", "multiplies experts' time", default=ONE
    )
    expert_popularity: Constant = optional(
        "linear", "param_load", "count", "shape of the gamma distribution of experts' shares; 0: all alike"
    )
    routing_independence: Constant = optional(
        "linear",
        "param_load",
        "factor",
        "share of further query tokens that route as another sequence's",
        default=ONE,
    )
    attention_bandwidth_fraction_fp8: Constant = optional(
        "attention", "kv_load", "factor", "the same over a cache of 8 bits; 0: as over 16"
    )
    latent_bandwidth_fraction: Constant = optional(
        "attention", "kv_load", "factor", "the same over a latent cache (MLA); 0: as over any other"
    )
    latent_bandwidth_fraction_fp8: Constant = optional(
        "attention", "kv_load", "factor", "the same over a latent cache of 8 bits; 0: as over 16"
    )
    latent_reread_per_query: Constant = optional(
        "attention", "kv_load", "share", "`kv_reread_per_query` of a latent cache; 0: as over any other"
    )
    latent_layer_s: Constant = optional(
        "attention", "fixed", "s", "further time of each layer with a latent cache"
    )
    index_bandwidth_fraction: Constant = optional(
        "attention", "kv_load", "factor", "the same over the keys of an indexer; 0: as over any other"
    )
    index_layer_s: Constant = optional(
        "attention", "fixed", "s", "further time of each layer with an indexer"
    )
    index_token_s: Constant = optional(
        "attention", "fixed", "s", "further time of each token in each layer with an indexer"
    )
    state_layer_s: Constant = optional("attention", "fixed", "s", "further time of each recurrent layer")
    multiprocessor_bandwidth: Constant = optional(
        "attention",
        "kv_load",
        "factor",
        "one multiprocessor's share of bandwidth, for the longest sequence; 0: none",
    )
    wide_norm_s: Constant = optional(
        "allreduce", "fixed", "s", "further time of each layer that norms queries and keys over all heads"
    )
    drafted_token_s: Constant = optional(
        "pass", "fixed", "s", "time of each token that a draft's pass runs, of all sequences"
    )
    graph_tokens: tuple[int, int] | None = None
    """(step, last): CUDA graphs hold 1, 2, 4 or a multiple of `step` tokens up to `last`."""
