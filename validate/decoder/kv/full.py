"""The view of the method `full`. A draft step reads every committed token in place."""

from torch import Tensor

from perfmodel.validate.decoder.kv.base import View


class FullView(View):
    """The view that reads all committed tokens. A self-draft with this view computes the same as its
    target.
    """

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        k = self.source.k[layer]
        v = self.source.v[layer]
        return self.attention(q, k, v, self._span, new_k, new_v, sees)
