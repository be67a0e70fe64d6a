"""Prefill and decode on separate pools."""

from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.load.pools import PoolRow, Pools
from perfmodel.errors import InputError

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
        found = row(gamma, prefill=f"{prefill}x8", decode=f"{decode}x8:dp8,ep8", max_concurrency=clients)
        return found.output_tokens_per_s

    base = rate(1, 1)
    assert rate(2, 1) >= base * (1 - 1e-9)
    assert rate(1, 2) >= base * (1 - 1e-9)


def test_the_decode_batch_is_rate_times_time_and_not_the_clients() -> None:
    found = row(max_concurrency=2000)
    assert found.decode_batch < 2000
    assert found.decode_batch == pytest.approx(found.request_rate * 511 * found.tpot_s, rel=0.02)
    whole = found.request_rate * (found.ttft_s + 511 * found.tpot_s)
    assert whole == pytest.approx(2000, rel=0.01)


def test_the_parts_of_ttft_sum_to_it() -> None:
    found = row(request_rate=2)
    parts = found.queue_s + found.prefill_s + found.transfer_s + found.first_step_s
    assert found.ttft_s == pytest.approx(parts)


def test_a_draft_raises_the_ratio_of_prefill_to_decode_by_its_speedup() -> None:
    ratio = pools(request_rate=2).ratio
    assert ratio[3] > ratio[0]


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


@pytest.mark.parametrize(("prompt", "measured_ms"), [(128, 0.54), (2048, 2.51), (32768, 31.65)])
def test_the_default_link_is_that_of_mooncake(prompt: int, measured_ms: float) -> None:
    """results/published/racks.csv, mooncake-vllm-h800: the constants of the link are fitted to these rows."""
    asked = {
        "model": "qwen3-8b",
        "hardware": "h800",
        "engine": "vllm",
        "input_len": prompt,
        "output_len": 128,
    }
    shape = {"prefill": "1x8", "decode": "1x8", "request_rate": 0.1, "gamma": 0, "closed_form": True}
    answer = pm.traffic(**asked | shape).pools
    assert answer is not None
    assert answer.rows[0].transfer_s * 1e3 == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decode": None}, "prefill: needs decode"),
        ({"decode": "32"}, "decode: must be INSTANCESxGPUS"),
        ({"kv_link": "fast"}, "kv_link: must be GB/S"),
        ({"decode": "1x24:dp24,ep24"}, "ep: must be a divisor of the 256 experts"),
    ],
)
def test_a_wrong_pool_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        pools(**{"request_rate": 1} | changes)
    assert message in str(refused.value)


def test_the_best_split_serves_at_least_the_rate_of_the_given_one() -> None:
    sizes = {"max_concurrency": 100_000, "gamma": 0}
    given = pools(prefill="1x8", decode="4x8:dp8,ep8", **sizes)
    prefill, decode = given.best_split[0]
    assert prefill + decode == 5
    best = pools(prefill=f"{prefill}x8", decode=f"{decode}x8:dp8,ep8", **sizes)
    assert best.rows[0].output_tokens_per_s >= given.rows[0].output_tokens_per_s
    assert best.best_split[0] == (prefill, decode)
