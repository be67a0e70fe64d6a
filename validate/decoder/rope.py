"""Rotary position embedding, with the `llama3` frequency scaling of Llama 3.1 and 3.2, and the `linear` one."""

import math

import torch
from torch import Tensor

from perfmodel.specs.model import ModelSpec, RopeScaling

SCALINGS = ("llama3", "linear")


def inverse_frequencies(spec: ModelSpec, device: torch.device) -> Tensor:
    """Rotation per position of each pair of dimensions, [head_dim / 2] float64."""
    exponent = torch.arange(0, spec.head_dim, 2, dtype=torch.float64, device=device) / spec.head_dim
    frequencies = spec.rope_theta**-exponent
    if spec.rope_scaling is None:
        return frequencies
    if spec.rope_scaling.rope_type == "linear":
        return frequencies / spec.rope_scaling.factor
    return _llama3(frequencies, spec.rope_scaling)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Slow frequencies are divided by `factor`, fast ones kept, those between blended (Llama 3.1 reference code)."""
    turns = frequencies * scaling.original_max_position_embeddings / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / scaling.factor)


def rotation(frequencies: Tensor, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine for positions [batch, n]: each [batch, 1, n, head_dim / 2] in `dtype`."""
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    angles = positions[:, None, :, None].to(exact) * frequencies.to(exact)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate [batch, heads, n, head_dim]; dimension i pairs with i + head_dim / 2 (Hugging Face layout)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
