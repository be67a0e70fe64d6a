"""A quantised cache: its codes, scales and zero points."""

import pytest
import torch

from perfmodel.validate.decoder.kv.quantized import QuantizedView
from tests.validate.decoder.views import KV, D, cache, view


@pytest.mark.parametrize(("bits", "group"), [(4, None), (8, None), (4, 2), (8, 4)])
def test_codes_by_hand(bits: int, group: int | None) -> None:
    """Values in as many even steps as there are codes come back as they are; scale and zero point are
    stated.
    """
    source = cache([3, 3, 3], torch.float32)
    grouped = f",group={group}" if group else ""
    draft_view = view(f"quantized,bits={bits}{grouped}", source)
    assert isinstance(draft_view, QuantizedView)
    top = 2**bits - 1
    codes = torch.tensor([0, top] * (D // 2)).repeat(KV, 1)
    if group is None:
        codes[0, 2:4] = torch.tensor([3, 9])
    source.k[:, :, :, 7] = codes.float() * 0.5 - 2
    source.set_lengths(torch.tensor([8, 8, 8]), 8)
    draft_view.commit(torch.tensor([7, 7, 7]), torch.tensor([1, 1, 1]))
    draft_view.begin()
    restored = draft_view.restored(1, torch.float32)[0, :, :, 7]
    assert torch.equal(restored, source.k[1, :, :, 7])
    groups = D // (group or D)
    assert draft_view.scales[0, 1, 0, 0, 7].tolist() == [[0.5, -2.0]] * groups
    assert draft_view.codes.shape[-1] == D * bits // 8
    first = codes[0]
    halves = first[: D // 2] + 16 * first[D // 2 :]
    packed = first if bits == 8 else halves
    assert draft_view.codes[0, 1, 2, 0, 7].tolist() == packed.tolist()
