"""Chooses the implementations of attention and of `Pointwise`."""

import os
from importlib.util import find_spec

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.attention import FoldedAttention
from perfmodel.validate.decoder.fp8 import multiplies
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.selection import Selection

NAMES = ("auto", "math", "sdpa", "triton", "triton-unsplit")
"""Values of ``--attention``."""


def choose(name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False) -> FoldedAttention:
    """The named implementation of attention.

    - name: one of `NAMES`. ``auto`` means the fastest implementation that works on the device.
    - dtype: the type of the activations.
    - fp8: whether the cache is fp8.

    Raises InputError for an unknown name, or an implementation that does not work on the device.
    """
    if name not in NAMES:
        raise InputError(f"--attention: must be one of {', '.join(NAMES)}, given {name!r}")
    if name == "auto":
        name = _fastest(device, dtype, fp8)
    if name == "sdpa" and device.type == "cuda" and dtype == torch.float64:
        raise InputError("--attention: sdpa has no fp64 kernel on CUDA: use math")
    if name in ("math", "sdpa"):
        return FoldedAttention(name)
    _check_triton("--attention", device, dtype, fp8)
    from perfmodel.validate.decoder.triton_attention import SplitKV

    return SplitKV(unsplit=name == "triton-unsplit")


def pointwise(name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False) -> Pointwise:
    """The named implementation of `Pointwise`.

    - name: ``torch``, ``triton`` or ``auto``. The last means the Triton kernels on CUDA if they work there.
    - fp8: whether the cache is fp8.

    Raises InputError for an unknown name, or if Triton does not work on the device.
    """
    if name not in ("auto", "torch", "triton"):
        raise InputError(f"--pointwise: must be one of auto, torch, triton, given {name!r}")
    steps = Pointwise()
    is_fastest = device.type == "cuda" and runs_triton(device, dtype, fp8)
    if name == "triton" or (name == "auto" and is_fastest):
        _check_triton("--pointwise", device, dtype, fp8)
        from perfmodel.validate.decoder.triton_pointwise import Fused

        steps = Fused()
    steps.fp8 = fp8
    return steps


def selection(attention: FoldedAttention) -> Selection:
    """The implementation of `Selection` that belongs to an implementation of attention."""
    if not attention.name.startswith("triton"):
        return Selection(attention)
    from perfmodel.validate.decoder.triton_attention import SplitKV
    from perfmodel.validate.decoder.triton_selection import FusedSelection

    assert isinstance(attention, SplitKV)
    return FusedSelection(attention)


def runs_triton(device: torch.device, dtype: torch.dtype, fp8: bool = False) -> bool:
    """Whether Triton kernels can run: on CUDA, or in Triton's interpreter if TRITON_INTERPRET is 1."""
    runs = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if fp8 and device.type == "cuda" and not multiplies(device):
        return False
    return runs and dtype != torch.float64 and find_spec("triton") is not None


def _check_triton(flag: str, device: torch.device, dtype: torch.dtype, fp8: bool) -> None:
    if not runs_triton(device, dtype, fp8):
        newer = " of compute capability 8.9 or later" if fp8 else ""
        raise InputError(
            f"{flag}: triton needs the package triton, a CUDA device{newer} and a dtype of at most 32 bits"
        )


def _fastest(device: torch.device, dtype: torch.dtype, fp8: bool) -> str:
    if dtype == torch.float64:
        return "math"
    if device.type == "cuda" and runs_triton(device, dtype, fp8) and dtype.itemsize == 2:
        return "triton"
    return "sdpa"
