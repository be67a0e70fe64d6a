"""Constants of an indexer, from public tables of sparse-attention modules: a layer's GEMMs, indexer and
attention.

The time of a module outside its kernels is ``layer + tokens * token + (1/f - 1) * bytes / BW``, where bytes
are keys and scores, and a calibration prices the kernels with the indexer at the full bandwidth. The
constants are the non-negative least squares of relative errors.
"""

from dataclasses import replace
from itertools import chain

import numpy as np

from perfmodel.costs import forward, shard
from perfmodel.costs.kinds.selection import IndexerOp
from perfmodel.costs.operation import Op
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
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
    kernels: Kernels, tables: Tables, gpu: GPUSpec, engine: str, version: str | None = None
) -> Kernels:
    """The same constants with `index`, if the tables have such modules and the median error falls by at least
    a tenth.
    """
    if not tables.versions("sparse_attention", engine, NAME):
        return kernels
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
        sharded = shard(model, degree, precision_of(model, gpu.peak, kv_dtype="fp8"))
        batch = rows[-1]["batch_size"].astype(float)
        context = rows[-1]["step"].astype(float)
        every = forward(sharded, batch, 1.0, context, parse_kv("full"))
        ops.append([op for op in every if op.name in PARTS or op.kind == "attention"])
    seconds = np.concatenate([calls["seconds"] for calls in rows])
    tokens = np.concatenate([calls["batch_size"] for calls in rows])
    if len(seconds) < LEAST_ROWS:
        return kernels
    layers = model.num_hidden_layers

    def priced(*index: float) -> Array:
        constants = zip(INDEX, index, strict=True)
        update = {name: Constant(value=value, source=NAME) for name, value in constants}
        machine = Machine(gpu, plain.replace(**update))
        by_degree = [sum(machine.op_predicted_s(op) for op in degree_ops) for degree_ops in ops]
        return np.concatenate(by_degree) / layers

    def error(*index: float) -> float:
        return float(np.median(np.abs(np.log(priced(*index) / seconds))))

    plain = with_engine(calibration_of(kernels, gpu, engine))
    index_ops = [op for op in chain.from_iterable(ops) if isinstance(op, IndexerOp)]
    moved = np.concatenate([op.cost.kv_bytes + op.cost.activation_bytes for op in index_ops])
    ideal_s = moved / layers / gpu.memory_bandwidth_bytes_per_s
    columns = np.stack([ideal_s, np.ones(len(seconds)), tokens], 1)
    unexplained = 1.0 - priced(1.0, 0.0, 0.0) / seconds
    solution, _ = nonnegative(columns / seconds[:, None], unexplained)
    slower, layer, token = solution.tolist()
    values = 1.0 / (1.0 + slower), layer, token
    fitted = TableFit(values, error(*values), len(seconds), f"{engine} {version}")
    if fitted.median_error < HELPS * error(0.0, 0.0, 0.0):
        return replace(kernels, index=fitted)
    return kernels
