"""Expert parallelism and data-parallel attention: what each device computes, reads, holds and sends, by
hand.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from perfmodel.speculation import Memory, memory_of
from tests.costs.machines import count as counted, device_shard
from tests.speculation import scenarios

scenario = partial(
    scenarios.scenario,
    model="deepseek-r1",
    hardware="h200-sxm-141gb",
    batch=64,
    context=8192,
    gamma=0,
    tp=8,
    alpha=None,
)


def test_every_device_reads_its_share_of_whole_experts() -> None:
    """128 experts of 2048 x 768 x 3 over 4 groups of one device: 32 whole ones each, not 128 quarters."""
    dealt = device_shard("qwen3-30b-a3b", 4, expert_groups=4)
    cut = device_shard("qwen3-30b-a3b", 4)
    assert dealt.experts is not None
    assert dealt.experts.expert_weight_bytes == 48 * 2 * 3 * 2048 * 768
    assert dealt.stored_weight_bytes == pytest.approx(cut.stored_weight_bytes)
    one, all_tokens = (counted(dealt, batch=batch)["experts"].cost for batch in (1.0, 1e6))
    # of 8 chosen, 2 +- sqrt(2 * 15/16) a device; the largest of four normal numbers is 1.05 deviations up
    touched = one.weight_bytes / dealt.experts.expert_weight_bytes
    expected = 2 + 1.05 * (2 * 15 / 16) ** 0.5
    assert touched == pytest.approx(expected, rel=2e-3)
    expected = 32 * 48 * 2 * 3 * 2048 * 768
    assert all_tokens.weight_bytes == pytest.approx(expected)
    assert one.flops == counted(cut, batch=1.0)["experts"].cost.flops


def test_devices_add_up_the_squares_of_norms_over_all_heads() -> None:
    """OLMo-2 norms queries and keys over all heads: two sums of four bytes a token, in each of 32 layers."""
    olmo = scenario(model="olmo-2-7b", tp=2, calibration="ideal")
    ops = {op.name: op for op in olmo.target_ops(16.0, 8192.0)}
    sums = ops["qk norm sums"]
    assert (sums.kernels, sums.norms, sums.message_bytes) == (32, 32, 16 * 2 * 4)


def target_ops(dp: int, ep: int) -> dict[str, Any]:
    """64 sequences of DeepSeek-R1 on 8 devices."""
    ops = scenario(dp=dp, ep=ep, calibration="ideal").target_ops(64.0, 8192.0)
    return {op.name: op for op in ops}


def test_data_parallel_attention_attends_for_its_own_sequences() -> None:
    """64 sequences over 8 groups: 8 a device, with all 128 heads and the whole latent; the layers' MLP sees
    all 64.
    """
    whole = target_ops(dp=8, ep=8)
    shared = target_ops(dp=1, ep=1)
    assert whole["attention (full)"].cost.kv_bytes * 8 == shared["attention (full)"].cost.kv_bytes
    assert whole["q_up"].cost.weight_bytes == 8 * shared["q_up"].cost.weight_bytes
    assert whole["q_up"].cost.flops == shared["q_up"].cost.flops  # 8 times the heads, an eighth of the tokens
    for name in ("shared_down", "lm_head", "router"):
        assert whole[name].cost.flops == shared[name].cost.flops
    # a block of experts sends each token's state to the 8 (1 - (7/8)^8) groups that hold one of its 8 experts
    reach = 1 - (7 / 8) ** 8
    assert whole["all-to-all"].message_bytes == pytest.approx(reach * 64 * 7168 * 2)
    assert whole["all-to-all"].kernels == 61
    assert "all-reduce" not in whole
    two = target_ops(dp=4, ep=8)
    assert two["all-reduce"].devices == 2
    assert two["all-reduce"].message_bytes == 16 * 7168 * 2
    halves = target_ops(dp=2, ep=2)
    assert halves["all-to-all"].message_bytes == pytest.approx((1 - (1 / 2) ** 8) * 64 * 7168 * 2)
    assert halves["all-reduce"].devices == 4
    assert halves["all-reduce"].kernels == 61


def room(batch: float, **groups: int) -> Memory[float]:
    """Memory of DeepSeek-R1 on 8 x H200 at 8k."""
    return memory_of(scenario(**groups), batch, 8192.0, 0, 0.92).single()


def test_a_latent_cache_is_held_once_a_group() -> None:
    """Eight groups hold some six times as many sequences as one that replicates the cache."""
    replicated = room(64.0)
    grouped = room(64.0, dp=8, ep=8)
    assert replicated.max_batch < 90
    assert 480 < grouped.max_batch < 560
    assert grouped.max_batch % 8 == 0
    assert grouped.kv_bytes * 8 == replicated.kv_bytes
    # nine sequences leave two on one device
    assert room(9.0, dp=8, ep=8).kv_bytes == room(16.0, dp=8, ep=8).kv_bytes


@pytest.mark.parametrize("groups", [{"ep": 8}, {"dp": 8, "ep": 8}, {"dp": 2, "ep": 4}])
def test_nothing_gets_faster_with_more_work(groups: dict[str, int]) -> None:
    s = scenario(**groups)
    seconds = np.asarray(s.target_pass_s(np.arange(1.0, 300.0)[:, None], 8192.0, np.arange(1.0, 9.0)))
    assert np.all(np.diff(seconds, axis=0) >= 0)
    assert np.all(np.diff(seconds, axis=1) >= 0)
