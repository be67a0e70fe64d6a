"""Attention: pairs against loops, windows, budgets, pages; FLOPs against torch's own counter."""

import numpy as np
import pytest

from perfmodel.costs import forward
from perfmodel.specs.model import ModelSpec
from tests.costs.counting import FULL, count, part, tiny


def pairs_by_loop(query: int, context: int, window: int | None) -> int:
    """Query i of the new tokens sees the cached tokens and new ones up to itself, at most `window` before it."""
    pairs = 0
    for i in range(query):
        position = context + i
        seen = [key for key in range(position + 1) if window is None or position - key <= window]
        pairs += len(seen)
    return pairs


@pytest.mark.parametrize("window", [None, 1, 8, 33])
@pytest.mark.parametrize("context", [0, 5, 8, 100])
@pytest.mark.parametrize("query", [1, 2, 5, 9, 40])
def test_attention_pairs_against_loops(query, context, window):
    spec = tiny() if window is None else tiny(sliding_window=window, num_sliding_layers=3)
    (op,) = (op for op in forward(part(spec), 2.0, float(query), float(context), FULL) if op.kind == "attention")
    counted = op.cost.flops / (2 * 3 * 4 * 4 * 16)  # 2 sequences, 3 layers, 4 FLOPs, 4 heads of 16
    assert counted == pairs_by_loop(query, context, window)


def test_pages_round_the_cache_up():
    p = part("llama-3.1-8b", kv_page=16)
    # 1000 tokens lie in 63 pages: 1008
    assert count(p, batch=5.0, context=1000.0)["attention (full)"].cost.kv_bytes == 5 * 1008 * 131_072
    assert p.stored_kv_bytes(1000.0) == 1008 * 131_072
    assert p.stored_kv_bytes(np.array([1.0, 16.0, 17.0])).tolist() == [16 * 131_072, 16 * 131_072, 32 * 131_072]
    # nothing more is computed for it
    paged, plain = (count(part("llama-3.1-8b", kv_page=page), context=1000.0) for page in (16, 1))
    assert paged["attention (full)"].cost.flops == plain["attention (full)"].cost.flops
    # a window of 128 is rounded by layer: 9 pages of 16 hold 130 tokens of a full layer
    assert part("gpt-oss-20b", kv_page=16).stored_kv_bytes(130.0) == 12 * (144 + 128) * 2048


def torch_flops(model: ModelSpec, batch: int, query: int, context: int) -> int:
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter")
    heads, kv_heads, dim, hidden, inner = 4, 2, model.head_dim, model.hidden_size, model.intermediate_size

    def times(x, columns: int):
        return x @ torch.randn(x.shape[-1], columns)

    with counter.FlopCounterMode(display=False) as counted:
        x = torch.randn(batch, query, hidden)
        for _ in range(model.num_hidden_layers):
            q, k, v = (
                times(x, n * dim).view(batch, query, n, dim).transpose(1, 2) for n in (heads, kv_heads, kv_heads)
            )
            cached = torch.cat([torch.randn(2, batch, kv_heads, context, dim), torch.stack([k, v])], dim=-2)
            k, v = cached.repeat_interleave(heads // kv_heads, dim=2)
            mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
            x = x + times(mixed.transpose(1, 2).reshape(batch, query, heads * dim), hidden)
            x = x + times(times(x, inner) * times(x, inner), hidden)
        times(x, model.vocab_size)
    return counted.get_total_flops()


@pytest.mark.parametrize(("batch", "query", "context"), [(1, 1, 7), (3, 1, 50), (3, 4, 50), (2, 9, 5), (2, 16, 0)])
def test_flops_equal_those_torch_counts(batch, query, context):
    model = tiny()
    ops = forward(part(model), float(batch), float(query), float(context), FULL)
    ours = sum(float(op.cost.flops) for op in ops)
    # torch multiplies masked pairs too: query (query - 1) / 2 a sequence, each 2 FLOPs for the score and 2 for the
    # value in 4 heads of 16 dimensions and 3 layers
    masked = batch * query * (query - 1) / 2 * (2 + 2) * 4 * 16 * 3
    assert ours + masked == torch_flops(model, batch, query, context)
