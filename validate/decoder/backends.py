"""Which implementation of attention: by name, or the fastest that is known to work on the device."""

import os

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.attention import Attention, Folded

NAMES = ("auto", "math", "sdpa", "triton")


def choose(name: str, device: torch.device, dtype: torch.dtype, masked: bool = False) -> Attention:
    """The implementation by name; ``auto`` takes the fastest that is known to work on the device.

    masked: it will be told what new tokens see (a tree); the Triton kernel knows chains only.
    """
    if name not in NAMES:
        raise InputError(f"--attention: must be one of {', '.join(NAMES)}, given {name!r}")
    if masked and name == "triton":
        raise InputError("--attention: triton's kernel takes chains only, no tree and no second level: use sdpa")
    if name == "auto":
        name = _fastest(device, dtype, masked)
    if name == "sdpa" and device.type == "cuda" and dtype == torch.float64:
        raise InputError("--attention: sdpa has no fp64 kernel on CUDA: use math")
    if name in ("math", "sdpa"):
        return Folded(name)
    runs = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if not (_has_triton() and runs) or dtype == torch.float64:
        raise InputError("--attention: triton needs the package triton, a CUDA device and a dtype of at most 32 bits")
    from perfmodel.validate.decoder.triton_attention import SplitKV

    return SplitKV()


def _fastest(device: torch.device, dtype: torch.dtype, masked: bool) -> str:
    if dtype == torch.float64:
        return "math"
    return "triton" if device.type == "cuda" and not masked and _has_triton() else "sdpa"


def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
