"""Attention over whole sequences, without a cache: what decoding must agree with."""

import torch.nn.functional as F
from torch import Tensor

from perfmodel.validate.decoder import Projected


def causal(_index: int, projected: Projected) -> Tensor:
    """Each token attends to itself and those before it."""
    q, k, v = projected.rotate()
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)
