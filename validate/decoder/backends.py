"""Chooses the implementations of attention and of pointwise steps: the named one, or the fastest that works
on the device.
"""

import os
from importlib.util import find_spec

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.attention import FoldedAttention
from perfmodel.validate.decoder.fp8 import multiplies
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.selection import Selection

NAMES = ("auto", "math", "sdpa", "triton", "triton-unsplit")


def choose(name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False) -> FoldedAttention:
    """The named implementation of attention. ``auto`` means the fastest that works on the device. Raises
    InputError.

    - fp8: whether the cache has this format.
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
    """The implementation of the small steps of a pass: ``torch``, ``triton``, or ``auto`` for the fused
    kernels on CUDA.

    - fp8: whether the cache has this format, see `Pointwise`.
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
    """The attention over only those tokens that the queries select, with the same implementation."""
    if not attention.name.startswith("triton"):
        return Selection(attention)
    from perfmodel.validate.decoder.triton_attention import SplitKV
    from perfmodel.validate.decoder.triton_selection import FusedSelection

    assert isinstance(attention, SplitKV)
    return FusedSelection(attention)


def runs_triton(device: torch.device, dtype: torch.dtype, fp8: bool = False) -> bool:
    """Whether Triton's kernels can run: on CUDA, or with its interpreter if that was requested."""
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
