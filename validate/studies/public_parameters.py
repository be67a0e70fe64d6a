"""Lists the constants of engines that the fits of `engines` do not determine. They are set by hand from
public runs, and each constant names its source.
"""

from perfmodel.validate.studies.parameters import PlacedConstant

_QWEN = "QwenLM/Qwen3@4da996c speed_benchmark.rst"
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
CDNA3 = "42 runs of 8 models on MI300X and MI325X: sgl-cookbook, sglang, InferenceX (left_out.py, all rows)"
_CDNA3_PEAK = 0.65
"""Quotient of two shares of the peak that large 16-bit GEMMs reach: on an MI300X (620 of 1,307 TFLOP/s) and
on Hopper (720 of 989 TFLOP/s). Source: SemiAnalysis, MI300X vs H100 vs H200, 2024-12; recalled.
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
"""Seconds by which a recurrent layer takes longer if it verifies several tokens one after another, on devices
without their own measurements.
"""
_SM120_STATE_VERIFY_S = 8e-5
"""The same seconds on devices of compute capability 12."""


def _of_h20(board: str) -> tuple[PlacedConstant, ...]:
    """Constants of GEMMs on an H20. The two boards of the H20 differ only in memory."""
    source = f"20 steps of {_QWEN}; alibaba/InferSim@f2293dab bench_data/gemm/h20: 0.37 to 0.40 of 4 TB/s"
    return (
        PlacedConstant(
            f"{board}.gemm_factor", expected=0.383, spread=0.1, times=True, source=source, elsewhere=0.39
        ),
        PlacedConstant(f"{board}.gemm_factor_fp8", expected=1.22, spread=0.1, times=True, source=source),
        PlacedConstant(f"{board}.gemm_flops_factor", expected=3.2, spread=0.1, source=source, elsewhere=2.56),
    )


PUBLIC = (
    PlacedConstant("gddr.gemm_factor", expected=1.17, spread=0.1, times=True, source=_GDDR),
    PlacedConstant("gddr.small_kernel_s", expected=0.75, spread=0.3, times=True, source=_GDDR),
    PlacedConstant("gddr.state_layer_s", expected=0.75, spread=0.3, times=True, source=_GDDR),
    PlacedConstant(
        "vllm.rtx-3090-24gb.state_verify_s",
        expected=4.5e-4,
        spread=0.5,
        source="noonghunna/club-3090: Qwen3.5-27B with MTP takes 40.5 and 42.8 ms an iteration, 20 ms more "
        "than its passes without; Qwen3.6-35B-A3B 17 to 26 ms more",
        elsewhere=_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "vllm.pass_fixed_s",
        expected=1.42e-3,
        spread=0.33,
        source=f"38 steps of {_QWEN} and FreedomIntelligence/AccelMark@5797fc4, vLLM 0.4.2 to 0.7.3: "
        "the host works between passes",
    ),
    PlacedConstant(
        "vllm.sm120.state_verify_s",
        expected=_SM120_STATE_VERIFY_S,
        spread=0.5,
        source="local-inference-lab/rtx6kpro: Qwen3.5-397B with MTP on RTX PRO 6000, 3 to 5 ms an iteration"
        " more than its passes without",
        elsewhere=_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "all.state_verify_s",
        expected=_STATE_VERIFY_S,
        spread=0.5,
        source="sgl-project/SpecForge@a6b6b023: Qwen3-Next with EAGLE-3 on H200, 2 to 3 ms an iteration more "
        "than its passes without",
        elsewhere=_SM120_STATE_VERIFY_S,
    ),
    PlacedConstant(
        "vllm@0.28/sm120.gemm_factor_fp4",
        expected=1.37,
        spread=0.15,
        times=True,
        source="vllm 0.28 model_executor/kernels/linear: b12x kernels of nvfp4, 0.81 to 0.85 of the "
        "bandwidth of an RTX 5090 (Qwen3.8-27B)",
        elsewhere=1.5,  # fp8 over nvfp4 in the tables of an RTX PRO 6000: 0.81 and 0.54 of its bandwidth
    ),
    PlacedConstant(
        "vllm@0.8.pass_fixed_s",
        expected=0.01,
        spread=1.0,
        times=True,
        source="engine V1, the default from 0.8 on: its costs are `schedule_s` and those of the host",
        elsewhere=0.01,
    ),
    PlacedConstant(
        "vllm@0.16.host_piecewise_layer_s", expected=3.0, spread=0.3, times=True, source=_PIECEWISE
    ),
    PlacedConstant(
        "sglang@0.0.small_kernel_s",
        expected=2.82,
        spread=0.36,
        times=True,
        source=f"20 steps of {_QWEN}, SGLang 0.4.6",
        elsewhere=2.16,  # vllm.small_kernel_s over sglang's: kernels that later releases fuse
    ),
    PlacedConstant(
        "sglang@0.5.small_kernel_s",
        expected=1.0,
        spread=0.1,
        times=True,
        source="versions from 0.5.5 on are those fitted",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "sglang@0.5.6.iteration_fixed_s",
        expected=0.386,
        spread=0.2,
        times=True,
        source="48 ratios of six models with EAGLE-3 on H200, sgl-project/SpecForge@a6b6b023 (dashboard); "
        "a model left out is 7 % off on average",
    ),
    PlacedConstant(
        "all.block_bandwidth",
        expected=1.3,
        spread=0.35,
        source="one block of Triton, over bandwidth per multiprocessor: vllm#58156 (2.8), #51995 (0.6)",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "sglang.sm120.block_bandwidth",
        expected=0.88,
        spread=0.2,
        source="local-inference-lab/rtx6kpro, Qwen3.5-397B on RTX PRO 6000 with Triton: 7.7 ns a token for 8"
        " pieces of 512 bytes",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "all.shared_allreduce_s",
        expected=4.2e-5,
        spread=0.1,
        source="NCCL without NVLink, messages of 8 B to 10 KB: RTX 5070 Ti 39, RTX 4090 42, RTX 6000D 45 us",
        elsewhere=4.2e-5,
    ),
    PlacedConstant(
        "rtx-5090-32gb.shared_allreduce_s",
        expected=1.8e-5,
        spread=0.2,
        source="noonghunna/club-3090 (paulp83): two RTX 5090 on a desktop with PCIe 5",
        elsewhere=4.2e-5,
    ),
    PlacedConstant(
        "all.shared_allreduce_byte_s",
        expected=5.2e-10,
        spread=1.0,
        source="RTX 5070 Ti over PCIe 4: 10.9 ms for 21 MB",
        elsewhere=5.2e-10,
    ),
    *_of_h20("h20-sxm-96gb"),
    *_of_h20("h20-sxm-141gb"),
    PlacedConstant(
        "sglang@0.5.15.state_layer_s", expected=0.24, spread=0.7, times=True, source=_SGLANG_0_5_15
    ),
    PlacedConstant(
        "sglang@0.5.15.gemm_fixed_s", expected=0.62, spread=0.3, times=True, source=_SGLANG_0_5_15
    ),
    PlacedConstant("sglang@0.5.15.quantise_s", expected=0.57, spread=0.4, times=True, source=_SGLANG_0_5_15),
    PlacedConstant(
        "vllm@0.19/hopper.attention_bandwidth_fraction", expected=1.12, spread=0.1, times=True, source=_FA3
    ),
    PlacedConstant(
        "vllm@0.19/hopper.attention_bandwidth_fraction_fp8", expected=1.6, spread=0.2, times=True, source=_FA3
    ),
    PlacedConstant(
        "vllm@0.26.wide_norm_s",
        expected=0.05,
        spread=1.0,
        times=True,
        source="sums and norms in one kernel, minimax_allreduce_rms_qk: vllm 0.26.0, layers/minimax_rms_norm/"
        "rms_norm_tp.py:226",
        elsewhere=0.05,
    ),
    PlacedConstant("cdna3.gemm_factor", expected=1.074, spread=0.18, times=True, source=CDNA3),
    PlacedConstant(
        "cdna3.gemm_flops_factor", expected=0.632, spread=0.39, source=CDNA3, elsewhere=_CDNA3_PEAK
    ),
    *(
        PlacedConstant(f"{scope}.uncut_bandwidth", expected=0.34, spread=0.35, source=_EXTEND, elsewhere=0.31)
        for scope in _CDNA
    ),
    PlacedConstant("rdna4.uncut_bandwidth", expected=0.31, spread=0.35, source=_UNCUT_RDNA, elsewhere=0.34),
    PlacedConstant(
        "sglang.cdna3.gemm_flops_factor", expected=0.281, spread=0.39, source=CDNA3, elsewhere=_CDNA3_PEAK
    ),
    PlacedConstant("sglang.cdna3.small_kernel_s", expected=3.5, spread=0.65, times=True, source=CDNA3),
    PlacedConstant("sglang.cdna3.quantise_s", expected=11.3, spread=0.53, times=True, source=CDNA3),
    PlacedConstant("sglang.cdna3.expert_factor", expected=1.85, spread=0.16, times=True, source=CDNA3),
    PlacedConstant("sglang.cdna3.latent_layer_s", expected=0.974, spread=1.0, times=True, source=CDNA3),
    PlacedConstant(
        "sglang.cdna3.attention_bandwidth_fraction", expected=0.534, spread=0.2, times=True, source=CDNA3
    ),
    PlacedConstant("sglang@0.5.12/cdna3.small_kernel_s", expected=2.3, spread=0.3, times=True, source=CDNA3),
    PlacedConstant("sglang@0.5.12/cdna3.quantise_s", expected=0.132, spread=0.39, times=True, source=CDNA3),
    PlacedConstant(
        "sglang@0.5.12/cdna3.expert_factor", expected=0.844, spread=0.21, times=True, source=CDNA3
    ),
    PlacedConstant(
        "sglang@0.5.12/cdna3.latent_layer_s", expected=0.384, spread=0.5, times=True, source=CDNA3
    ),
)
