"""Attention by whichever implementation was the fastest for the shape of a call, as a calibration has it."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from perfmodel.specs.calibration import AttentionChoice
from perfmodel.validate.decoder.attention import FoldedAttention, Span


class AttentionByShape(FoldedAttention):
    """The implementation that was chosen for these heads, the nearest number of queries and as many cached tokens.

    default: what takes everything else. Shapes are known to the host, so that a captured graph keeps its choice.
    """

    def __init__(
        self, default: FoldedAttention, choices: Sequence[AttentionChoice], by_name: Mapping[str, FoldedAttention]
    ) -> None:
        super().__init__(default.name)
        self.name, self.default, self.by_name = "by shape", default, by_name
        self._choices: dict[tuple[int, int, int], list[AttentionChoice]] = {}
        for choice in choices:
            self._choices.setdefault((choice.heads, choice.kv_heads, choice.head_dim), []).append(choice)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, span: Span, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        batch, heads, query, dim = q.shape
        chosen = self.of((heads, new_k.shape[1], dim), query, batch * (span.bound - span.start))
        return chosen(q, k, v, span, new_k, new_v, sees)

    def of(self, heads: tuple[int, int, int], query: int, tokens: int) -> FoldedAttention:
        """For (heads, KV heads, head size), queries of a sequence and cached tokens of all sequences."""
        known = self._choices.get(heads)
        if known is None:
            return self.default
        nearest = min((c.query for c in known), key=lambda measured: abs(math.log(measured / query)))
        reached = [c for c in known if c.query == nearest and c.from_tokens <= tokens]
        last = max(reached, key=lambda c: c.from_tokens, default=None)
        return self.default if last is None else self.by_name.get(last.name, self.default)
