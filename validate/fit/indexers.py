"""Constants of an indexer, from public tables of sparse-attention modules: a layer's GEMMs, indexer and
attention.

The time of a module outside its kernels is ``layer + tokens * token + (1/f - 1) * bytes / BW``, where bytes
are keys and scores, and a calibration prices the kernels with the indexer at the full bandwidth. The
constants are the non-negative least squares of relative errors.
"""

from dataclasses import replace

import numpy as np

from perfmodel.costs import forward, shard
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
from perfmodel.operations import Op
from perfmodel.specs import Constant, GPUSpec, load_model, precision_of, with_engine
from perfmodel.validate.fit.kernels import Array, Kernels, TableFit
from perfmodel.validate.fit.kernels_file import INDEX, calibration_of
from perfmodel.validate.fit.tables import Tables, where
from perfmodel.validate.solving import nonnegative

MODEL = "deepseek-v3.2"
NAME = "dsa_generation_module_perf"
DEGREES = (8, 4)
"""Devices that share the heads of a module."""
SHORTEST_TOKENS, LEAST_ROWS = 64, 60
HELPS = 0.9
"""Largest share of the median error without these constants that may remain with them."""
PARTS = ("qkv_down", "q_up", "index_q", "index_k", "absorb_k", "absorb_v", "o", "rope", "kv append")


def with_indexer(
    found: Kernels, tables: Tables, gpu: GPUSpec, engine: str, version: str | None = None
) -> Kernels:
    """The same constants with `index`, if the tables have such modules and the median error falls by at least
    a tenth.
    """
    if not tables.versions("sparse_attention", engine, NAME):
        return found
    version, table = tables.read_version("sparse_attention", engine, version, NAME)
    model = load_model(MODEL)
    kept = (
        (table["gemm_type"] == "fp8_block")
        & (table["kv_cache_dtype"] == "fp8")
        & (table["model"] == model.hf_id)
    )
    table = where(table, kept & (table["step"] >= SHORTEST_TOKENS))
    rows = []
    ops = list[list[Op]]()
    for degree in DEGREES:
        rows.append(where(table, table["num_heads"] * degree == model.num_attention_heads))
        part = shard(model, degree, precision_of(model, gpu.peak, kv_dtype="fp8"))
        batch, context = (rows[-1][name].astype(float) for name in ("batch_size", "step"))
        every = forward(part, batch, 1.0, context, parse_kv("full"))
        ops.append([op for op in every if op.name in PARTS or op.kind == "attention"])
    seconds, tokens = (np.concatenate([part[name] for part in rows]) for name in ("seconds", "batch_size"))
    if len(seconds) < LEAST_ROWS:
        return found
    layers = model.num_hidden_layers

    def priced(*index: float) -> Array:
        constants = {
            name: Constant(value=value, source=NAME) for name, value in zip(INDEX, index, strict=True)
        }
        machine = Machine(gpu, plain.model_copy(update=constants))
        return np.concatenate([sum(machine.op_predicted_s(op) for op in part) for part in ops]) / layers

    def error(*index: float) -> float:
        return float(np.median(np.abs(np.log(priced(*index) / seconds))))

    plain = with_engine(calibration_of(found, gpu, engine))
    moved = [
        op.cost.kv_bytes + op.cost.activation_bytes for part in ops for op in part if op.cache == "index"
    ]
    ideal = np.concatenate(moved) / layers / gpu.memory_bandwidth_bytes_per_s
    columns = np.stack([ideal, np.ones(len(seconds)), tokens], 1)
    slower, layer, token = nonnegative(columns / seconds[:, None], 1.0 - priced(1.0, 0.0, 0.0) / seconds)[
        0
    ].tolist()
    values = 1.0 / (1.0 + slower), layer, token
    fitted = TableFit(values, error(*values), len(seconds), f"{engine} {version}")
    if fitted.median_error < HELPS * error(0.0, 0.0, 0.0):
        return replace(found, index=fitted)
    return found
