"""The view of the method `quantized`. A draft step reads every committed token from a copy with fewer
bits.
"""

import torch
from torch import Tensor

from perfmodel.kv.quantized import Quantized
from perfmodel.validate.decoder.cache import write_tokens
from perfmodel.validate.decoder.kv.base import View, check_option
from perfmodel.validate.decoder.memory import allocate
from perfmodel.validate.decoder.runner import Observed, Runner

SCALE = torch.float16
"""The type of scales and zero points."""
LEAST_STEP = 1e-7
"""Lower limit of the step by which the values of a group are divided. The step of a group of equal values is
0.
"""


class QuantizedView(View):
    """The view that stores codes of 4 or 8 bits. `group` neighbouring values of a key or value share a scale
    and a zero point.
    """

    def __init__(self, method: Quantized, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        source = runner.cache
        d = runner.cache.k.shape[-1]
        check_option(method, "bits", method.bits, method.bits in (4, 8) and d * method.bits % 8 == 0)
        check_option(method, "group", method.group, method.group is None or d % method.group == 0)
        check_option(method, "shared", method.shared, not method.shared)
        super().__init__(method, runner, new_tokens, max_accepted)
        self.bits = int(method.bits)
        self.group = method.group or d
        shape = source.kv.shape[:-1]
        device = source.k.device
        what = "quantised draft KV cache"
        self.codes = allocate(what, (*shape, d * self.bits // 8), device, torch.uint8)
        self.scales = allocate(what, (*shape, d // self.group, 2), device, SCALE)

    def build(self, observed: Observed) -> None:
        """Quantises the prompts, one layer and sequence at a time, because the intermediate tensors are
        large.
        """
        bound = self.source.bound
        tokens, codes, scales = (
            part.flatten(0, 2)[:, :, :bound] for part in (self.source.kv, self.codes, self.scales)
        )
        for index, part in enumerate(tokens):
            codes[index], scales[index] = self._quantise(part)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Quantises the tokens that the verification wrote. Rejected tokens are beyond the length, so later
        tokens overwrite them.
        """
        positions = self.source.positions(start, self.max_accepted + 1)
        codes, scales = self._quantise(self.source.read(positions))
        write_tokens(self.codes.flatten(0, 1), self.source.rows, positions, codes)
        write_tokens(self.scales.flatten(0, 1), self.source.rows, positions, scales)

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        k, v = self.restored(layer, q.dtype)
        return self.attention(q, k, v, self._span, new_k, new_v, sees)

    def _quantise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The codes of x [..., head_dim], and the scales and zero points [..., groups, 2]."""
        grouped = x.unflatten(-1, (-1, self.group)).float()
        top = 2**self.bits - 1
        low, high = grouped.aminmax(dim=-1, keepdim=True)
        scales = torch.cat(((high - low) / top, low), dim=-1).to(SCALE)
        step, zero = scales.float().split(1, dim=-1)
        steps = (grouped - zero) / step.clamp(min=LEAST_STEP)
        codes = steps.round().clamp(0, top).to(torch.uint8).flatten(-2)
        if self.bits == 4:
            first, second = codes.chunk(2, dim=-1)
            codes = first | (second << 4)
        return codes, scales

    def restored(self, layer: int, dtype: torch.dtype) -> Tensor:
        """The dequantised keys and values [2, batch, kv_heads, bound, head_dim] of one layer."""
        codes = self.codes[:, layer, :, :, : self._span.bound]
        if self.bits == 4:
            codes = torch.cat((codes & 15, codes >> 4), dim=-1)
        step, zero = self.scales[:, layer, :, :, : self._span.bound].to(dtype).split(1, dim=-1)
        grouped = codes.unflatten(-1, (-1, self.group)).to(dtype)
        return (grouped * step + zero).flatten(-2)
