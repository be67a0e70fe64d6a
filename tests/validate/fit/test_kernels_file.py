"""What a kernels' calibration states of made-up fits."""

import datetime
from typing import Any

import pytest
import yaml

from perfmodel.specs.gpu import GPUSpec, load_gpu
from perfmodel.validate.fit.kernels import Kernels, TableFit
from perfmodel.validate.fit.kernels_file import calibration_of
from perfmodel.validate.harness.micro.write import as_yaml

H100, L40S = load_gpu("h100-sxm-80gb"), load_gpu("l40s-48gb")
GEMM = TableFit((6e-6, 4.5e-6, 1.0, 0.5, 16.0, 0.61234, 4096.0, 0.9), 0.0123, 400, "vllm 2")
FP8 = TableFit((6e-6, 4.5e-6, 1.0, 0.4, 4096.0, 0.70051), 0.05, 300, "trtllm 7")
EXPERTS = TableFit((1e-5, 0.71234, 2.5), 0.0456, 60, "vllm 2")
WIDE, NARROW = TableFit((8e-6, 0.75), 0.02, 100, "vllm 2"), TableFit((9e-6, 0.5), 0.031, 50, "vllm 2")
LATENT, LATENT_FP8 = (
    TableFit((1.5e-5, 0.6, 0.45), 0.04, 24, "sglang 3"),
    TableFit((1.2e-5, 0.55, 0.4), 0.06, 23, "sglang 3"),
)
DAY = datetime.date(2031, 2, 3)
ALL = Kernels(
    "tables 1, vllm 2", 6e-6, 4.5e-6, {"bf16": GEMM, "fp8": FP8}, {"nvfp4": EXPERTS}, {"bfloat16": WIDE, "fp8": NARROW},
    {"bfloat16": LATENT, "fp8": LATENT_FP8}, {2: [(16384.0, 5e-6), (65536.0, 1e-05)]},
)  # fmt: skip
LEAST = Kernels("tables 1, vllm 2", 6e-6, 4.5e-6, {"bf16": GEMM}, {}, {"bfloat16": WIDE}, {})


def stated(kernels: Kernels, gpu: GPUSpec, date: datetime.date | None = DAY) -> Any:
    return yaml.safe_load(as_yaml(calibration_of(kernels, gpu, "vllm", date), "made up"))


def test_every_fit_stands_where_it_belongs() -> None:
    found = stated(ALL, H100)
    values = {name: stated["value"] for name, stated in found.items() if isinstance(stated, dict) and "value" in stated}
    assert values == {
        "gemm_bandwidth_fraction": 0.6123, "gemm_flops_fraction": 0.9, "gemm_fixed_s": 4.5e-6, "gemm_blend_power": 3,
        "quantise_s": 6e-6, "attention_bandwidth_fraction": 0.75, "attention_bandwidth_fraction_fp8": 0.5,
        "latent_bandwidth_fraction": 0.6, "latent_bandwidth_fraction_fp8": 0.55, "attention_flops_fraction": 0.45,
        "attention_fixed_s": 8e-6, "small_kernel_s": 6e-6, "small_bandwidth_fraction": 0.867, "allreduce_multiplier": 1,
        "kv_reread_per_query": 0, "pass_fixed_s": 0, "token_s": 0, "iteration_fixed_s": 0,
    }  # fmt: skip
    assert found["gemm_efficiency"]["knots"] == {
        "bf16": [[1, 0.5], [16, 0.612], [4096, 0.9]], "fp8": [[1, 0.4], [4096, 0.701]],
    }  # fmt: skip
    assert found["gemm_efficiency"]["source"].endswith(
        "bf16 vllm 2; fp8 trtllm 7; median error 1.2% (bf16), 5.0% (fp8)"
    )
    # a share of the peak above 2 would say that it is another peak
    assert found["expert_kernels"]["kernels"] == {
        "nvfp4": {"fixed_s": 1e-5, "bandwidth_fraction": 0.712, "flops_fraction": 2.0, "median_error": 0.046}
    }
    assert found["allreduce"]["knots"] == {"2": [[16384, 5e-6], [65536, 1e-5]]}
    assert "link" not in found["allreduce"]
    assert found["allreduce"]["source"].endswith("at each size, tables 1")
    assert found["attention_fixed_s"]["source"] == "100 calls, median error 2.0%, vllm 2"
    assert (found["name"], found["gpu"], found["kind"]) == ("h100-sxm-80gb.vllm", "h100-sxm-80gb", "kernels")
    assert found["date"] == str(DAY)


def test_what_no_table_has_is_left_out() -> None:
    found = stated(LEAST, H100)
    assert not {"expert_kernels", "allreduce", "latent_bandwidth_fraction", "attention_bandwidth_fraction_fp8"} & set(
        found
    )
    assert found["attention_flops_fraction"]["value"] == 0.9  # that of GEMMs at 4096 tokens
    assert stated(LEAST, H100, None)["date"] == str(datetime.date.today())


@pytest.mark.parametrize(("gpu", "link"), [(H100, None), (load_gpu("h100-nvl-94gb"), None), (L40S, "host")])
def test_a_table_of_boxes_over_pcie_says_so(gpu: GPUSpec, link: str | None) -> None:
    assert stated(ALL, gpu)["allreduce"].get("link") == link
