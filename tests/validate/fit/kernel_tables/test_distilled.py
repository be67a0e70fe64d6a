"""The constants of a device and engine, from the tables of several engines and versions."""

from typing import Any

import pytest

from perfmodel.validate.fit import kernels
from perfmodel.validate.fit.kernel_tables.fits import TableFit
from tests.refusals import refused
from tests.validate.fit.kernel_tables.made_up import (
    BF16,
    FP8,
    H100,
    ODD,
    MadeUpTables,
    attention_rows,
    expert_rows,
)


def sources(fits: dict[str, TableFit[Any]]) -> dict[str, str]:
    return {form: fit.source for form, fit in fits.items()}


def test_a_format_without_a_table_is_taken_from_another_engine_and_an_old_version_on_request() -> None:
    older = [row | {"seconds": row["seconds"] * 1.1} for row in BF16]
    attention = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    experts = expert_rows("bfloat16", 2.0, H100.peak_flops("bf16"), 2e-5, 0.7, 0.4)
    other = expert_rows("int4_wo", 0.5625, H100.peak_flops("bf16"), 1e-5, 0.4, 0.3)
    odd_fp8 = [row | {"seconds": ODD} for row in FP8]
    slow_experts = [row | {"seconds": row["seconds"] * 2} for row in experts]
    tables = {
        ("gemm", "vllm", "1", "gemm_perf"): older,
        ("gemm", "vllm", "2", "gemm_perf"): BF16,
        ("gemm", "trtllm", "7", "gemm_perf"): [*older, *FP8],
        ("gemm", "trtllm", "6", "gemm_perf"): odd_fp8,
        ("moe", "vllm", "2", "moe_perf"): experts,
        ("moe", "sglang", "5", "moe_perf"): [*other, *slow_experts],
        ("attention", "vllm", "2", "generation_attention_perf"): attention,
    }
    both = MadeUpTables(tables)
    constants = kernels.distil(both, H100, "vllm")
    assert constants.source == "tables 1, vllm 2"
    bf16 = constants.gemm["bf16"].constants
    assert bf16.start_s == pytest.approx(6e-6)
    assert bf16.fixed_s == pytest.approx(4.5e-6, rel=1e-4)
    assert sources(constants.gemm) == {"bf16": "vllm 2", "fp8": "trtllm 7"}
    decoding = {form: fit.decoding for form, fit in constants.experts.items()}
    assert sources(decoding) == {"bf16": "vllm 2", "int4": "sglang 5"}
    assert constants.latent == {}
    assert constants.allreduce == {}
    assert kernels.distil(both, H100, "vllm", "1").source == "tables 1, vllm 1"
    unknown = "--version: must be one of 1, 2 for vllm on h100-sxm-80gb, given 3"
    refused(unknown, kernels.distil, both, H100, "vllm", "3")
    refused("must be one of none for sglang", kernels.distil, both, H100, "sglang")
