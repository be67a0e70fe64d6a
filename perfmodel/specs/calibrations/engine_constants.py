"""The constants that serving engines need in addition to the constants of a research stack. A calibration
that does not state a constant does not have its cost.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Positive, Text
from perfmodel.specs.calibrations.constants import ABSENT, Constant, Declared, Knots, check_curves

ONE = Constant(value=1.0, source="not part of this calibration")
"""The value of a factor that a calibration does not state."""


class Curves(Frozen):
    """One curve for each number format. The keys are values of `formats.Format.name`."""

    knots: dict[str, Knots]
    source: Text

    def __post_init__(self) -> None:
        check_curves(self.knots)
        if not self.knots:
            raise ValueError("knots must be given for one format or more")

    def numbers(self) -> Iterator[float]:
        """All numbers that must be within the bounds of the constant."""
        return (value for knots in self.knots.values() for _, value in knots)


class ExpertKernel(Frozen):
    """The constants of the routed experts of one layer with one weight format: a fixed time, and the reached
    shares of the bandwidth and of the format's peak.

    - routed_passes: number of times that the kernels read or write the 16-bit hidden vectors of the tokens. A
      vector counts once for each expert of its token.
    """

    fixed_s: Annotated[float, Meta(ge=0, le=10)]
    bandwidth_fraction: Annotated[float, Meta(gt=0, le=2)]
    flops_fraction: Annotated[float, Meta(gt=0, le=2)]
    routed_passes: Annotated[float, Meta(ge=0, le=100)] = 0.0
    median_error: Annotated[float, Meta(ge=0)] | None = None


class ExpertKernels(Frozen):
    """The constants of expert kernels by weight format. The times of loading and computing add up, because
    the few tokens of an expert do not fill a tile.

    - prompts: constants of the same kernels in passes over prompts, which have more tokens. By default they
      are those in `kernels`.
    """

    kernels: dict[str, ExpertKernel]
    source: Text
    prompts: dict[str, ExpertKernel] = {}

    def __post_init__(self) -> None:
        if not self.kernels:
            raise ValueError("kernels must be given for one format or more")

    def numbers(self) -> Iterator[float]:
        """All numbers that must be within the bounds of the constant."""
        return (
            each
            for k in (*self.kernels.values(), *self.prompts.values())
            for each in (k.fixed_s, k.bandwidth_fraction, k.flops_fraction)
        )


class EngineConstants(Frozen):
    """The constants of `Calibration` for serving engines (vLLM, TensorRT-LLM, SGLang)."""

    gemm_efficiency: Annotated[
        Curves | None,
        Declared(
            "linear",
            "param_load",
            "factor",
            "share of the roofline that GEMMs reach, both for loading and for computing",
        ),
    ] = None
    gemm_factor: Annotated[
        Constant, Declared("linear", "param_load", "factor", "multiplies `gemm_efficiency`")
    ] = ONE
    gemm_factor_fp8: Annotated[
        Constant,
        Declared(
            "linear", "param_load", "factor", "multiplies `gemm_efficiency` for fp8 without block scales"
        ),
    ] = ONE
    gemm_factor_fp4: Annotated[
        Constant,
        Declared("linear", "param_load", "factor", "multiplies `gemm_efficiency` for GEMMs at the fp4 peak"),
    ] = ONE
    gemm_flops_factor: Annotated[
        Constant,
        Declared(
            "linear", "flops", "factor", "multiplies `gemm_efficiency` if computing takes longer than loading"
        ),
    ] = ONE
    gemm_row_factor: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "factor",
            "multiplies the time of GEMMs with one row, which use other kernels",
        ),
    ] = ONE
    quantise_s: Annotated[
        Constant, Declared("linear", "fixed", "s", "time of each kernel that quantises the inputs of a GEMM")
    ] = ABSENT
    expert_kernels: Annotated[
        ExpertKernels | None,
        Declared(
            "linear",
            "param_load",
            "factor",
            "constants of the kernels of routed experts and routing, by weight format; by default those of "
            "GEMMs",
        ),
    ] = None
    expert_factor: Annotated[
        Constant, Declared("linear", "param_load", "factor", "multiplies the time of the expert kernels")
    ] = ONE
    expert_layer_s: Annotated[
        Constant,
        Declared(
            "linear", "fixed", "s", "extra time per expert layer if the engine runs with its default flags"
        ),
    ] = ABSENT
    expert_alone_tokens: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "count",
            "largest number of tokens in a pass for which each token reads its own experts",
        ),
    ] = ABSENT
    expert_popularity: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "count",
            "shape of the gamma distribution of the popularity of experts; 0 means equal popularity",
        ),
    ] = ABSENT
    routing_independence: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "factor",
            "share of the query tokens after the first that are routed independently",
        ),
    ] = ONE
    attention_bandwidth_fraction_fp8: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "`attention_bandwidth_fraction` for an 8-bit cache; 0 means the same value as for other formats",
        ),
    ] = ABSENT
    latent_bandwidth_fraction: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "`attention_bandwidth_fraction` for a latent cache (MLA); 0 means the same value as for other "
            "caches",
        ),
    ] = ABSENT
    latent_bandwidth_fraction_fp8: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "`latent_bandwidth_fraction` for an 8-bit cache; 0 means the same value as for other formats",
        ),
    ] = ABSENT
    latent_flops_fraction: Annotated[
        Constant,
        Declared(
            "attention",
            "flops",
            "factor",
            "`attention_flops_fraction` for a latent cache; 0 means the same value as for other caches",
        ),
    ] = ABSENT
    latent_reread_per_query: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "share",
            "`kv_reread_per_query` for a latent cache; 0 means the same value as for other caches",
        ),
    ] = ABSENT
    latent_layer_s: Annotated[
        Constant, Declared("attention", "fixed", "s", "extra time per layer with a latent cache")
    ] = ABSENT
    index_bandwidth_fraction: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "`attention_bandwidth_fraction` for the keys of an indexer; 0 means the same value as for the "
            "KV cache",
        ),
    ] = ABSENT
    index_layer_s: Annotated[
        Constant, Declared("attention", "fixed", "s", "extra time per layer with an indexer")
    ] = ABSENT
    index_token_s: Annotated[
        Constant,
        Declared("attention", "fixed", "s", "extra time per token in each layer with an indexer"),
    ] = ABSENT
    state_layer_s: Annotated[
        Constant, Declared("attention", "fixed", "s", "extra time per recurrent layer")
    ] = ABSENT
    state_verify_s: Annotated[
        Constant,
        Declared(
            "attention", "fixed", "s", "extra time per recurrent layer if a pass has several query tokens"
        ),
    ] = ABSENT
    scan_copies: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "multiplies the bytes of Mamba-2 states, which some engines gather, scan and copy back",
        ),
    ] = ONE
    multiprocessor_bandwidth: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "share of its bandwidth that one multiprocessor reaches on the longest sequence; 0 means not "
            "used",
        ),
    ] = ABSENT
    block_bandwidth: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "share of its bandwidth that one multiprocessor reaches on a cache cut into few pieces; 0 "
            "means not used",
        ),
    ] = ABSENT
    uncut_bandwidth: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "factor",
            "block_bandwidth of passes with several query tokens that read the cache in one piece; 0 means "
            "the value of block_bandwidth",
        ),
    ] = ABSENT
    wide_norm_s: Annotated[
        Constant,
        Declared(
            "allreduce", "fixed", "s", "extra time per layer that normalises queries and keys over all heads"
        ),
    ] = ABSENT
    shared_allreduce_s: Annotated[
        Constant,
        Declared(
            "allreduce",
            "comm",
            "s",
            "minimum time of an all-reduce through host memory, for devices without peer access",
        ),
    ] = ABSENT
    shared_allreduce_byte_s: Annotated[
        Constant,
        Declared("allreduce", "comm", "s", "time per message byte of an all-reduce through host memory"),
    ] = ABSENT
    drafted_token_s: Annotated[
        Constant,
        Declared("pass", "fixed", "s", "time for each token in a draft pass, counted over all sequences"),
    ] = ABSENT
    schedule_s: Annotated[
        Constant,
        Declared("pass", "fixed", "s", "host time between passes if scheduling is not asynchronous"),
    ] = ABSENT
    host_pass_s: Annotated[
        Constant,
        Declared("pass", "host", "s", "host time per pass in which the host launches attention"),
    ] = ABSENT
    host_layer_s: Annotated[
        Constant,
        Declared(
            "pass", "host", "s", "extra host time per layer of a pass in which the host launches attention"
        ),
    ] = ABSENT
    host_latent_layer_s: Annotated[
        Constant,
        Declared(
            "pass",
            "host",
            "s",
            "`host_layer_s` for a latent cache (MLA); 0 means the same value as for other caches",
        ),
    ] = ABSENT
    host_piecewise_layer_s: Annotated[
        Constant,
        Declared(
            "pass",
            "host",
            "s",
            "host time per layer of a pass that CUDA graphs capture only in pieces",
        ),
    ] = ABSENT
    graph_tokens: tuple[Positive, Positive] | None = None
    """The pair (step, last): CUDA graphs are captured for 1, 2, 4 and the multiples of `step` tokens, up to
    `last`.
    """
