"""Eight-bit weights with one scale per output, and an eight-bit KV cache without scales.

The format is e4m3 (Micikevicius et al. 2022, arXiv 2209.05433). The matrices of attention and MLP are
quantised, as in the format ``fp8`` of `perfmodel.specs.models.formats`. The projection of an EAGLE head is
quantised too. Embedding, LM head and norms keep the type of the activations. Values that are too large for
the format become its largest value, as in vLLM.
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
"""Lower limit of the peak of a row. It gives a row of zeros a scale above 0."""
CAPABILITY = 8, 9
"""Compute capability of the first CUDA devices whose tensor cores and Triton support the format (Ada)."""


class Fp8Linear(nn.Module):
    """A matrix [outputs, inputs] of eight-bit codes.

    - scale [outputs]: the scale of each row.

    On CUDA, each token is quantised to eight bits with its own scale, and the codes are multiplied (the
    format ``fp8``). On a CPU, each call converts the codes to the type of the activations (the format
    ``fp8-wo``). The conversion takes longer than reading the codes.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.bias = linear.bias
        weight = linear.weight.detach()
        self.hold(weight, row_peaks(weight))

    def hold(self, weight: Tensor, peaks: Tensor) -> None:
        """Quantises and stores weight [outputs, inputs], which is the whole matrix or a rank's part.

        - peaks [outputs]: the largest absolute value in each row of the whole matrix.
        """
        rows = by_row(weight, peaks[:, None])
        self.weight = nn.Parameter(rows.codes, requires_grad=False)
        self.scale = nn.Parameter(rows.scale[:, 0], requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """The product [..., outputs] for x [..., inputs]."""
        return product(x, self.weight, self.scale, self.bias)


def product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of x [..., inputs] and the transpose of codes [outputs, inputs], as `Fp8Linear` describes.

    - scale [outputs]: the scale of each row of the codes.
    """
    if x.is_cuda:
        from perfmodel.validate.decoder.triton_product import scaled_product

        return scaled_product(x, weight, scale, bias)
    out = (F.linear(x, weight.to(x.dtype)) * scale).to(x.dtype)
    return out if bias is None else out + bias


class ScaledRows(NamedTuple):
    """Eight-bit codes [rows, n], and the scale of each row, [rows, 1]."""

    codes: Tensor
    scale: Tensor


def by_row(x: Tensor, peaks: Tensor) -> ScaledRows:
    """Quantises x [rows, n]. The scale of a row maps its peak to the largest value of the format.

    - peaks [rows, 1]: the largest absolute value of each row.
    """
    if x.is_meta:
        codes = x.new_empty(x.shape, dtype=FP8)
        return ScaledRows(codes, x.new_empty(peaks.shape, dtype=torch.float32))
    scale = peaks.float().clamp(min=LEAST_PEAK) / MOST
    return ScaledRows(to_fp8(x.float() / scale), scale)


def row_peaks(weight: Tensor) -> Tensor:
    """The largest absolute value [..., outputs] in each row of weight [..., outputs, inputs].

    A model is first built without values on the device ``meta``. There, this function only allocates the
    result, because arithmetic on ``meta`` would load torch's compiler, which takes a second.
    """
    if weight.is_meta:
        return weight.new_empty(weight.shape[:-1])
    return weight.abs().amax(-1)


def to_fp8(x: Tensor) -> Tensor:
    """The nearest values of the format. Values beyond `MOST` are clamped first, because older versions of
    torch convert them to NaN.
    """
    return x.clamp(-MOST, MOST).to(FP8)


def bits(x: Tensor) -> Tensor:
    """The bits of `x` as uint8, which torch can index and copy. Torch has few operators for the format
    itself.
    """
    return x.view(torch.uint8) if x.dtype == FP8 else x


def quantise(model: nn.Module) -> None:
    """Replaces every linear layer of a model by an `Fp8Linear`. It also calls the method `quantise` of
    modules that have one, such as experts.
    """
    for parent in [*model.modules()]:
        if hasattr(parent, "quantise"):
            parent.quantise()
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, Fp8Linear(child))


def check_runs(device: torch.device, dtype: torch.dtype) -> None:
    """Raises InputError if there is no kernel of eight-bit weights for this device and type of
    activations.
    """
    if device.type == "cuda" and (not multiplies(device) or dtype != torch.bfloat16):
        need = "bf16 activations and a CUDA device of compute capability 8.9 or later, or a CPU"
        raise InputError(f"fp8 weights: need {need}")


def multiplies(device: torch.device) -> bool:
    """Whether a CUDA device's tensor cores and Triton support the format."""
    return torch.cuda.get_device_capability(device) >= CAPABILITY
