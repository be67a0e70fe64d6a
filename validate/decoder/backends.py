"""Chooses implementations of attention and pointwise steps: by name, or the fastest that works on the
device.
"""

import math
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.specs.calibrations.calibration import AttentionChoice
from perfmodel.validate.decoder.attention import FoldedAttention, Span
from perfmodel.validate.decoder.fp8 import multiplies
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.selection import Selection

NAMES = ("auto", "math", "sdpa", "triton", "triton-unsplit")


class AttentionByShape(FoldedAttention):
    """The implementation that was chosen for these heads, the nearest number of queries, and this many cached
    tokens.

    default: the implementation of all other shapes. The host knows the shapes, so a captured graph keeps its
    choice.
    """

    def __init__(
        self,
        default: FoldedAttention,
        choices: Sequence[AttentionChoice],
        by_name: Mapping[str, FoldedAttention],
    ) -> None:
        super().__init__(default.name)
        self.name, self.default, self.by_name = "by shape", default, by_name
        self._choices: dict[tuple[int, int, int], list[AttentionChoice]] = {}
        for choice in choices:
            self._choices.setdefault((choice.heads, choice.kv_heads, choice.head_dim), []).append(choice)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        span: Span,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None = None,
    ) -> Tensor:
        batch, heads, query, dim = q.shape
        chosen = self.of((heads, new_k.shape[1], dim), query, batch * (span.bound - span.start))
        return chosen(q, k, v, span, new_k, new_v, sees)

    def of(self, heads: tuple[int, int, int], query: int, tokens: int) -> FoldedAttention:
        """The implementation for (heads, KV heads, head size), queries per sequence and cached tokens of all
        sequences.
        """
        known = self._choices.get(heads)
        if known is None:
            return self.default
        nearest = min((c.query for c in known), key=lambda measured: abs(math.log(measured / query)))
        reached = [c for c in known if c.query == nearest and c.from_tokens <= tokens]
        last = max(reached, key=lambda c: c.from_tokens, default=None)
        return self.default if last is None else self.by_name.get(last.name, self.default)


def choose(
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    fp8: bool = False,
    choices: Sequence[AttentionChoice] = (),
) -> FoldedAttention:
    """The implementation by name; ``auto`` takes the fastest that works on the device.

    fp8: whether the cache has this format. choices: implementations that were measured to be faster than
    ``auto``'s, for ``auto`` only.
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

    return SplitKV(unsplit=name == "triton-unsplit")


def pointwise(name: str, device: torch.device, dtype: torch.dtype, fp8: bool = False) -> Pointwise:
    """The implementation of the small steps of a pass: ``torch``, ``triton``, or ``auto`` for the fused
    kernels on CUDA.

    fp8: whether the cache has this format, see `Pointwise`.
    """
    if name not in ("auto", "torch", "triton"):
        raise InputError(f"--pointwise: must be one of auto, torch, triton, given {name!r}")
    found = Pointwise()
    if name == "triton" or (name == "auto" and device.type == "cuda" and runs_triton(device, dtype, fp8)):
        _check_triton("--pointwise", device, dtype, fp8)
        from perfmodel.validate.decoder.triton_pointwise import Fused

        found = Fused()
    found.fp8 = fp8
    return found


def selection(attention: FoldedAttention) -> Selection:
    """Attention over the tokens that the queries select, with the same implementation."""
    if isinstance(attention, AttentionByShape):
        attention = attention.default
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


def others(device: torch.device, dtype: torch.dtype, fp8: bool = False) -> tuple[str, ...]:
    """Implementations that could be faster than ``auto``'s for some shapes."""
    default = _fastest(device, dtype, fp8)
    return () if default == "math" else ("sdpa",) if default == "triton" else ("math",)


def _fastest(device: torch.device, dtype: torch.dtype, fp8: bool) -> str:
    if dtype == torch.float64:
        return "math"
    return (
        "triton"
        if device.type == "cuda" and runs_triton(device, dtype, fp8) and dtype.itemsize == 2
        else "sdpa"
    )
