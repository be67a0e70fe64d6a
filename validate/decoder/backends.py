"""Which implementations of attention and pointwise steps: by name, or the fastest known to work on the device."""

import os
from importlib.util import find_spec

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.attention import FoldedAttention
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.selection import Selection

NAMES = ("auto", "math", "sdpa", "triton")


def choose(name: str, device: torch.device, dtype: torch.dtype) -> FoldedAttention:
    """The implementation by name; ``auto`` takes the fastest that is known to work on the device."""
    if name not in NAMES:
        raise InputError(f"--attention: must be one of {', '.join(NAMES)}, given {name!r}")
    if name == "auto":
        name = _fastest(device, dtype)
    if name == "sdpa" and device.type == "cuda" and dtype == torch.float64:
        raise InputError("--attention: sdpa has no fp64 kernel on CUDA: use math")
    if name in ("math", "sdpa"):
        return FoldedAttention(name)
    if not runs_triton(device, dtype):
        raise InputError("--attention: triton needs the package triton, a CUDA device and a dtype of at most 32 bits")
    from perfmodel.validate.decoder.triton_attention import SplitKV

    return SplitKV()


def pointwise(name: str, device: torch.device, dtype: torch.dtype) -> Pointwise:
    """How the small steps of a pass are computed: ``torch``, ``triton``, or ``auto`` for the fused kernels on CUDA."""
    if name not in ("auto", "torch", "triton"):
        raise InputError(f"--pointwise: must be one of auto, torch, triton, given {name!r}")
    if name == "torch" or (name == "auto" and (device.type != "cuda" or not runs_triton(device, dtype))):
        return Pointwise()
    if not runs_triton(device, dtype):
        raise InputError("--pointwise: triton needs the package triton, a CUDA device and a dtype of at most 32 bits")
    from perfmodel.validate.decoder.triton_pointwise import Fused

    return Fused()


def selection(attention: FoldedAttention) -> Selection:
    """Attention over what queries choose, by the same implementation."""
    if attention.name != "triton":
        return Selection(attention)
    from perfmodel.validate.decoder.triton_attention import SplitKV
    from perfmodel.validate.decoder.triton_selection import FusedSelection

    assert isinstance(attention, SplitKV)
    return FusedSelection(attention)


def runs_triton(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Triton's kernels can be run: on CUDA, elsewhere by its interpreter where that was asked for."""
    runs = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    return runs and dtype != torch.float64 and find_spec("triton") is not None


def _fastest(device: torch.device, dtype: torch.dtype) -> str:
    if dtype == torch.float64:
        return "math"
    return "triton" if device.type == "cuda" and runs_triton(device, dtype) and dtype.itemsize == 2 else "sdpa"
