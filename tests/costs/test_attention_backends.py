"""Backends that cut the cache for one query token alone: worked numbers, and where the effect ends."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.costs.roofline import Machine
from perfmodel.operations import Cost, Op
from perfmodel.specs import load_gpu
from perfmodel.specs.engines.attention import backend_name
from tests.costs.machines import BW, machine


def vllm(backend: str | None = None, kv_reread: float | None = None, rate: float = 1.1) -> Machine:
    """An ideal A100 with vLLM's backends."""
    plain = machine(block_bandwidth=rate)
    calibration = plain.calibration.model_copy(update={"stack": "vllm"})
    return replace(plain, calibration=calibration, attention_backend=backend, kv_reread=kv_reread)


def layer(query: float, heads: float = 4.0, tokens: float = 16384.0) -> Op:
    """One layer of attention over heads of 1,024 bytes a token."""
    cost = Cost(kv_bytes=heads * tokens * 1024)
    return Op("attention", "attention", 1, cost, query=query, work_items=heads, rows=heads)


def test_one_block_reads_the_whole_cache_of_a_head() -> None:
    """16.8 MB at 1.1 of a 108th of 2,039 GB/s: 0.81 ms; four heads read at once take as long as one."""
    by_hand = 16384 * 1024 / (1.1 * BW / 108)
    assert by_hand == pytest.approx(0.81e-3, rel=0.01)
    assert vllm("flash-attn2").op_predicted_s(layer(4.0)) == pytest.approx(by_hand)
    assert vllm("flash-attn2").op_predicted_s(layer(4.0, heads=1.0)) == pytest.approx(by_hand)
    assert vllm("flash-attn2").op_predicted_s(layer(1.0)) == pytest.approx(4 * 16384 * 1024 / BW)
    assert vllm("triton").op_predicted_s(layer(1.0)) == pytest.approx(by_hand / 16)
    queries = vllm("flash-attn2").op_predicted_s(layer(np.array([1.0, 2.0, 9.0])))
    assert queries == pytest.approx([4 * 16384 * 1024 / BW, by_hand, by_hand])


def test_the_effect_ends_where_heads_fill_the_device() -> None:
    for heads in (108.0, 200.0, 432.0):
        uncut, cut = (
            vllm(b, rate=1.0).op_predicted_s(layer(4.0, heads)) for b in ("flash-attn2", "flash-attn3")
        )
        assert uncut == pytest.approx(cut)
    assert vllm("flash-attn2").op_predicted_s(layer(4.0, 54.0)) == pytest.approx(
        108 / 54 / 1.1 * float(vllm("flash-attn3").op_predicted_s(layer(4.0, 54.0)))
    )


def test_a_reread_that_is_asked_for_stands_for_the_backend() -> None:
    assert vllm("flash-attn2", 2.0).op_predicted_s(layer(4.0)) == pytest.approx(2 * 4 * 16384 * 1024 / BW)
    own = vllm("trtllm")
    c = own.calibration
    slope = c.latent_reread_per_query.model_copy(update={"value": 1.0})
    again = replace(own, calibration=c.model_copy(update={"latent_reread_per_query": slope}))
    assert float(again.reread(4.0, latent=True)) == 4
    assert float(replace(again, attention_backend="flashmla").reread(4.0, latent=True)) == 1


@pytest.mark.parametrize(
    ("engine", "gpu", "latent", "name"),
    [
        ("vllm", "rtx-3090", False, "flash-attn2"),
        ("vllm", "rtx-pro-6000", False, "flash-attn2"),
        ("vllm", "h100", False, "flash-attn3"),
        ("vllm", "b200", True, "trtllm"),
        ("sglang", "a100-sxm-80gb", False, "flashinfer"),
        ("sglang", "rtx-pro-6000", True, "triton"),
        ("sglang", "mi300x", True, "triton"),
        ("trtllm", "h200", False, "trtllm"),
        ("magicdec", "a100-sxm-80gb", False, None),
    ],
)
def test_engines_choose_by_device(engine: str, gpu: str, latent: bool, name: str | None) -> None:
    assert backend_name(engine, load_gpu(gpu).architecture, latent) == name
