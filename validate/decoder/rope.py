"""Computes rotary position embeddings with the frequency scalings `linear`, `llama3`, `yarn` and
`longrope`.
"""

import math

import torch

from perfmodel.specs import ModelSpec, RopeScaling
from perfmodel.validate.decoder.pointwise import Rotary

SCALINGS = ("llama3", "linear", "yarn", "longrope")
"""Supported values of ``rope_type``."""
LEAST_RAMP = 1e-3
"""Lower limit of the length of yarn's ramp from kept to divided frequencies, in pairs of dimensions. Both
ends of the ramp can coincide.
"""


def rotary(spec: ModelSpec, device: torch.device, tokens: int) -> Rotary:
    """The rotary embedding of a model for sequences of at most `tokens` tokens of prompt and output.

    `longrope` uses its long factors if `tokens` is greater than the original training length. The factors
    apply to a whole sequence, including its first tokens. A runner therefore keeps one embedding, which
    drafted and rejected tokens do not change.
    """
    return Rotary(inverse_frequencies(spec, device, tokens), attention_scale(spec))


def inverse_frequencies(spec: ModelSpec, device: torch.device, tokens: int) -> torch.Tensor:
    """The angle per position of each pair of dimensions, in radians, [rotary_dim / 2] float64.

    - tokens: the length of the sequences.
    """
    exponent = torch.arange(0, spec.rotary_dim, 2, dtype=torch.float64, device=device) / spec.rotary_dim
    frequencies = spec.rope_theta**-exponent
    scaling = spec.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.rope_type == "linear":
        return frequencies / scaling.factor
    if scaling.rope_type == "longrope":
        factors = (
            scaling.long_factor if tokens > scaling.original_max_position_embeddings else scaling.short_factor
        )
        return frequencies / torch.tensor(factors, dtype=torch.float64, device=device)
    keep = (
        _llama3_keep(frequencies, scaling)
        if scaling.rope_type == "llama3"
        else _yarn_keep(spec, scaling, device)
    )
    return frequencies * (keep + (1 - keep) / scaling.factor)


def _llama3_keep(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """The share of each frequency that is kept (Llama 3.1 reference code). It is 1 for fast frequencies, 0
    for slow frequencies, which `factor` divides, and between 0 and 1 for the others.
    """
    turns = frequencies * scaling.original_max_position_embeddings / (2 * math.pi)
    low = scaling.low_freq_factor
    high = scaling.high_freq_factor
    return ((turns - low) / (high - low)).clamp(0, 1)


def _yarn_keep(spec: ModelSpec, scaling: RopeScaling, device: torch.device) -> torch.Tensor:
    """See `_llama3_keep`. In yarn, the share is linear in the number of the pair of dimensions (Peng et al.
    2023, arXiv 2309.00071, section 3.2).
    """

    def pair_of_turns(turns: float) -> float:
        """The number of the pair that makes this many full turns within the original training length."""
        slowest = scaling.original_max_position_embeddings / (2 * math.pi * turns)
        return spec.rotary_dim * math.log(slowest) / (2 * math.log(spec.rope_theta))

    low = pair_of_turns(scaling.beta_fast)
    high = pair_of_turns(scaling.beta_slow)
    if scaling.truncate:
        low = math.floor(low)
        high = math.ceil(high)
    low = max(low, 0)
    high = min(high, spec.rotary_dim - 1)
    pair = torch.arange(spec.rotary_dim // 2, dtype=torch.float64, device=device)
    return 1 - ((pair - low) / max(high - low, LEAST_RAMP)).clamp(0, 1)


def attention_scale(spec: ModelSpec) -> float:
    """See `Rotary.scale`."""
    scaling = spec.rope_scaling
    if scaling is None or scaling.rope_type not in ("yarn", "longrope"):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    growth = math.log(max(1.0, scaling.factor))
    if scaling.rope_type == "longrope":
        return math.sqrt(1 + growth / math.log(scaling.original_max_position_embeddings))
    if scaling.mscale and scaling.mscale_all_dim:
        return (1 + 0.1 * scaling.mscale * growth) / (1 + 0.1 * scaling.mscale_all_dim * growth)
    return 1 + 0.1 * growth
