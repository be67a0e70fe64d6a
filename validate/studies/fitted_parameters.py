"""Lists the constants of engines that are fitted to published measurements. Each has a prior: an expected
value and a spread (see `PlacedConstant`). These two numbers are assumptions.
"""

from perfmodel.validate.studies.parameters import ARCHITECTURES, ENGINES, PlacedConstant, drift

DECODING = (
    PlacedConstant("vllm.small_kernel_s", expected=0.6, spread=0.35, times=True),
    PlacedConstant("trtllm.small_kernel_s", expected=0.45, spread=0.35, times=True),
    PlacedConstant("sglang.small_kernel_s", expected=0.45, spread=0.35, times=True),
    *(PlacedConstant(f"{engine}.quantise_s", expected=1.2, spread=0.25, times=True) for engine in ENGINES),
    *(PlacedConstant(f"{engine}.latent_layer_s", expected=8e-6, spread=1.0) for engine in ENGINES),
    drift("trtllm", "1.2.0rc6", "latent_layer_s", spread=1.5, expected=0.2),
    PlacedConstant("all.wide_norm_s", expected=3e-5, spread=0.7),
    drift("vllm", "0.18", "wide_norm_s", spread=0.5, expected=0.5),
    PlacedConstant("all.state_layer_s", expected=15e-6, spread=0.5),
    PlacedConstant("all.gemm_factor", expected=0.95, spread=0.08),
    *(
        PlacedConstant(f"{architecture}.gemm_factor_fp8", expected=1.1, spread=0.1)
        for architecture in ARCHITECTURES
    ),
    PlacedConstant("all.expert_factor", expected=1.05, spread=0.12),
    *(
        PlacedConstant(f"sglang.{architecture}.expert_factor", expected=0.9, spread=0.2)
        for architecture in ARCHITECTURES
    ),
    PlacedConstant("all.expert_popularity", expected=1.0, spread=0.4),
    *(
        PlacedConstant(f"{architecture}.attention_bandwidth_fraction", expected=0.85, spread=0.15, times=True)
        for architecture in ARCHITECTURES
    ),
    # not a factor: the kernel tables of two devices differ too much for this kernel
    PlacedConstant("hopper.attention_bandwidth_fraction_fp8", expected=0.45, spread=0.2),
    PlacedConstant("blackwell.attention_bandwidth_fraction_fp8", expected=0.85, spread=0.15, times=True),
    *(
        PlacedConstant(
            f"trtllm.{architecture}.attention_bandwidth_fraction_fp8", expected=1.0, spread=0.15, times=True
        )
        for architecture in ARCHITECTURES
    ),
    PlacedConstant("all.latent_bandwidth_fraction", expected=0.85, spread=0.15, times=True),
    PlacedConstant("all.latent_bandwidth_fraction_fp8", expected=0.85, spread=0.15, times=True),
    *(
        PlacedConstant(f"{architecture}.multiprocessor_bandwidth", expected=1.5, spread=0.2)
        for architecture in ARCHITECTURES
    ),
)
"""Constants of a step. They are fitted to ``engine_decode.csv``."""
SPECULATING = (
    PlacedConstant("all.iteration_fixed_s", expected=4e-4, spread=0.5),
    PlacedConstant("all.routing_independence", expected=0.6, spread=0.6),
    # only DeepSeek-R1 with 256 experts was measured
    PlacedConstant("trtllm.hopper.routing_independence", expected=0.6, spread=0.6),
    PlacedConstant("all.kv_reread_per_query", expected=0.03, spread=0.2),
    # the kernels of trtllm-gen read the cache once per query token
    PlacedConstant("blackwell.latent_reread_per_query", expected=0.7, spread=0.5),
    PlacedConstant("sglang.iteration_fixed_s", expected=1e-3, spread=1.0),
    PlacedConstant("all.drafted_token_s", expected=1.5e-5, spread=1.0),
    PlacedConstant("trtllm.drafted_token_s", expected=1.5e-5, spread=1.0),
    # as `vllm.host_layer_s`
    PlacedConstant("vllm.host_piecewise_layer_s", expected=1e-4, spread=0.5),
    drift("vllm", "0.22", "drafted_token_s", spread=0.8),
    PlacedConstant("h100-sxm-94gb.gemm_flops_factor", expected=1.0, spread=0.15),
)
"""Constants of iterations with a draft. They are fitted to ratios of iterations to steps."""
