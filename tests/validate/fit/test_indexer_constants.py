"""An indexer's constants come back from modules of sparse attention that were priced with them."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.costs import forward, shard
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
from perfmodel.specs.calibration import with_engine
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import load_model, precision_of
from perfmodel.validate.fit.indexers import NAME, with_indexer
from perfmodel.validate.fit.kernels import Kernels, TableFit
from perfmodel.validate.fit.kernels_file import INDEX, calibration_of
from tests.validate.fit.held import Held, Rows

H100, V32 = load_gpu("h100-sxm-80gb"), load_model("deepseek-v3.2")
GEMM = TableFit((6e-6, 4.5e-6, 1.0, 0.5, 16.0, 0.6, 4096.0, 0.9), 0.01, 400, "vllm 2")
FOUND = Kernels(
    "tables 1, vllm 2", 6e-6, 4.5e-6, {"bf16": GEMM, "fp8-block": GEMM}, {},
    {"bfloat16": TableFit((8e-6, 0.75), 0.02, 100, "vllm 2")}, {},
)  # fmt: skip
MODULE = {"model": V32.hf_id, "gemm_type": "fp8_block", "kv_cache_dtype": "fp8"}
ODD = {"num_heads": 16, "batch_size": 4, "step": 4096, "seconds": 1.0}
"""A call that must not count, but for what is said of it."""
OUTSIDE = {
    "embedding", "gate_up", "down", "router", "shared_gate_up", "shared_down", "experts", "norms", "activation",
    "residual", "routing", "all-reduce", "lm_head", "cache upkeep",
}  # fmt: skip
"""What a pass has beside the 61 modules of its layers."""


def held(rows: Rows) -> Held:
    return Held({("sparse_attention", "vllm", version, NAME): rows for version in ("1", "2") if rows})


def modules(index: tuple[float, float, float] | None) -> Rows:
    """64 calls on 8 and 4 devices, as a file with these constants of an indexer prices them, and others."""
    fitted = index and TableFit(index, 0.0, 64, "vllm 2")
    calibration = with_engine(calibration_of(replace(FOUND, index=fitted), H100, "vllm"))
    machine, rows = Machine(H100, calibration), Rows()
    for degree in (8, 4):
        part = shard(V32, degree, precision_of(V32, H100.peak, kv_dtype="fp8"))
        for batch in (1, 4, 16, 64):
            for step in 2 ** np.arange(6, 18, 1.5):
                ops = forward(part, float(batch), 1.0, float(step), parse_kv("full"))
                taken = sum(float(machine.op_predicted_s(op)) for op in ops if op.name not in OUTSIDE) / 61
                rows.append({"num_heads": 128 // degree, "batch_size": batch, "step": step, "seconds": taken} | MODULE)
    others = ({"model": "zai-org/GLM-5"}, {"gemm_type": "bfloat16"}, {"kv_cache_dtype": "bfloat16"}, {"step": 32})
    return [*rows, *(ODD | MODULE | other for other in (*others, {"num_heads": 8}))]


def test_known_constants_come_back() -> None:
    known = (0.5, 4e-5, 6e-7)
    found = with_indexer(FOUND, held(modules(known)), H100, "vllm", "1").index
    assert found is not None
    assert found.values == pytest.approx(known, rel=1e-6)
    assert (found.rows, found.source) == (64, "vllm 1")
    assert found.median_error < 1e-6


def test_none_where_no_module_asks_for_them() -> None:
    plain = modules(None)  # at the bandwidth of any other attention, no time of its own: error 0
    few = modules((0.5, 4e-5, 6e-7))[5:]
    for rows, engine in ((plain, "vllm"), (few, "vllm"), ([], "vllm"), (few, "trtllm")):
        assert with_indexer(FOUND, held(rows), H100, engine) is FOUND


def test_the_file_states_what_is_above_zero() -> None:
    fitted = TableFit((0.232, 0.0, 7.37149e-7), 0.0543, 186, "sglang 3")
    found = calibration_of(replace(FOUND, index=fitted), H100, "sglang")
    stated = found.model_dump(include={*INDEX}, exclude_defaults=True)
    source = "sparse-attention modules less the GEMMs and attention priced here: 186 calls, median error 5.4%, sglang 3"
    assert stated == {
        "index_bandwidth_fraction": {"value": 0.232, "source": source},
        "index_token_s": {"value": 7.371e-7, "source": source},
    }
