"""The fitted parameters of serving engines: places in ``hardware/fitted/engines.yaml``, with the expectation
and the source of each.

Few rows determine little about one engine on one device. So every constant starts from an expectation with a
spread, and moves as far as its rows require. A constant that the data show to be common is one for all
engines, or for an architecture. Changes between versions are factors of each version on the engine's
constant, expected to be 1.
"""

from dataclasses import dataclass

from perfmodel.specs import DRIFT, ENGINES as STACKS


@dataclass(frozen=True, slots=True)
class PlacedConstant:
    """One fitted constant. place: as in `Engines.places`. spread: standard deviation of the logarithm. times:
    whether it multiplies the kernels' value, or that of other devices. source: where the value of a constant
    comes from that is stated and not fitted here. elsewhere: its value without the runs that determine it:
    from kernels, tables of engines, or a constant of the same work that other sources determine; 0 without
    any.
    """

    place: str
    expected: float
    spread: float
    times: bool = False
    source: str = ""
    elsewhere: float = 0.0

    @property
    def name(self) -> str:
        """The calibration constant."""
        return self.place.rpartition(".")[2]

    @property
    def scope(self) -> str:
        """Its scope: all, an architecture, a board, an engine, an engine on an architecture, or an engine
        from a version on.
        """
        return self.place.rpartition(".")[0]


def drift(engine: str, version: str, name: str, spread: float, expected: float = 1.0) -> PlacedConstant:
    """Factor on an engine's constant from a version on, until the next version that states it."""
    return PlacedConstant(f"{engine}{DRIFT}{version}.{name}", expected, spread, times=True)


ENGINES = {word: STACKS[word] for word in ("vllm", "trtllm", "sglang")}
"""Engines whose constants are fitted -> their titles."""
ARCHITECTURES = ("hopper", "blackwell")
DECODING = (
    PlacedConstant("vllm.small_kernel_s", 0.6, 0.35, times=True),
    PlacedConstant("trtllm.small_kernel_s", 0.45, 0.35, times=True),
    PlacedConstant("sglang.small_kernel_s", 0.45, 0.35, times=True),
    *(PlacedConstant(f"{engine}.quantise_s", 1.2, 0.25, times=True) for engine in ENGINES),
    *(PlacedConstant(f"{engine}.latent_layer_s", 8e-6, 1.0) for engine in ENGINES),
    drift("trtllm", "1.2.0rc6", "latent_layer_s", 1.5, expected=0.2),
    PlacedConstant("all.wide_norm_s", 3e-5, 0.7),
    drift("vllm", "0.18", "wide_norm_s", 0.5, expected=0.5),
    PlacedConstant("all.state_layer_s", 15e-6, 0.5),
    PlacedConstant("all.gemm_factor", 0.95, 0.08),
    *(PlacedConstant(f"{a}.gemm_factor_fp8", 1.1, 0.1) for a in ARCHITECTURES),
    PlacedConstant("all.expert_factor", 1.05, 0.12),
    *(PlacedConstant(f"sglang.{a}.expert_factor", 0.9, 0.2) for a in ARCHITECTURES),
    PlacedConstant("all.expert_popularity", 1.0, 0.4),
    *(PlacedConstant(f"{a}.attention_bandwidth_fraction", 0.85, 0.15, times=True) for a in ARCHITECTURES),
    PlacedConstant(
        "hopper.attention_bandwidth_fraction_fp8", 0.45, 0.2
    ),  # the tables of two devices differ for this kernel
    PlacedConstant("blackwell.attention_bandwidth_fraction_fp8", 0.85, 0.15, times=True),
    *(
        PlacedConstant(f"trtllm.{a}.attention_bandwidth_fraction_fp8", 1.0, 0.15, times=True)
        for a in ARCHITECTURES
    ),
    PlacedConstant("all.latent_bandwidth_fraction", 0.85, 0.15, times=True),
    PlacedConstant("all.latent_bandwidth_fraction_fp8", 0.85, 0.15, times=True),
    *(PlacedConstant(f"{a}.multiprocessor_bandwidth", 1.5, 0.2) for a in ARCHITECTURES),
)
SPECULATING = (
    PlacedConstant("all.iteration_fixed_s", 4e-4, 0.5),
    PlacedConstant("all.routing_independence", 0.6, 0.6),
    PlacedConstant("trtllm.hopper.routing_independence", 0.6, 0.6),  # DeepSeek-R1, of 256 experts
    PlacedConstant("all.kv_reread_per_query", 0.03, 0.2),
    PlacedConstant("blackwell.latent_reread_per_query", 0.7, 0.5),  # trtllm-gen reads once per query token
    PlacedConstant("sglang.iteration_fixed_s", 1e-3, 1.0),
    PlacedConstant("all.drafted_token_s", 1.5e-5, 1.0),
    PlacedConstant("trtllm.drafted_token_s", 1.5e-5, 1.0),
    PlacedConstant("vllm.host_piecewise_layer_s", 1e-4, 0.5),  # as host_layer_s
    drift("vllm", "0.22", "drafted_token_s", 0.8),
    PlacedConstant("h100-sxm-94gb.gemm_flops_factor", 1.0, 0.15),
)

QWEN = "QwenLM/Qwen3@4da996c speed_benchmark.rst"
_FA3 = "16 steps of vLLM's blog of 2026-04-22; FlashAttention 3 in vllm-project/vllm#43232"
_CDNA = ("cdna3", "cdna4")
_EXTEND = (
    "MI350X, 16K: Triton's extend kernel verifies four tokens on 536 MB of K and V in 0.79 ms, "
    "sgl-project/sglang#27382"
)
_UNCUT_RDNA = (
    "two R9700, Qwen3.6-35B-A3B with MTP 3: an iteration takes 23 ms more at 7,000 tokens than with a split "
    "cache, vllm-project/vllm#51995"
)
_CDNA3 = "42 runs of 8 models on MI300X and MI325X: sgl-cookbook, sglang, InferenceX (left_out.py, all rows)"
_CDNA3_PEAK = 0.65
"""Share of the peak that large 16-bit GEMMs reach on an MI300X over that on Hopper: 620 of 1,307 and 720 of
989 TFLOP/s (SemiAnalysis, MI300X vs H100 vs H200, 2024-12; recalled).
"""
_GDDR = (
    "RTX 3090 (noonghunna/club-3090, syv-ai/qwen38-27b-rtx3090), RTX 4090 (pegainfer-project/pegainfer#69), "
    "RTX PRO 6000 (vllm-project/vllm#56128): 11 steps, 20 % too slow with the kernels of data-centre devices"
)
_PIECEWISE = (
    "passes of draft models and verifications in pieces of CUDA graphs, about 0.28 ms a layer: "
    "local-inference-lab/rtx6kpro (Qwen3.5-397B, FlashInfer)"
)
_SGLANG_0_5_15 = "11 steps of Qwen3.5 (35B and 397B) on B200 and B300, sgl-cookbook of SGLang 0.5.15"
_STATE_VERIFY_S = 5.5e-5
"""Time of a recurrent layer for several query tokens, one after the other, on devices without own rows."""
_SM120_STATE_VERIFY_S = 8e-5
"""The same on devices of compute capability 12."""


def _of_h20(board: str) -> tuple[PlacedConstant, ...]:
    """Constants of GEMMs on an H20, whose two boards differ in memory alone."""
    source = f"20 steps of {QWEN}; alibaba/InferSim@f2293dab bench_data/gemm/h20: 0.37 to 0.40 of 4 TB/s"
    return (
        PlacedConstant(f"{board}.gemm_factor", 0.383, 0.1, True, source, elsewhere=0.39),
        PlacedConstant(f"{board}.gemm_factor_fp8", 1.22, 0.1, True, source),
        PlacedConstant(f"{board}.gemm_flops_factor", 3.2, 0.1, source=source, elsewhere=2.56),
    )


PUBLIC = (
    PlacedConstant("gddr.gemm_factor", 1.17, 0.1, True, _GDDR),
    PlacedConstant("gddr.small_kernel_s", 0.75, 0.3, True, _GDDR),
    PlacedConstant("gddr.state_layer_s", 0.75, 0.3, True, _GDDR),
    PlacedConstant(
        "vllm.rtx-3090-24gb.state_verify_s",
        4.5e-4,
        0.5,
        source="noonghunna/club-3090: Qwen3.5-27B with MTP takes 40.5 and 42.8 ms an iteration, 20 ms more "
        "than its passes without; Qwen3.6-35B-A3B 17 to 26 ms more",
        elsewhere=_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "vllm.pass_fixed_s",
        1.42e-3,
        0.33,
        source=f"38 steps of {QWEN} and FreedomIntelligence/AccelMark@5797fc4, vLLM 0.4.2 to 0.7.3: "
        "the host works between passes",
    ),
    PlacedConstant(
        "vllm.sm120.state_verify_s",
        _SM120_STATE_VERIFY_S,
        0.5,
        source="local-inference-lab/rtx6kpro: Qwen3.5-397B with MTP on RTX PRO 6000, 3 to 5 ms an iteration"
        " more than its passes without",
        elsewhere=_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "all.state_verify_s",
        _STATE_VERIFY_S,
        0.5,
        source="sgl-project/SpecForge@a6b6b023: Qwen3-Next with EAGLE-3 on H200, 2 to 3 ms an iteration more "
        "than its passes without",
        elsewhere=_SM120_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "vllm@0.28/sm120.gemm_factor_fp4",
        1.37,
        0.15,
        True,
        "vllm 0.28 model_executor/kernels/linear: b12x kernels of nvfp4, 0.81 to 0.85 of the bandwidth of an "
        "RTX 5090 (Qwen3.8-27B)",
        elsewhere=1.5,  # fp8 over nvfp4 in the tables of an RTX PRO 6000: 0.81 and 0.54 of its bandwidth
    ),
    PlacedConstant(
        "vllm@0.8.pass_fixed_s",
        0.01,
        1.0,
        True,
        "engine V1, the default from 0.8 on: its costs are `schedule_s` and those of the host",
        elsewhere=0.01,
    ),
    PlacedConstant("vllm@0.16.host_piecewise_layer_s", 3.0, 0.3, True, _PIECEWISE),
    PlacedConstant(
        "sglang@0.0.small_kernel_s",
        2.82,
        0.36,
        True,
        f"20 steps of {QWEN}, SGLang 0.4.6",
        elsewhere=2.16,  # vllm.small_kernel_s over sglang's: kernels that later releases fuse
    ),
    PlacedConstant(
        "sglang@0.5.small_kernel_s", 1.0, 0.1, True, "versions from 0.5.5 on are those fitted", elsewhere=1.0
    ),
    PlacedConstant(
        "sglang@0.5.6.iteration_fixed_s",
        0.386,
        0.2,
        True,
        "48 ratios of six models with EAGLE-3 on H200, sgl-project/SpecForge@a6b6b023 (dashboard); "
        "a model left out is 7 % off on average",
    ),
    PlacedConstant(
        "all.block_bandwidth",
        1.3,
        0.35,
        source="one block of Triton, over bandwidth per multiprocessor: vllm#58156 (2.8), #51995 (0.6)",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "sglang.sm120.block_bandwidth",
        0.88,
        0.2,
        source="local-inference-lab/rtx6kpro, Qwen3.5-397B on RTX PRO 6000 with Triton: 7.7 ns a token for 8"
        " pieces of 512 bytes",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "all.shared_allreduce_s",
        4.2e-5,
        0.1,
        source="NCCL without NVLink, messages of 8 B to 10 KB: RTX 5070 Ti 39, RTX 4090 42, RTX 6000D 45 us",
        elsewhere=4.2e-5,
    ),
    PlacedConstant(
        "rtx-5090-32gb.shared_allreduce_s",
        1.8e-5,
        0.2,
        source="noonghunna/club-3090 (paulp83): two RTX 5090 on a desktop with PCIe 5",
        elsewhere=4.2e-5,
    ),
    PlacedConstant(
        "all.shared_allreduce_byte_s",
        5.2e-10,
        1.0,
        source="RTX 5070 Ti over PCIe 4: 10.9 ms for 21 MB",
        elsewhere=5.2e-10,
    ),
    *_of_h20("h20-sxm-96gb"),
    *_of_h20("h20-sxm-141gb"),
    PlacedConstant("sglang@0.5.15.state_layer_s", 0.24, 0.7, True, _SGLANG_0_5_15),
    PlacedConstant("sglang@0.5.15.gemm_fixed_s", 0.62, 0.3, True, _SGLANG_0_5_15),
    PlacedConstant("sglang@0.5.15.quantise_s", 0.57, 0.4, True, _SGLANG_0_5_15),
    PlacedConstant("vllm@0.19/hopper.attention_bandwidth_fraction", 1.12, 0.1, True, _FA3),
    PlacedConstant("vllm@0.19/hopper.attention_bandwidth_fraction_fp8", 1.6, 0.2, True, _FA3),
    PlacedConstant(
        "vllm@0.26.wide_norm_s",
        0.05,
        1.0,
        True,
        "sums and norms in one kernel, minimax_allreduce_rms_qk: vllm 0.26.0, layers/minimax_rms_norm/"
        "rms_norm_tp.py:226",
        elsewhere=0.05,
    ),
    PlacedConstant("cdna3.gemm_factor", 1.074, 0.18, True, _CDNA3),
    PlacedConstant("cdna3.gemm_flops_factor", 0.632, 0.39, source=_CDNA3, elsewhere=_CDNA3_PEAK),
    *(
        PlacedConstant(f"{scope}.uncut_bandwidth", 0.34, 0.35, source=_EXTEND, elsewhere=0.31)
        for scope in _CDNA
    ),
    PlacedConstant("rdna4.uncut_bandwidth", 0.31, 0.35, source=_UNCUT_RDNA, elsewhere=0.34),
    PlacedConstant("sglang.cdna3.gemm_flops_factor", 0.281, 0.39, source=_CDNA3, elsewhere=_CDNA3_PEAK),
    PlacedConstant("sglang.cdna3.small_kernel_s", 3.5, 0.65, True, _CDNA3),
    PlacedConstant("sglang.cdna3.quantise_s", 11.3, 0.53, True, _CDNA3),
    PlacedConstant("sglang.cdna3.expert_factor", 1.85, 0.16, True, _CDNA3),
    PlacedConstant("sglang.cdna3.latent_layer_s", 0.974, 1.0, True, _CDNA3),
    PlacedConstant("sglang.cdna3.attention_bandwidth_fraction", 0.534, 0.2, True, _CDNA3),
    PlacedConstant("sglang@0.5.12/cdna3.small_kernel_s", 2.3, 0.3, True, _CDNA3),
    PlacedConstant("sglang@0.5.12/cdna3.quantise_s", 0.132, 0.39, True, _CDNA3),
    PlacedConstant("sglang@0.5.12/cdna3.expert_factor", 0.844, 0.21, True, _CDNA3),
    PlacedConstant("sglang@0.5.12/cdna3.latent_layer_s", 0.384, 0.5, True, _CDNA3),
)
"""Constants that the fitted rows do not determine. They are set from public runs, each with its source."""
_COOKBOOK = "sgl-project/sgl-cookbook@7b5bd9c0: 14 steps of 6 models on B200, H100 and H200 under plain flags"
_HOST = (
    "steps that do not depend on the device or the context, vLLM 0.8 to 0.10.2: sariekr/gpu_conc (gpt-oss-20b"
    " on H200 and B200), DeepSeek-R1 AWQ on 8 H100 (16.1 ms from 192 to 8,000 tokens)"
)
_TRITON_EXPERTS = 3e-5
"""`vllm.hopper.expert_layer_s`: other engines and devices run the same Triton kernels of experts."""
DEFAULT_FLAGS = (
    PlacedConstant("vllm.host_pass_s", 2.2e-3, 0.3, source=_HOST, elsewhere=1.42e-3),  # vllm.pass_fixed_s
    PlacedConstant("vllm.host_layer_s", 1e-4, 0.3, source=_HOST, elsewhere=9.4e-5),  # host_piecewise_layer_s
    PlacedConstant("vllm.host_latent_layer_s", 2.2e-4, 0.3, source=_HOST),
    PlacedConstant(
        "vllm.schedule_s",
        6e-4,
        0.5,
        source="vLLM 0.8 to 0.13 without asynchronous scheduling: the host works between passes",
    ),
    PlacedConstant("vllm@0.0.schedule_s", 0.01, 1.0, True, "part of pass_fixed_s before 0.8", elsewhere=0.01),
    PlacedConstant(
        "vllm@0.8.schedule_s", 1.0, 0.1, True, "versions 0.8 to 0.13 are those meant", elsewhere=1.0
    ),
    PlacedConstant(
        "vllm@0.14.schedule_s",
        0.01,
        1.0,
        True,
        "asynchronous scheduling, the default from 0.14 on (config/scheduler.py:133)",
        elsewhere=0.01,
    ),
    PlacedConstant(
        "sglang.blackwell.expert_layer_s", 2.4e-5, 0.5, source=_COOKBOOK, elsewhere=_TRITON_EXPERTS
    ),
    PlacedConstant("sglang.hopper.expert_layer_s", 1e-5, 0.8, source=_COOKBOOK, elsewhere=_TRITON_EXPERTS),
    PlacedConstant("sglang.cdna3.expert_layer_s", 1e-6, 1.0, source=f"{_CDNA3}, part of its expert_factor"),
    PlacedConstant(
        "sglang@0.5.10/blackwell.expert_layer_s",
        1.0,
        0.1,
        True,
        "Triton's experts as before; `tuned_experts` tells kernels without this cost apart",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "vllm.hopper.expert_layer_s",
        _TRITON_EXPERTS,
        0.4,
        source="11 steps of gpustack and vLLM's blog of 2026-04-22",
    ),
    PlacedConstant(
        "vllm.sm120.expert_layer_s",
        3e-5,
        0.5,
        source="10 steps of Qwen3.5-397B on RTX PRO 6000 with vLLM 0.17, local-inference-lab/rtx6kpro; as on "
        "Hopper",
        elsewhere=_TRITON_EXPERTS,
    ),
    PlacedConstant(
        "vllm@0.20.expert_layer_s",
        0.05,
        1.0,
        True,
        "8 steps of gpt-oss-120b on H200, engine_decode.csv",
        elsewhere=0.05,
    ),
)
"""Costs of engines with their default flags, in addition to the tuned runs of the fit (InferenceX). Those
rows do not include these costs; every answer does.
"""
