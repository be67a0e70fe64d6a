"""What an indexer and recurrent layers cost on one device, by hand from the shapes of the models that have them."""

import pytest

from perfmodel.costs import shard
from perfmodel.specs.formats import Precision, kv_format, weight_format
from perfmodel.specs.model import load_model

BF16 = Precision(weight_format("bf16"), kv_format("bf16"))


def test_the_indexer_of_deepseek_v32() -> None:
    """64 heads of 128: a pair takes 2 x 8192 FLOPs; queries in fp8, a weight in fp32 a head; whole on every device."""
    model = load_model("deepseek-v3.2")
    for devices in (1, 8):
        index = shard(model, devices, BF16).index
        assert index is not None
        assert index.flops_per_pair == 2 * 64 * 128
        assert index.layers == 61
        scale = index.key_bytes / 128  # bytes of a key's value, its share of the scale included
        assert index.query_bytes == pytest.approx(64 * 128 * scale + 64 * 4)


def test_states_divide_by_value_heads() -> None:
    """Qwen3-Next: 32 value heads of 128 x 128 over 16 key heads, so half of the state on each of two devices."""
    model = load_model("qwen3-next-80b-a3b")
    one, two = (shard(model, n, BF16).states for n in (1, 2))
    assert one is not None
    assert two is not None
    assert two.bytes_per_sequence == pytest.approx(one.bytes_per_sequence / 2)
    assert two.flops_per_token == pytest.approx(one.flops_per_token / 2)
