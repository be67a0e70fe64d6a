"""The view of the method `topk`. Every step computes the scores of all keys, and attends to the tokens with
the best scores. The method gives an upper bound of the acceptance of sparse methods, but saves no time.
"""

from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan
from perfmodel.validate.decoder.kv.base import View


class TopKView(View):
    """The view that selects the `budget` tokens with the largest attention weights per KV head. The weights
    are summed over the query heads that share the KV head.
    """

    by_query = True

    def begin(self) -> None:
        super().begin()
        bound = min(self.budget or self._span.bound, self._span.bound)
        self._chosen = CacheSpan(self._span.lengths.clamp(max=bound), bound)

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        k = self._span.of(self.source.k[layer])
        v = self._span.of(self.source.v[layer])
        return self.selection.over_tokens(
            q,
            k,
            v,
            lengths=self._span.lengths,
            chosen=self._chosen,
            new_k=new_k,
            new_v=new_v,
            sees=sees,
        )
