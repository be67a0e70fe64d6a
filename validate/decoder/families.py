"""Which models `model` runs. Any other is refused, with the feature that this decoder lacks."""

from perfmodel.errors import InputError
from perfmodel.specs.models.model import ModelSpec
from perfmodel.validate.decoder.rope import SCALINGS

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "phi3", "mixtral", "qwen3_moe")


def check_supported(spec: ModelSpec) -> None:
    """Refuse (InputError) a model with layers that this decoder does not have."""
    scaling, moe = spec.rope_scaling, spec.moe
    factors = {len(scaling.short_factor), len(scaling.long_factor)} if scaling else set()
    reason = None
    if spec.model_type not in FAMILIES:
        reason = f"its model_type is {spec.model_type!r}"
    elif spec.mla or spec.attention_sinks or spec.norms_per_layer != 2:
        reason = "it has latent attention, attention sinks or extra norms"
    elif moe and (moe.shared_intermediate_size or moe.router_bias or moe.expert_bias):
        reason = "it has shared experts, or biases in its experts or their router"
    elif scaling and scaling.rope_type not in SCALINGS:
        reason = f"its rope_type is {scaling.rope_type!r}"
    elif spec.rotary_dim % 2:
        reason = f"its rotary width is {spec.rotary_dim}, which must be even"
    elif scaling and scaling.rope_type == "longrope" and factors != {spec.rotary_dim // 2}:
        reason = f"its rope_scaling must have {spec.rotary_dim // 2} short and as many long factors"
    if reason:
        raise InputError(
            f"model {spec.name}: must be of family {', '.join(FAMILIES)} to be run here; {reason}"
        )
