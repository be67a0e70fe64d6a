"""Eight bits: matrices of a layer with a scale for each output, and an unscaled cache of keys and values.

The format is e4m3 (Micikevicius et al. 2022, arXiv 2209.05433). It covers what
`perfmodel.specs.models.formats` counts under ``fp8``: the matrices of attention and MLP, including an EAGLE
head's projection. Embedding, LM head and norms keep the type of the activations. Larger values saturate, as
in vLLM.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from perfmodel.errors import InputError

FP8 = torch.float8_e4m3fn
MOST = 448.0
"""The largest value of the format."""
LEAST_PEAK = 1e-12
"""Least largest value of a row: a row of zeros needs a scale too."""
CAPABILITY = 8, 9
"""Compute capability of the first CUDA devices with tensor cores for the format (Ada), for which Triton reads
it.
"""


class Fp8Linear(nn.Module):
    """A matrix [outputs, inputs] of codes, each row with its `scale` [outputs].

    On CUDA each token is quantised to eight bits with its own scale, and the codes are multiplied (the
    engine's ``fp8``). On a CPU each call widens the codes (``fp8-wo``), which takes longer than reading them.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.bias = linear.bias
        weight = linear.weight.detach()
        self.hold(weight, row_peaks(weight))

    def hold(self, weight: Tensor, peaks: Tensor) -> None:
        """Quantises weight [outputs, inputs], all of it or a rank's part. peaks [outputs]: largest values of
        the whole rows.
        """
        rows = by_row(weight, peaks[:, None])
        self.weight = nn.Parameter(rows.codes, requires_grad=False)
        self.scale = nn.Parameter(rows.scale[:, 0], requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., inputs] to [..., outputs]."""
        return product(x, self.weight, self.scale, self.bias)


def product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., inputs] times the transpose of codes [outputs, inputs], by the device's own method."""
    if x.is_cuda:
        from perfmodel.validate.decoder.triton_product import scaled_product

        return scaled_product(x, weight, scale, bias)
    out = (F.linear(x, weight.to(x.dtype)) * scale).to(x.dtype)
    return out if bias is None else out + bias


class ScaledRows(NamedTuple):
    """Codes [rows, n] of eight bits, and the scale of each row, [rows, 1]."""

    codes: Tensor
    scale: Tensor


def by_row(x: Tensor, peaks: Tensor) -> ScaledRows:
    """Quantises x [rows, n]. The scales map peaks [rows, 1] to the format's largest value."""
    if x.is_meta:
        codes = x.new_empty(x.shape, dtype=FP8)
        return ScaledRows(codes, x.new_empty(peaks.shape, dtype=torch.float32))
    scale = peaks.float().clamp(min=LEAST_PEAK) / MOST
    return ScaledRows(to_fp8(x.float() / scale), scale)


def row_peaks(weight: Tensor) -> Tensor:
    """The largest size [..., outputs] in each row of weight [..., outputs, inputs].

    A model is made without values first, on the device ``meta``. There only the shape counts: arithmetic
    would load torch's compiler, which takes a second.
    """
    if weight.is_meta:
        return weight.new_empty(weight.shape[:-1])
    return weight.abs().amax(-1)


def to_fp8(x: Tensor) -> Tensor:
    """The nearest values of the format. Older torch would make NaN of larger ones."""
    return x.clamp(-MOST, MOST).to(FP8)


def bits(x: Tensor) -> Tensor:
    """The bits as a type that torch can index and copy; it has few operators for the format."""
    return x.view(torch.uint8) if x.dtype == FP8 else x


def quantise(model: nn.Module) -> None:
    """Replaces every matrix product of a model by an `Fp8Linear`. Experts quantise their stacks
    themselves.
    """
    for parent in [*model.modules()]:
        if hasattr(parent, "quantise"):
            parent.quantise()
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, Fp8Linear(child))


def check_runs(device: torch.device, dtype: torch.dtype) -> None:
    """Raise InputError if eight-bit weights have no kernel for this device and type of activations."""
    if device.type == "cuda" and (not multiplies(device) or dtype != torch.bfloat16):
        need = "bf16 activations and a CUDA device of compute capability 8.9 or later, or a CPU"
        raise InputError(f"fp8 weights: need {need}")


def multiplies(device: torch.device) -> bool:
    """Whether a CUDA device's tensor cores and Triton support the format."""
    return torch.cuda.get_device_capability(device) >= CAPABILITY
