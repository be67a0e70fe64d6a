"""The view of `full`: a draft step reads every committed token of the source cache in place."""

from torch import Tensor

from perfmodel.validate.decoder.kv.base import View


class FullView(View):
    """Reads all tokens. The draft then differs from the target only in its weights."""

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        k = self.source.k[layer]
        v = self.source.v[layer]
        return self.attention(q, k, v, self._span, new_k, new_v, sees)
