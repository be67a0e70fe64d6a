"""Bytes that a draft step reads of its cache, and bytes that it keeps, against the engine's predictions."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfmodel.kv import KVLayout, parse_kv
from perfmodel.validate.decoder.kv.base import Packed
from perfmodel.validate.decoder.kv.retrieval import RetrievalView
from tests.validate.decoder.views import BATCH, HEADS, KV, LAYERS, D, cache, grow, query, view

CONTEXT = 96
"""All lengths equal and a multiple of every page and chunk: the engine's formulas do not round."""


@pytest.mark.parametrize(
    "method",
    [
        "full",
        "streamingllm:24",
        "snapkv:24,window=8",
        "snapkv:24,window=8,generated=10",
        "quest:24,page=8",
        "topk:24",
        "retrieval:24,every=4",
        "quantized,bits=4",
        "quantized,bits=8",
        "quantized,bits=4,group=4",
    ],
)
def test_bytes_gathered_are_the_bytes_predicted(method: str) -> None:
    """A draft step reads read_bytes + select_step().bytes per sequence and layer, and keeps stored_bytes."""
    source = cache([CONTEXT] * BATCH, torch.bfloat16)
    draft_view = view(method, source)
    predicted = parse_kv(method)
    if "generated" in method:
        grow(source, draft_view, [[5] * BATCH] * 2)
    draft_view.begin()
    inputs = query(dtype=torch.bfloat16)
    tensors = [value for value in vars(draft_view).values() if isinstance(value, Tensor)]
    with Reads([source.kv, *tensors]) as reads:
        draft_view.attend(0, *inputs)
    layout = KVLayout(KV, D, 2 * KV * D, HEADS, 2)
    context = float(source.lengths[0])
    wanted = predicted.read_bytes(context, layout) + predicted.select_step(context, layout).bytes
    assert sum(reads.bytes.values()) / BATCH == wanted
    if isinstance(draft_view, Packed):
        token_bytes = source.kv[:, 0, 0, :, 0].nbytes
        kept_bytes = int(draft_view.lengths[0]) * token_bytes
        if isinstance(draft_view, RetrievalView):
            means = draft_view.sums[:, :, :, : CONTEXT // 8].nbytes / LAYERS / BATCH
        else:
            means = 0
        assert kept_bytes + means == predicted.stored_bytes(context, layout)


class Reads(TorchDispatchMode):
    """Bytes that operators read of some tensors: what they are given of them, or what they pick out."""

    PICK = ("index_select", "gather", "index")

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self.watched = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel() > BATCH}
        self.bytes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        results = [part for part in tree_leaves(out) if isinstance(part, Tensor)]
        made = {part.untyped_storage().data_ptr() for part in results}
        for given in tree_leaves((args, kwargs)):
            if isinstance(given, Tensor) and given.untyped_storage().data_ptr() in self.watched - made:
                picked = out if func.overloadpacket.__name__ in self.PICK else given
                known = self.bytes.get(given.data_ptr(), 0)
                self.bytes[given.data_ptr()] = max(picked.nbytes, known)
        return out
