"""What a kernels' calibration states of made-up fits; an indexer's constants, from modules priced with
them.
"""

import datetime
import itertools
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
import yaml

from perfmodel.costs import Degrees, PassShape, forward, shard
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
from perfmodel.specs import GPUSpec, load_gpu, load_model, precision_of, with_engine
from perfmodel.validate.fit.indexers import NAME, with_indexer
from perfmodel.validate.fit.kernel_tables.experts import ExpertFit, PromptConstants
from perfmodel.validate.fit.kernel_tables.fits import MemoryConstants, RooflineConstants, TableFit
from perfmodel.validate.fit.kernel_tables.gemms import GemmConstants
from perfmodel.validate.fit.kernels import IndexConstants, Kernels
from perfmodel.validate.fit.kernels_file import calibration_of
from perfmodel.validate.harness.micro.write import as_yaml
from tests.validate.fit.kernel_tables.made_up import MadeUpTables, Rows

H100 = load_gpu("h100-sxm-80gb")
L40S = load_gpu("l40s-48gb")
GEMM = TableFit(
    GemmConstants(6e-6, 4.5e-6, ((1.0, 0.5), (16.0, 0.61234), (4096.0, 0.9))), 0.0123, 400, "vllm 2"
)
FP8 = TableFit(GemmConstants(6e-6, 4.5e-6, ((1.0, 0.4), (4096.0, 0.70051))), 0.05, 300, "trtllm 7")
DECODING = TableFit(RooflineConstants(1.23456e-5, 0.71234, 2.5), 0.0456, 60, "vllm 2")
PROMPTS = TableFit(PromptConstants(1e-5, 0.7, 0.4, 5.4321), 0.05, 90, "vllm 2")
EXPERTS = {"nvfp4": ExpertFit(DECODING, PROMPTS), "mxfp4": ExpertFit(DECODING)}
WIDE = TableFit(MemoryConstants(8e-6, 0.75), 0.02, 100, "vllm 2")
NARROW = TableFit(MemoryConstants(9e-6, 0.5), 0.031, 50, "vllm 2")
LATENT = TableFit(RooflineConstants(1.5e-5, 0.6, 0.45), 0.04, 24, "sglang 3")
LATENT_FP8 = TableFit(RooflineConstants(1.2e-5, 0.55, 0.4), 0.06, 23, "sglang 3")
DAY = datetime.date(2031, 2, 3)
ALL = Kernels(
    "tables 1, vllm 2",
    {"bf16": GEMM, "fp8": FP8},
    EXPERTS,
    {"bfloat16": WIDE, "fp8": NARROW},
    {"bfloat16": LATENT, "fp8": LATENT_FP8},
    {2: [(16384.0, 5e-6), (65536.0, 1.23456e-05)]},
)
LEAST = Kernels("tables 1, vllm 2", {"bf16": GEMM}, {}, {"bfloat16": WIDE}, {})


def stated(kernels: Kernels, gpu: GPUSpec, date: datetime.date | None = DAY) -> Any:
    return yaml.safe_load(as_yaml(calibration_of(kernels, gpu, "vllm", date), "made up"))


PLACES = {
    "gemm_bandwidth_fraction": 0.6123,
    "gemm_flops_fraction": 0.9,
    "gemm_fixed_s": 4.5e-6,
    "gemm_blend_power": 3,
    "quantise_s": 6e-6,
    "attention_bandwidth_fraction": 0.75,
    "attention_bandwidth_fraction_fp8": 0.5,
    "latent_bandwidth_fraction": 0.6,
    "latent_bandwidth_fraction_fp8": 0.55,
    "latent_flops_fraction": 0.45,
    "attention_flops_fraction": 0.9,
    "attention_fixed_s": 8e-6,
    "small_kernel_s": 6e-6,
    "small_bandwidth_fraction": 0.867,
    "allreduce_multiplier": 1,
    "kv_reread_per_query": 0,
    "pass_fixed_s": 0,
    "token_s": 0,
    "iteration_fixed_s": 0,
}


def test_every_fit_stands_where_it_belongs() -> None:
    constants = stated(ALL, H100)
    facts = {name: fact for name, fact in constants.items() if isinstance(fact, dict)}
    values = {name: fact["value"] for name, fact in facts.items() if "value" in fact}
    assert values == PLACES
    assert constants["gemm_efficiency"]["knots"] == {
        "bf16": [[1, 0.5], [16, 0.612], [4096, 0.9]],
        "fp8": [[1, 0.4], [4096, 0.701]],
    }
    assert constants["gemm_efficiency"]["source"].endswith(
        "bf16 vllm 2; fp8 trtllm 7; median error 1.2% (bf16), 5.0% (fp8)"
    )
    # a share of the peak above 2 would say that it is another peak
    decoding = {
        "fixed_s": 1.235e-5,
        "bandwidth_fraction": 0.712,
        "flops_fraction": 2.0,
        "median_error": 0.046,
    }
    assert constants["expert_kernels"]["kernels"] == {"nvfp4": decoding, "mxfp4": decoding}
    assert constants["expert_kernels"]["prompts"] == {
        "nvfp4": {
            "fixed_s": 1e-5,
            "bandwidth_fraction": 0.7,
            "flops_fraction": 0.4,
            "routed_passes": 5.43,
            "median_error": 0.05,
        }
    }
    assert constants["allreduce"]["knots"] == {"2": [[16384, 5e-6], [65536, 1.235e-5]]}
    assert "link" not in constants["allreduce"]
    assert constants["allreduce"]["source"].endswith("at each size, tables 1")
    assert constants["attention_fixed_s"]["source"] == "100 calls, median error 2.0%, vllm 2"
    assert constants["name"] == "h100-sxm-80gb.vllm"
    assert constants["gpu"] == "h100-sxm-80gb"
    assert constants["kind"] == "kernels"
    assert constants["date"] == str(DAY)


def test_what_no_table_has_is_left_out() -> None:
    constants = stated(LEAST, H100)
    assert not {
        "expert_kernels",
        "allreduce",
        "latent_bandwidth_fraction",
        "attention_bandwidth_fraction_fp8",
    } & set(constants)
    assert constants["attention_flops_fraction"]["value"] == 0.9  # that of GEMMs at 4096 tokens
    assert stated(LEAST, H100, None)["date"] == str(datetime.date.today())


@pytest.mark.parametrize(("gpu", "link"), [(H100, None), (load_gpu("h100-nvl-94gb"), None), (L40S, "host")])
def test_a_table_of_boxes_over_pcie_says_so(gpu, link) -> None:
    assert stated(ALL, gpu)["allreduce"].get("link") == link


V32 = load_model("deepseek-v3.2")
WITH_BLOCKS = replace(LEAST, gemm={"bf16": GEMM, "fp8-block": GEMM})
MODULE = {"model": V32.hf_id, "gemm_type": "fp8_block", "kv_cache_dtype": "fp8"}
ODD = {"num_heads": 16, "batch_size": 4, "step": 4096, "seconds": 1.0}
"""A call that must not count, but for what is said of it."""
OUTSIDE = {
    "embedding",
    "gate_up",
    "down",
    "router",
    "shared_gate_up",
    "shared_down",
    "experts",
    "norms",
    "activation",
    "residual",
    "routing",
    "all-reduce",
    "lm_head",
    "cache upkeep",
}
"""What a pass has beside the 61 modules of its layers."""


def module_tables(rows: Rows) -> MadeUpTables:
    return MadeUpTables({("sparse_attention", "vllm", version, NAME): rows for version in ("1", "2") if rows})


def modules(index: IndexConstants | None) -> Rows:
    """64 calls on 8 and 4 devices, as a file with these constants of an indexer prices them, and others."""
    fitted = index and TableFit(index, 0.0, 64, "vllm 2")
    calibration = with_engine(calibration_of(replace(WITH_BLOCKS, index=fitted), H100, "vllm"))
    machine = Machine(H100, calibration)
    rows = Rows()
    for degree in (8, 4):
        device_shard = shard(V32, Degrees(degree), precision_of(V32, H100.peak, kv_dtype="fp8"))
        for batch in (1, 4, 16, 64):
            for step in 2 ** np.arange(6, 18, 1.5):
                ops = forward(device_shard, PassShape(float(batch), 1.0, float(step)), parse_kv("full"))
                inside = [op for op in ops if op.name not in OUTSIDE]
                taken = sum(float(machine.op_predicted_s(op)) for op in inside) / 61
                call = {"num_heads": 128 // degree, "batch_size": batch, "step": step, "seconds": taken}
                rows.append(call | MODULE)
    others = (
        {"model": "zai-org/GLM-5"},
        {"gemm_type": "bfloat16"},
        {"kv_cache_dtype": "bfloat16"},
        {"step": 32},
    )
    odd = [ODD | MODULE | other for other in (*others, {"num_heads": 8})]
    return [*rows, *odd]


def test_known_constants_come_back() -> None:
    known = IndexConstants(0.5, 4e-5, 6e-7)
    fewest = modules(known)[4:]
    index = with_indexer(WITH_BLOCKS, module_tables(fewest), H100, "vllm", "1").index
    assert astuple(index.constants) == pytest.approx(astuple(known), rel=1e-6)
    assert index.rows == 60
    assert index.source == "vllm 1"
    assert index.median_error < 1e-6


def test_none_where_no_module_asks_for_them() -> None:
    plain = modules(None)  # at the bandwidth of any other attention, no time of its own: error 0
    few = modules(IndexConstants(0.5, 4e-5, 6e-7))[5:]
    for rows, engine in ((plain, "vllm"), (few, "vllm"), ([], "vllm"), (few, "trtllm")):
        assert with_indexer(WITH_BLOCKS, module_tables(rows), H100, engine) is WITH_BLOCKS


def test_none_where_times_scatter_more_than_an_indexer_explains() -> None:
    """Every other module takes 1.35 times as long as without constants, the others 1.35 times less. Constants
    hardly lower the median error, and they must lower it by a tenth.
    """
    rows = modules(None)
    for row, factor in zip(rows, itertools.cycle((1.35, 1 / 1.35)), strict=False):
        row["seconds"] *= factor
    assert with_indexer(WITH_BLOCKS, module_tables(rows), H100, "vllm").index is None


def test_the_file_states_what_is_above_zero() -> None:
    fitted = TableFit(IndexConstants(0.232, 0.0, 7.37149e-7), 0.0543, 186, "sglang 3")
    calibration = calibration_of(replace(WITH_BLOCKS, index=fitted), H100, "sglang")
    constants = calibration.as_mapping(exclude_defaults=True)
    stated = {name: value for name, value in constants.items() if name.startswith("index_")}
    source = (
        "sparse-attention modules less the GEMMs and attention priced here: 186 calls, median "
        "error 5.4%, sglang 3"
    )
    assert stated == {
        "index_bandwidth_fraction": {"value": 0.232, "source": source},
        "index_token_s": {"value": 7.371e-7, "source": source},
    }
