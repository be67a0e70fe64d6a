"""What fits: recomputed from the parts, one more sequence never does, and more of anything never fits
better.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from perfmodel.errors import InputError
from perfmodel.speculation import capacity
from tests.speculation.scenarios import scenario

DRAFTS = [
    {"draft_kv": "full"},
    {"draft_kv": "streamingllm:512"},
    {"draft_kv": "streamingllm:512", "draft_weights": "int4"},
    {"draft_kv": "quest:1024"},
    {"draft_kv": "quantized"},
    {"draft_kv": "snapkv:2049", "draft": "llama-3.2-1b", "draft_tp": 1},
    {"draft_kv": "full", "draft": "llama-160m", "draft_tp": 1},
]


def ask(batch, context, gamma, fraction=0.9, **flags) -> capacity.Memory:
    return capacity.memory_of(scenario(**flags), batch, context, gamma, fraction)


def used(m: capacity.Memory) -> float:
    return float(m.weight_bytes + m.kv_bytes + m.draft_weight_bytes + m.draft_kv_bytes)


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(["llama-3.1-8b", "llama-2-13b", "gemma-3-27b", "deepseek-v2-lite", "gpt-oss-20b"]),
    draft=st.sampled_from(DRAFTS),
    tp=st.sampled_from([1, 2, 4]),
    context=st.integers(1, 2**18),
    gamma=st.integers(0, 12),
    fraction=st.floats(0.1, 1),
    kv_dtype=st.sampled_from(["bf16", "fp8", "int4"]),
)
def test_the_largest_batch_fits_and_one_more_does_not(model, draft, tp, context, gamma, fraction, kv_dtype):
    flags = {"model": model, "tp": tp, "kv_dtype": kv_dtype, **draft}
    try:
        m = ask(1, context, gamma, fraction, **flags)
    except InputError:
        assume(False)
    seat = m.sequence_bytes - m.kv_bytes - m.draft_kv_bytes  # beside the caches of one sequence
    assert seat >= 0
    left = m.available_bytes + seat - m.weight_bytes - m.draft_weight_bytes
    assert m.pool_bytes == pytest.approx(left)
    most = int(m.max_batch)
    more = ask(most + 1, context, gamma, fraction, **flags)
    assert used(more) > more.available_bytes * (1 - 1e-12)
    assert not more.fits or used(more) == pytest.approx(more.available_bytes, rel=1e-12)
    if most:
        full = ask(most, context, gamma, fraction, **flags)
        assert used(full) <= full.available_bytes * (1 + 1e-12)
        assert full.fits or used(full) == pytest.approx(full.available_bytes, rel=1e-12)
    plain = ask(1, context, 0, fraction, **flags)
    assert plain.max_batch == plain.ar_max_batch == m.ar_max_batch >= m.max_batch


def test_parts_by_hand():
    # 8B on two A100, gamma 3, S 1000, B 5: 32 layers x 2 x 4 KV heads x 128 x 2 bytes = 65 536 a token and
    # device; target 5 x 1004 tokens, ring buffers 5 x 512
    m = ask(5, 1000, 3, tp=2, draft_kv="streamingllm:512")
    assert m.kv_bytes == 5 * 1004 * 65_536
    assert m.draft_kv_bytes == 5 * 512 * 65_536
    assert m.draft_weight_bytes == 0
    # norms stay whole on both devices: 65 x 4096 x 2 bytes
    assert m.weight_bytes == (16_060_522_496 - 532_480) / 2 + 532_480


def test_drafts_hold_what_is_theirs():
    assert ask(1, 9000, 3, draft_kv="full").draft_kv_bytes == 0
    # another precision is a second copy of all weights: int4 layers, bf16 norms, embedding and head
    copy = ask(1, 9000, 3, draft_kv="full", draft_weights="int4")
    assert copy.draft_weight_bytes == 6_979_321_856 / 2 + 4 * 525_336_576 + 532_480
    # a separate model: 1.2359 B parameters, and its own 16 x 2 x 8 x 64 x 2 bytes for every token
    draft_model = ask(1, 9000, 3, draft_kv="full", draft="llama-3.2-1b")
    assert draft_model.draft_weight_bytes == 2 * 1_235_814_400
    assert draft_model.draft_kv_bytes == 9000 * 32_768
    plain = ask(1, 9000, np.array([0, 1]), draft_kv="full", draft="llama-3.2-1b")
    assert plain.draft_weight_bytes.tolist() == [0, 2 * 1_235_814_400]  # nothing of a draft without one
    assert plain.draft_kv_bytes.tolist() == [0, 9000 * 32_768]
    # on one of two devices it is still held whole there
    assert (
        ask(1, 9000, 3, draft_kv="full", draft="llama-3.2-1b", draft_tp=1, tp=2).draft_weight_bytes
        == 2_471_628_800
    )
