"""Experts of made-up tables come out with their constants."""

from dataclasses import astuple

import pytest

from perfmodel.validate.fit.kernel_tables.experts import ExpertFit
from perfmodel.validate.fit.kernel_tables.fits import RooflineConstants, TableFit
from tests.validate.fit.kernel_tables.made_up import H100, ODD, Rows, distilled, expert_rows


def expert_fits(rows: Rows) -> dict[str, TableFit[RooflineConstants]]:
    return {form: fit.decoding for form, fit in both_fits(rows).items()}


def both_fits(rows: Rows) -> dict[str, ExpertFit]:
    return distilled({("moe", "vllm", "3", "moe_perf"): rows}).experts


def test_experts_come_out_without_the_rows_that_no_engine_runs() -> None:
    first = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    beyond = ({"num_tokens": 1025}, {"moe_ep_size": 17}, {"distribution": "balanced"})
    odd = [first[0] | {"seconds": ODD} | change for change in beyond]
    odd.append(first[0] | {"seconds": 1e-9, "kernel_source": "nongated"})
    peak = H100.peak_flops("bf16")
    int4 = expert_rows("int4_wo", 0.5 + 2 / 32, peak, 1e-5, 0.4, 0.3)
    noisy = expert_rows("fp8", 1.0, H100.peak_flops("fp8"), 2e-5, 0.7, 0.4, noise=2.0)
    fp8_peak = H100.peak_flops("fp8")
    slow = expert_rows("fp8_block", 1 + 4 / 128**2, fp8_peak, 2e-5, 0.2, 0.4)
    short = expert_rows("w4a16_mxfp4", 0.5 + 1 / 32, peak, 2e-5, 0.7, 0.4)
    no_peak = expert_rows("nvfp4", 0.5625, 1e15, 2e-5, 0.7, 0.4)
    left_out = [*odd, *noisy, *slow, *short[:59], *no_peak]
    fits = expert_fits([*first, *int4, *left_out])
    assert list(fits) == ["bf16", "int4"]
    assert astuple(fits["bf16"].constants) == pytest.approx((2e-5, 0.7, 0.4), rel=1e-5)
    assert astuple(fits["int4"].constants) == pytest.approx((1e-5, 0.4, 0.3), rel=1e-5)
    assert fits["bf16"].rows == 60
    assert fits["bf16"].source == "vllm 3", "there is none of version 1"
    assert distilled({}).experts == {}


def test_the_main_kernel_of_experts_takes_the_best_time_of_any() -> None:
    """`other` is faster at the first call, where the main kernel is slow, and has one call of its own."""
    main = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    slow = main[0] | {"seconds": 3 * main[0]["seconds"]}
    fast = main[0] | {"kernel_source": "other"}
    alone = main[0] | {"kernel_source": "other", "topk": 1, "seconds": ODD}
    fitted = expert_fits([fast, slow, *main[1:], alone])["bf16"]
    assert astuple(fitted.constants) == pytest.approx((2e-5, 0.7, 0.4), rel=1e-5)
    assert fitted.rows == 60


def test_calls_of_prompts_move_the_vectors_of_their_tokens() -> None:
    """Every token is moved once for each of its experts, on every rank."""
    rows = []
    for row in expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4, more=(4096, 16384)):
        routed_bytes = row["num_tokens"] * row["topk"] * 4096 * 2
        rows.append(row | {"seconds": row["seconds"] + 5 * routed_bytes / H100.memory_bandwidth_bytes_per_s})
    beyond = rows[0] | {"num_tokens": 16385, "seconds": ODD}
    fitted = both_fits([*rows, beyond])["bf16"]
    assert fitted.prompts is not None
    assert astuple(fitted.prompts.constants) == pytest.approx((2e-5, 0.7, 0.4, 5.0), rel=1e-4)
    assert fitted.prompts.rows == 80
    assert fitted.decoding.rows == 60


def test_prompts_that_a_server_contradicts_are_left_out() -> None:
    mxfp4 = expert_rows("w4a16_mxfp4", 0.5 + 1 / 32, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    assert both_fits(mxfp4)["mxfp4"].prompts is None
