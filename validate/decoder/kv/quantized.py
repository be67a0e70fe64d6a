"""Every committed token, read from a copy of fewer bits."""

import torch
from torch import Tensor

from perfmodel.kv.quantized import Quantized
from perfmodel.validate.decoder.attention import Attention
from perfmodel.validate.decoder.cache import KVCache, allocate, write_tokens
from perfmodel.validate.decoder.kv.base import View, only
from perfmodel.validate.decoder.runner import Observed

SCALE = torch.float16


class QuantizedView(View):
    """Codes of 4 or 8 bits with a scale and a zero point (fp16) for each `group` values of a head's key or value."""

    method = "quantized"

    def __init__(self, method: Quantized, source: KVCache, attention: Attention, new_tokens: int, gamma: int) -> None:
        d = source.k.shape[-1]
        only(method, "bits", method.bits, method.bits in (4, 8) and (method.bits == 8 or d % 2 == 0))
        only(method, "group", method.group, method.group is None or d % method.group == 0)
        only(method, "shared", method.shared, not method.shared)
        super().__init__(method, source, attention, new_tokens, gamma)
        self.bits, self.group = int(method.bits), method.group or d
        shape, device = source.k.shape[:-1], source.k.device
        codes = (*shape, d * self.bits // 8)
        scales = (*shape, d // self.group, 2)
        self.codes = dict(zip("kv", allocate("quantised draft KV cache", 2, codes, device, torch.uint8), strict=True))
        self.scales = dict(zip("kv", allocate("quantised draft KV cache", 2, scales, device, SCALE), strict=True))

    def build(self, observed: Observed | None) -> None:
        """Quantise the prompts."""
        bound = self.source.bound
        for which, tensor in (("k", self.source.k), ("v", self.source.v)):
            codes, scales = self._quantise(tensor[:, :, :, :bound])
            self.codes[which][:, :, :, :bound], self.scales[which][:, :, :, :bound] = codes, scales

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Quantise what the verification wrote; what was not accepted lies beyond the length, and is overwritten."""
        positions = self.source.positions(start, self.gamma + 1)
        for which, tensor in zip("kv", self.source.read(positions), strict=True):
            codes, scales = self._quantise(tensor)
            write_tokens(self.codes[which], self.source.rows, positions, codes)
            write_tokens(self.scales[which], self.source.rows, positions, scales)

    def attend(self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None) -> Tensor:
        """Attention over the values that the codes stand for."""
        stored = [t for kind in (self.codes, self.scales) for t in kind.values()]
        self.tell("kv", self._span.lengths.sum() * sum(t[0, 0, :, 0].nbytes for t in stored))
        k, v = (self._restore(which, layer, q.dtype) for which in "kv")
        return self.attention(q, k, v, self._span, new_k, new_v, sees)

    def _quantise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and (scale, zero point) of x [..., head_dim]."""
        grouped = x.unflatten(-1, (-1, self.group)).float()
        low, high = grouped.aminmax(dim=-1, keepdim=True)
        scales = torch.cat(((high - low) / (2**self.bits - 1), low), dim=-1).to(SCALE)
        step, zero = scales.float().split(1, dim=-1)
        codes = ((grouped - zero) / step.clamp(min=1e-7)).round().clamp(0, 2**self.bits - 1).to(torch.uint8).flatten(-2)
        if self.bits == 4:
            first, second = codes.chunk(2, dim=-1)
            codes = first | (second << 4)
        return codes, scales

    def _restore(self, which: str, layer: int, dtype: torch.dtype) -> Tensor:
        """Values [batch, kv_heads, bound, head_dim] of one layer."""
        codes = self.codes[which][layer][:, :, : self._span.bound]
        if self.bits == 4:
            codes = torch.cat((codes & 15, codes >> 4), dim=-1)
        step, zero = self.scales[which][layer][:, :, : self._span.bound].to(dtype).split(1, dim=-1)
        return (codes.unflatten(-1, (-1, self.group)).to(dtype) * step + zero).flatten(-2)
