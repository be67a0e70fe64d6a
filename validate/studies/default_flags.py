"""Lists the additional costs of engines that run with their default flags.

The fits of `engines` use runs with tuned flags (InferenceX), so these costs are not part of the constants
that are fitted there. Every answer includes these costs.
"""

from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_parameters import CDNA3

_COOKBOOK = "sgl-project/sgl-cookbook@7b5bd9c0: 14 steps of 6 models on B200, H100 and H200 under plain flags"
_HOST = (
    "steps that do not depend on the device or the context, vLLM 0.8 to 0.10.2: sariekr/gpu_conc (gpt-oss-20b"
    " on H200 and B200), DeepSeek-R1 AWQ on 8 H100 (16.1 ms from 192 to 8,000 tokens)"
)
_TRITON_EXPERTS = 3e-5
"""The value of ``vllm.hopper.expert_layer_s``, in seconds. Other engines and devices run the same Triton
kernels for experts.
"""
DEFAULT_FLAGS = (
    PlacedConstant(
        "vllm.host_pass_s",
        expected=2.2e-3,
        spread=0.3,
        source=_HOST,
        elsewhere=1.42e-3,  # vllm.pass_fixed_s
    ),
    PlacedConstant(
        "vllm.host_layer_s",
        expected=1e-4,
        spread=0.3,
        source=_HOST,
        elsewhere=9.4e-5,  # vllm.host_piecewise_layer_s
    ),
    PlacedConstant("vllm.host_latent_layer_s", expected=2.2e-4, spread=0.3, source=_HOST),
    PlacedConstant(
        "vllm.schedule_s",
        expected=6e-4,
        spread=0.5,
        source="vLLM 0.8 to 0.13 without asynchronous scheduling: the host works between passes",
    ),
    PlacedConstant(
        "vllm@0.0.schedule_s",
        expected=0.01,
        spread=1.0,
        times=True,
        source="part of pass_fixed_s before 0.8",
        elsewhere=0.01,
    ),
    PlacedConstant(
        "vllm@0.8.schedule_s",
        expected=1.0,
        spread=0.1,
        times=True,
        source="versions 0.8 to 0.13 are those meant",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "vllm@0.14.schedule_s",
        expected=0.01,
        spread=1.0,
        times=True,
        source="asynchronous scheduling, the default from 0.14 on (config/scheduler.py:133)",
        elsewhere=0.01,
    ),
    PlacedConstant(
        "sglang.blackwell.expert_layer_s",
        expected=2.4e-5,
        spread=0.5,
        source=_COOKBOOK,
        elsewhere=_TRITON_EXPERTS,
    ),
    PlacedConstant(
        "sglang.hopper.expert_layer_s", expected=1e-5, spread=0.8, source=_COOKBOOK, elsewhere=_TRITON_EXPERTS
    ),
    PlacedConstant(
        "sglang.cdna3.expert_layer_s", expected=1e-6, spread=1.0, source=f"{CDNA3}, part of its expert_factor"
    ),
    PlacedConstant(
        "sglang@0.5.10/blackwell.expert_layer_s",
        expected=1.0,
        spread=0.1,
        times=True,
        source="Triton's experts as before; `tuned_experts` tells kernels without this cost apart",
        elsewhere=1.0,
    ),
    PlacedConstant(
        "vllm.hopper.expert_layer_s",
        expected=_TRITON_EXPERTS,
        spread=0.4,
        source="11 steps of gpustack and vLLM's blog of 2026-04-22",
    ),
    PlacedConstant(
        "vllm.sm120.expert_layer_s",
        expected=3e-5,
        spread=0.5,
        source="10 steps of Qwen3.5-397B on RTX PRO 6000 with vLLM 0.17, local-inference-lab/rtx6kpro; as on "
        "Hopper",
        elsewhere=_TRITON_EXPERTS,
    ),
    PlacedConstant(
        "vllm@0.20.expert_layer_s",
        expected=0.05,
        spread=1.0,
        times=True,
        source="8 steps of gpt-oss-120b on H200, engine_decode.csv",
        elsewhere=0.05,
    ),
)
