"""Which implementations of attention and pointwise steps: by name, or the fastest known to work on the device."""

import os
from collections.abc import Sequence
from importlib.util import find_spec

import torch

from perfmodel.errors import InputError
from perfmodel.specs.calibration import AttentionChoice
from perfmodel.validate.decoder.attention import FoldedAttention
from perfmodel.validate.decoder.by_shape import AttentionByShape
from perfmodel.validate.decoder.fp8 import multiplies
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.selection import Selection

NAMES = ("auto", "math", "sdpa", "triton")


def choose(
    name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False, choices: Sequence[AttentionChoice] = ()
) -> FoldedAttention:
    """The implementation by name; ``auto`` takes the fastest that is known to work on the device.

    fp8: the cache. choices: what was measured to be faster than ``auto``'s, which then takes that.
    """
    if name not in NAMES:
        raise InputError(f"--attention: must be one of {', '.join(NAMES)}, given {name!r}")
    if name == "auto":
        name = _fastest(device, dtype, fp8)
        if choices:
            by_name = {str(c.name): choose(c.name, device, dtype, fp8) for c in choices if c.name != "auto"}
            return AttentionByShape(choose(name, device, dtype, fp8), choices, by_name)
    if name == "sdpa" and device.type == "cuda" and dtype == torch.float64:
        raise InputError("--attention: sdpa has no fp64 kernel on CUDA: use math")
    if name in ("math", "sdpa"):
        return FoldedAttention(name)
    _check_triton("--attention", device, dtype, fp8)
    from perfmodel.validate.decoder.triton_attention import SplitKV

    return SplitKV()


def pointwise(name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False) -> Pointwise:
    """How the small steps of a pass are computed: ``torch``, ``triton``, or ``auto`` for the fused kernels on CUDA.

    fp8: what the cache is, see `Pointwise`.
    """
    found = _pointwise(name, device, dtype, fp8)
    found.fp8 = fp8
    return found


def _pointwise(name: str, device: torch.device, dtype: torch.dtype, fp8: bool) -> Pointwise:
    if name not in ("auto", "torch", "triton"):
        raise InputError(f"--pointwise: must be one of auto, torch, triton, given {name!r}")
    if name == "torch" or (name == "auto" and (device.type != "cuda" or not runs_triton(device, dtype, fp8))):
        return Pointwise()
    _check_triton("--pointwise", device, dtype, fp8)
    from perfmodel.validate.decoder.triton_pointwise import Fused

    return Fused()


def selection(attention: FoldedAttention) -> Selection:
    """Attention over what queries choose, by the same implementation."""
    if isinstance(attention, AttentionByShape):
        attention = attention.default
    if attention.name != "triton":
        return Selection(attention)
    from perfmodel.validate.decoder.triton_attention import SplitKV
    from perfmodel.validate.decoder.triton_selection import FusedSelection

    assert isinstance(attention, SplitKV)
    return FusedSelection(attention)


def runs_triton(device: torch.device, dtype: torch.dtype, fp8: bool = False) -> bool:
    """Whether Triton's kernels can be run: on CUDA, elsewhere by its interpreter where that was asked for."""
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


def others(device: torch.device, dtype: torch.dtype, fp8: bool = False) -> tuple[str, ...]:
    """What else could be faster than ``auto``'s implementation for some shapes."""
    default = _fastest(device, dtype, fp8)
    return () if default == "math" else ("sdpa",) if default == "triton" else ("math",)


def _fastest(device: torch.device, dtype: torch.dtype, fp8: bool) -> str:
    if dtype == torch.float64:
        return "math"
    return "triton" if device.type == "cuda" and runs_triton(device, dtype, fp8) and dtype.itemsize == 2 else "sdpa"
