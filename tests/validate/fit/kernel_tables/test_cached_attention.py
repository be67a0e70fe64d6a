"""Attention of made-up tables comes out with its constants."""

from dataclasses import astuple
from typing import Any

import pytest

from perfmodel.specs import GPUSpec, load_gpu
from perfmodel.validate.fit.kernel_tables.fits import MemoryConstants, TableFit
from tests.validate.fit.kernel_tables.made_up import H100, ODD, SHORT, Rows, attention_rows, distilled

NOT_COUNTED = (
    {"batch_size": 257},
    {"head_dim": 192},
    {"window_size": 128},
    {"kernel_source": "other"},
    {"num_heads": 17, "num_key_value_heads": 1, "step": 65536},  # 17 query heads a KV head
    {"num_key_value_heads": 1, "num_heads": 1, "step": 100, "batch_size": 1, "isl": 0},  # 51 kB
)


def attention_fits(rows: Rows, gpu: GPUSpec = H100) -> dict[str, TableFit[MemoryConstants]]:
    return distilled({("attention", "vllm", "1", "generation_attention_perf"): rows}, gpu).attention


def cache_bytes(row: dict[str, Any], size: float) -> float:
    tokens = row["batch_size"] * (row["isl"] + row["step"])
    return tokens * row["num_key_value_heads"] * 2 * row["head_dim"] * size


def test_attention_comes_out_without_the_rows_that_do_not_count() -> None:
    wide = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    odd = [wide[0] | {"seconds": ODD} | change for change in NOT_COUNTED]
    # KV heads of 0 stand for as many as query heads: 16 x 4196 x 2 x 128 x 2 bytes
    cached = 16 * (4096 + 100) * 2 * 128 * 2
    moved = cached + 4 * 16 * 128
    seconds = 8e-6 + moved / H100.memory_bandwidth_bytes_per_s / 0.75
    same = wide[0] | {"num_key_value_heads": 0, "head_dim": 128, "seconds": seconds}
    fitted = attention_fits([*wide, *odd, same])["bfloat16"]
    assert astuple(fitted.constants) == pytest.approx((8e-6, 0.75), rel=1e-4)
    assert fitted.rows == 101
    assert fitted.source == "vllm 1"


def test_attention_of_sixteen_query_heads_a_kv_head_counts() -> None:
    grouped = attention_rows("fp8", 1.0, 9e-6, 0.5, num_heads=16, num_key_value_heads=1)[:100]
    caches = [cache_bytes(row, 1.0) for row in grouped]
    for row, cache in zip(grouped, caches, strict=True):
        moved = cache + row["batch_size"] * 4 * 16 * row["head_dim"]
        row["seconds"] = 9e-6 + moved / H100.memory_bandwidth_bytes_per_s / 0.5
    wide = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    fitted = attention_fits([*wide, *grouped])
    assert astuple(fitted["fp8"].constants) == pytest.approx((9e-6, 0.5), rel=1e-4)
    assert fitted["fp8"].rows == sum(cache > 1e6 for cache in caches)
    assert list(attention_fits([*wide, *grouped[:99]])) == ["bfloat16"]


def test_a_last_level_cache_hides_what_takes_more_than_50_us_to_read() -> None:
    """L4: 48 MB at 300 GB/s are 160 us; an H100's 50 MB are 15 us."""
    rows = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    caches = [cache_bytes(row, 2.0) for row in rows]
    beyond = sum(cache > 48e6 for cache in caches)
    assert 0 < beyond < 100
    assert attention_fits([*rows, SHORT], load_gpu("l4-24gb"))["bfloat16"].rows == beyond
    assert attention_fits(rows)["bfloat16"].rows == 100
    assert attention_fits(rows, H100.replace(last_level_cache=None))["bfloat16"].rows == 100


@pytest.mark.parametrize(("short_s", "fixed_s"), [(3e-6, 8e-6), (2e-5, 2e-5)])
def test_with_a_large_last_level_cache_the_fixed_time_is_at_least_that_of_a_short_call(
    short_s: float, fixed_s: float
) -> None:
    """The large calls of an L4 give 8 us. A shorter time of a short call does not change that."""
    rows = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    short = SHORT | {"seconds": short_s}
    l4 = load_gpu("l4-24gb")
    for row in rows:
        moved = cache_bytes(row, 2.0) + 4 * row["batch_size"] * row["num_heads"] * row["head_dim"]
        row["seconds"] = 8e-6 + moved / l4.memory_bandwidth_bytes_per_s / 0.75
    fitted = attention_fits([*rows, short], l4)["bfloat16"]
    assert astuple(fitted.constants) == pytest.approx((fixed_s, 0.75), rel=1e-3)


@pytest.mark.parametrize(("microseconds", "is_hidden"), [(49, False), (51, True)])
def test_a_cache_hides_reads_from_50_us_on(microseconds: int, is_hidden: bool) -> None:
    assert H100.last_level_cache is not None
    megabytes = microseconds * H100.memory_bandwidth_bytes_per_s / 1e12
    gpu = H100.replace(last_level_cache=H100.last_level_cache.replace(value=megabytes, unit="MB"))
    rows = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    beyond = sum(cache_bytes(row, 2.0) > 1e6 * megabytes for row in rows)
    assert 0 < beyond < 100
    assert attention_fits([*rows, SHORT], gpu)["bfloat16"].rows == (beyond if is_hidden else 100)
