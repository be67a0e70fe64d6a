"""Latent attention of made-up tables comes out with its constants."""

from dataclasses import astuple
from itertools import product

import pytest

from perfmodel.validate.fit.kernel_tables.fits import RooflineConstants, TableFit
from tests.validate.fit.kernel_tables.made_up import H100, ODD, Rows, distilled


def latent_rows(word: str, size: float, start: float, share: float, flops: float) -> Rows:
    rows = []
    for batch, heads, step in product((1, 8, 64, 256), (16, 128), (2047, 8191, 32767)):
        tokens = batch * (step + 1)
        wide = 576 + 512
        moved = tokens * 576 * size + 2 * batch * heads * wide
        load = moved / H100.memory_bandwidth_bytes_per_s / share
        compute_flops = 2 * tokens * heads * wide
        compute = compute_flops / H100.peak_flops("bf16") / flops
        call = {"num_heads": heads, "batch_size": batch, "isl": 1, "step": step, "kv_cache_dtype": word}
        rows.append(call | {"seconds": start + max(load, compute)})
    return rows


def latent_fits(
    rows: Rows, engine: str = "vllm", version: str = "1"
) -> dict[str, TableFit[RooflineConstants]]:
    return distilled({("mla", engine, version, "generation_mla_perf"): rows}).latent


@pytest.mark.parametrize(("engine", "version"), [("vllm", "2"), ("sglang", "3"), ("trtllm", "4")])
def test_latent_attention_comes_out_of_the_table_of_any_engine(engine: str, version: str) -> None:
    wide = latent_rows("bfloat16", 2.0, 1.5e-5, 0.6, 0.45)
    narrow = latent_rows("fp8", 1.0, 1.2e-5, 0.2, 0.4)
    beyond = ({"batch_size": 257}, {"step": 99})  # the second is 115 kB
    odd = [wide[0] | {"seconds": ODD} | change for change in beyond]
    slower = [row | {"seconds": 3 * row["seconds"]} for row in wide]
    fits = latent_fits([*slower, *wide, *odd, *narrow], engine, version)
    assert list(fits) == ["bfloat16"]  # fp8 reaches less than 0.3 of the bandwidth
    assert astuple(fits["bfloat16"].constants) == pytest.approx((1.5e-5, 0.6, 0.45), rel=1e-5)
    assert fits["bfloat16"].rows == 24
    assert fits["bfloat16"].source == f"{engine} {version}"


def test_times_of_latent_attention_that_scatter_are_left_out() -> None:
    rows = latent_rows("bfloat16", 2.0, 1.5e-5, 0.6, 0.45)
    for row in rows[::2]:
        row["seconds"] *= 4
    assert latent_fits(rows) == {}
    assert distilled({}).latent == {}
