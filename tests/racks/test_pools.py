"""Prefill and decode on separate pools."""

from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pools_answer import Pools
from perfmodel.errors import InputError
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "instances"),
    [
        ("2x4", Instances(2, 4)),
        ("1x32:dp32", Instances(1, 32, dp=32)),
        ("3x8:ep8", Instances(3, 8, ep=8)),
        ("10x16:ep4,dp2", Instances(10, 16, dp=2, ep=4)),
    ],
)
def test_the_instances_of_a_pool_are_read_and_written(text: str, instances: Instances) -> None:
    assert Instances.of(text, "--decode") == instances
    assert Instances.of(str(instances), "--decode") == instances


@pytest.mark.parametrize("text", ["0x4", "2x0", "4", "2x4:", "2x4:tp2", "2x4:dp2,ep2,dp2", "x4"])
def test_other_texts_are_not_instances(text: str) -> None:
    refused("decode: must be INSTANCESxGPUS", Instances.of, text, "--decode")


ASKED: dict[str, Any] = {
    "model": "deepseek-v3",
    "hardware": "h200",
    "engine": "sglang",
    "input_len": 4096,
    "output_len": 512,
    "draft": "mtp",
    "gamma": 3,
    "alpha": 0.7,
    "closed_form": True,
}


def pools(**changes: Any) -> Pools:
    answer = pm.traffic(**ASKED | {"prefill": "2x8", "decode": "1x8:dp8,ep8"} | changes).pools
    assert answer is not None
    return answer


def row(gamma: int = 3, **changes: Any) -> PoolRow:
    return next(each for each in pools(**changes).rows if each.gamma == gamma)


@pytest.mark.parametrize("gamma", [0, 3])
@pytest.mark.parametrize("clients", [4, 64, 2000])
def test_one_more_instance_never_lowers_the_throughput(gamma: int, clients: int) -> None:
    def rate(prefill: int, decode: int) -> float:
        pool_row = row(gamma, prefill=f"{prefill}x8", decode=f"{decode}x8:dp8,ep8", max_concurrency=clients)
        return pool_row.output_tokens_per_s

    base = rate(1, 1)
    assert rate(2, 1) >= base * (1 - 1e-9)
    assert rate(1, 2) >= base * (1 - 1e-9)


def test_the_decode_batch_is_rate_times_time_and_not_the_clients() -> None:
    pool_row = row(max_concurrency=2000)
    assert pool_row.decode_batch < 2000
    assert pool_row.decode_batch == pytest.approx(pool_row.request_rate * 511 * pool_row.tpot_s, rel=0.02)
    whole = pool_row.request_rate * (pool_row.ttft_s + 511 * pool_row.tpot_s)
    assert whole == pytest.approx(2000, rel=0.01)


def test_the_parts_of_ttft_sum_to_it() -> None:
    pool_row = row(request_rate=2)
    parts = pool_row.queue_s + pool_row.prefill_s + pool_row.transfer_s + pool_row.first_step_s
    assert pool_row.ttft_s == pytest.approx(parts)


def test_a_draft_raises_the_ratio_of_prefill_to_decode_by_its_speedup() -> None:
    ratio = pools(request_rate=2).ratio
    assert ratio[3] > ratio[0]


def test_two_micro_batches_share_the_tokens_of_prompts_and_hide_a_part_of_the_messages() -> None:
    wide = {"prefill": "1x32:dp32,ep32", "decode": "1x32:dp32,ep32", "max_concurrency": 100_000}
    sizes = {"output_len": 16, "max_num_batched_tokens": 16384}
    plain = row(0, **wide | sizes)
    cut = row(0, **wide | sizes, overlap="two-batch")
    assert plain.limits == cut.limits == "prefill"
    assert 1.1 < cut.request_rate / plain.request_rate < 2.0


def test_a_full_prefill_pool_bounds_the_rate_with_and_without_a_draft() -> None:
    few = {"prefill": "1x8", "decode": "4x8:dp8,ep8", "max_concurrency": 2000}
    plain = row(0, **few)
    drafted = row(3, **few)
    assert plain.limits == drafted.limits == "prefill"
    assert drafted.tpot_s < plain.tpot_s
    assert drafted.ttft_s > plain.ttft_s
    assert drafted.output_tokens_per_s <= plain.output_tokens_per_s


def test_a_prefill_pool_without_the_draft_sends_less_and_drafts_later() -> None:
    ran = row(request_rate=2)
    without = row(request_rate=2, prefill_draft="none")
    assert without.transfer_s < ran.transfer_s
    assert without.tpot_s > ran.tpot_s


def test_a_given_link_decides_the_transfer() -> None:
    slow = row(request_rate=2, kv_link="0.5")
    fast = row(request_rate=2, kv_link="50,1,0.4")
    assert slow.transfer_s > 50 * fast.transfer_s


@pytest.mark.parametrize(
    "link", ["50,0", "50,1.1", "50,1,1,1", "0", "-50", "50,1,-1", "50,", "2e6", "50,1,2e6", "50,1,nan"]
)
def test_a_wrong_rate_share_or_time_of_a_link_is_refused(link: str) -> None:
    refused("kv_link: must be GB/S", pools, request_rate=2, kv_link=link)


def test_a_pool_may_be_typed_in_capitals() -> None:
    assert pools(request_rate=2, decode="1X8:DP8").decode == "1x8:dp8"


def test_a_device_whose_link_nobody_measured_needs_a_given_one() -> None:
    """Half of 25 GB/s, of which the whole rate is reached if no share is given, and at least 3 ms."""
    ask = {"model": "llama-3.2-1b", "hardware": "a10", "input_len": 1000, "output_len": 100, "gamma": 0}
    ask |= {"prefill": "1x1", "decode": "1x1", "request_rate": 0.1, "closed_form": True}
    refused("kv_link: hardware/links has no table of links between servers of a10", pm.traffic, **ask)
    half, whole, floor = (
        pm.traffic(**ask, kv_link=link).pools.rows[0].transfer_s for link in ("25,0.5", "25", "25,0.5,3")
    )
    assert half == pytest.approx(2 * whole)
    assert floor == pytest.approx(half + 0.003)


@pytest.mark.parametrize(("prompt", "measured_ms"), [(128, 0.54), (2048, 2.51), (32768, 31.65)])
def test_the_default_link_is_that_of_mooncake(prompt: int, measured_ms: float) -> None:
    """results/published/racks.csv, mooncake-vllm-h800: the constants of the link are fitted to these rows."""
    question = {
        "model": "qwen3-8b",
        "hardware": "h800",
        "engine": "vllm",
        "input_len": prompt,
        "output_len": 128,
    }
    shape = {"prefill": "1x8", "decode": "1x8", "request_rate": 0.1, "gamma": 0, "closed_form": True}
    answer = pm.traffic(**question | shape).pools
    assert answer is not None
    assert answer.rows[0].transfer_s * 1e3 == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decode": None}, "prefill: needs decode"),
        ({"decode": "32"}, "decode: must be INSTANCESxGPUS"),
        ({"kv_link": "fast"}, "kv_link: must be GB/S"),
        ({"decode": "1x2"}, "decode: no request of 4352 tokens fits next to the weights of deepseek-v3 on 2"),
        (
            {"prefill": "4x2"},
            "prefill: no request of 4096 tokens fits next to the weights of deepseek-v3 on 2",
        ),
        ({"decode": "1x24:dp24,ep24"}, "decode: ep: must be a divisor of the 256 experts"),
        ({"prefill": "1x3"}, "prefill: tp: must divide the 128 query heads"),
    ],
)
def test_a_wrong_pool_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pools(**{"request_rate": 1} | changes)
    assert message in str(caught.value)


def test_the_best_split_serves_at_least_the_rate_of_the_given_one() -> None:
    sizes = {"max_concurrency": 100_000, "gamma": 0}
    named_split = pools(prefill="1x8", decode="4x8:dp8,ep8", **sizes)
    prefill, decode = named_split.best_split[0]
    assert prefill + decode == 5
    best = pools(prefill=f"{prefill}x8", decode=f"{decode}x8:dp8,ep8", **sizes)
    assert best.rows[0].output_tokens_per_s >= named_split.rows[0].output_tokens_per_s
    assert best.best_split[0] == (prefill, decode)


def test_percentiles_lie_above_the_mean_and_fewer_requests_are_within_the_slo_at_a_higher_rate() -> None:
    limits = {"slo": "ttft:900,tpot:25"}
    calm = row(request_rate=1, **limits)
    busy = row(request_rate=7, **limits)
    for pool_row in (calm, busy):
        assert pool_row.ttft_s < pool_row.ttft_p90_s < pool_row.ttft_p99_s
        assert pool_row.tpot_s < pool_row.tpot_p90_s < pool_row.tpot_p99_s
    assert calm.slo_share is not None
    assert busy.slo_share is not None
    assert calm.slo_share > busy.slo_share
    assert row(request_rate=1).slo_share is None
    assert row(request_rate=1000, **limits).slo_share == 0.0


def test_no_time_falls_as_more_clients_come_where_larger_batches_are_no_faster() -> None:
    """Clients beyond a batch that decodes no slower than larger ones do not wait in front of the pools."""
    sizes = {"prefill": "4x8:dp8,ep8", "decode": "1x32:dp32,ep32", "input_len": 224, "output_len": 307}
    server = {"model": "qwen3-235b-a22b-2507", "hardware": "b200", "draft": "ngram", "gamma": 0}
    rows = pools(**server, **sizes, max_concurrency=range(1000, 2000, 20)).rows
    assert all(row.decode_used < 1 for row in rows)
    for name in ("ttft_s", "ttft_p99_s", "tpot_s", "tpot_p99_s", "decode_batch"):
        times = [getattr(row, name) for row in rows]
        assert times == sorted(times), name
    assert rows[-1].ttft_s < 1.2 * rows[0].ttft_s


@pytest.mark.parametrize("burstiness", [0.3, 3.0])
def test_no_percentile_falls_as_the_rate_rises(burstiness: float) -> None:
    server = {"model": "mimo-v2.5", "hardware": "mi300x", "engine": "vllm", "gamma": (0, 1), "draft": "mtp"}
    sizes = {"prefill": "3x2", "decode": "5x4", "kv_link": "50", "input_len": 3770, "output_len": 485}
    rates = [0.1 * step for step in range(1, 200)]
    rows = pools(**server, **sizes, request_rate=rates, burstiness=burstiness).rows
    for gamma in (0, 1):
        for name in ("tpot_s", "tpot_p90_s", "tpot_p99_s", "ttft_s", "ttft_p99_s"):
            times = [getattr(row, name) for row in rows if row.gamma == gamma]
            assert times == sorted(times), (gamma, name)


def test_prompts_of_equal_lengths_queue_like_an_m_d_1_queue() -> None:
    """Pollaczek and Khinchine: half the wait of exponential service; varied prompts wait longer."""
    pool_row = row(request_rate=4, prefill="1x8")
    used = pool_row.prefill_used
    service = used / 4.0
    assert pool_row.queue_s == pytest.approx(used / (1.0 - used) * service / 2.0)
    assert row(request_rate=4, prefill="1x8", input_std=2000).queue_s > pool_row.queue_s
    assert row(request_rate=4, prefill="1x8", burstiness=0.25).queue_s > pool_row.queue_s


def test_a_shared_prefix_is_read_once_and_still_sent_whole() -> None:
    whole = pools(request_rate=2, gamma=0)
    shared = pools(request_rate=2, gamma=0, prefix_len=2048)
    assert shared.prefix_hit_rate == pytest.approx(0.5, abs=0.02)
    assert shared.rows[0].prefill_s < 0.8 * whole.rows[0].prefill_s
    assert shared.rows[0].transfer_s == whole.rows[0].transfer_s
    assert shared.rows[0].tpot_s == whole.rows[0].tpot_s
    assert shared.ratio[0] < whole.ratio[0]


def test_a_further_turn_reads_the_answer_before_it_again() -> None:
    """The prefill pool has the prompt of 4,096 tokens, and reads 512 of the answer and 1,000 new ones."""
    answer = pools(request_rate=0.5, gamma=0, turns=2, turn_input_len=1000)
    second = 4096 + 512 + 1000
    assert answer.prefix_hit_rate == pytest.approx(4096 / (4096 + second), abs=0.02)
    assert any("computes the previous output again" in note for note in answer.notes)


def test_a_decode_pool_without_the_draft_of_the_prefill_pool_loses_what_that_runs_and_sends() -> None:
    lost = pools(request_rate=2, decode_draft="none")
    plain = row(0, request_rate=2)
    (only_row,) = lost.rows
    assert only_row.tpot_s == plain.tpot_s
    assert only_row.prefill_s > plain.prefill_s
    assert only_row.transfer_s > plain.transfer_s
    assert any("does not need the draft" in note for note in lost.notes)
    (clean,) = pools(request_rate=2, decode_draft="none", prefill_draft="none").rows
    assert clean.ttft_s == plain.ttft_s


def test_a_decode_pool_that_looks_tokens_up_needs_no_draft_on_prompts() -> None:
    looked_up = {"decode_draft": "ngram", "alpha": None, "rate": "0.5x3", "request_rate": 2}
    without = pools(**looked_up, prefill_draft="none")
    assert not any("drafts nothing" in note for note in without.notes)
    ran = pools(**looked_up)
    assert ran.rows[-1].prefill_s > without.rows[-1].prefill_s
    assert ran.rows[-1].transfer_s == without.rows[-1].transfer_s


def test_a_draft_after_prompts_of_another_one_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        pools(request_rate=2, decode_draft="eagle3")
    assert "decode_draft: no measurement is published of eagle3" in str(caught.value)
    assert "\n" not in str(caught.value)
    later = pools(request_rate=2, decode_draft="eagle3", prefill_draft="none")
    assert any("drafts nothing" in note for note in later.notes)


def test_what_is_of_one_server_is_refused() -> None:
    with pytest.raises(InputError, match="draft_tp, which are of one server"):
        pools(request_rate=2, draft_tp=1)


def test_the_interval_of_tpot_contains_it_and_is_that_of_a_faster_and_a_slower_decode_pool() -> None:
    for load in ({"request_rate": 2}, {"max_concurrency": 200}):
        pool_row = row(**load)
        assert pool_row.tpot_interval is not None
        low, high = pool_row.tpot_interval
        assert low < pool_row.tpot_s < high
        assert high / low < 9


@pytest.mark.parametrize("gamma", [0, 3])
def test_the_interval_of_tpot_is_that_of_one_pool_where_no_request_meets_another(gamma: int) -> None:
    """And a busy pool that is slower has more of them at once, so that it is slower again."""
    question = ASKED | {"tp": 8, "dp": 8, "ep": 8, "request_rate": 0.01}
    alone = next(each for each in pm.traffic(**question).rows if each.gamma == gamma)
    assert alone.tpot_interval is not None
    low, high = alone.tpot_interval
    calm = row(gamma, request_rate=0.01).tpot_interval
    busy = row(gamma, request_rate=2).tpot_interval
    assert calm is not None
    assert busy is not None
    assert calm[1] / calm[0] == pytest.approx(high / low, rel=2e-3)
    assert busy[1] / busy[0] > 1.1 * high / low


def test_a_draft_of_the_decode_pool_alone_sends_no_cache_of_the_other_draft() -> None:
    """A look-up sends the target's cache only; the prefill pool's MTP module has one layer more."""
    alike = pools(request_rate=2)
    other = pools(request_rate=2, decode_draft="ngram", gamma=3)
    without = pools(request_rate=2, decode_draft="none", prefill_draft="none")
    assert other.transfer_bytes == without.transfer_bytes < alike.transfer_bytes
