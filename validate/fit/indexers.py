"""Fits the constants of the indexer of sparse attention to public tables. The tables have the times of whole
modules: the GEMMs, the indexer and the attention of a layer.

A calibration predicts the kernels of a module if the indexer reaches the full bandwidth. The formula for the
rest of the module's time is ``layer + tokens * token + (1/f - 1) * bytes / BW``. ``bytes`` are those of keys
and scores, ``BW`` is the bandwidth, and ``f`` is the share of the bandwidth that the indexer reaches. The
constants are a non-negative least-squares fit of the relative errors.
"""

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from perfmodel.costs import Degrees, PassShape, forward, shard
from perfmodel.costs.kinds.selection import IndexerOp
from perfmodel.costs.operation import Op
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
from perfmodel.operations import Array
from perfmodel.specs import Calibration, Constant, GPUSpec, load_model, precision_of, with_engine
from perfmodel.validate.fit.kernel_tables.fits import TableFit
from perfmodel.validate.fit.kernels import IndexConstants, Kernels
from perfmodel.validate.fit.kernels_file import calibration_of, index_constants
from perfmodel.validate.fit.tables import Table, Tables, where
from perfmodel.validate.solving import nonnegative

MODEL = "deepseek-v3.2"
"""The model whose modules are used."""
NAME = "dsa_generation_module_perf"
"""The name of the table."""
DEGREES = (8, 4)
"""Numbers of devices that share the heads of a module."""
SHORTEST_TOKENS = 64
"""Smallest context of the used modules, in tokens."""
LEAST_ROWS = 60
"""Smallest number of modules for a fit."""
UNPRICED = IndexConstants(bandwidth_fraction=0.0, layer_s=0.0, token_s=0.0)
"""Constants of a calibration without fitted constants of an indexer. A bandwidth fraction of 0 means the
fraction of attention.
"""
IDEAL = IndexConstants(bandwidth_fraction=1.0, layer_s=0.0, token_s=0.0)
"""Constants of an indexer that reaches the full bandwidth."""
HELPS = 0.9
"""Fitted constants are used only if their median error is less than this share of the median error without
them.
"""
PARTS = ("qkv_down", "q_up", "index_q", "index_k", "absorb_k", "absorb_v", "o", "rope", "kv append")
"""The operations of a pass, other than attention, that are part of a module."""


def with_indexer(
    kernels: Kernels, tables: Tables, gpu: GPUSpec, engine: str, version: str | None = None
) -> Kernels:
    """The same kernel constants, with `index` if the tables have enough modules and the fit reduces the error
    (`HELPS`).
    """
    if not tables.versions("sparse_attention", engine, NAME):
        return kernels
    version, table = tables.read_version("sparse_attention", engine, version, NAME)
    calibration = with_engine(calibration_of(kernels, gpu, engine))
    modules = TimedModules.of(table, gpu, calibration)
    if len(modules.seconds) < LEAST_ROWS:
        return kernels
    constants = modules.fitted()
    fitted = TableFit(constants, modules.error(constants), len(modules.seconds), f"{engine} {version}")
    if fitted.median_error < HELPS * modules.error(UNPRICED):
        return replace(kernels, index=fitted)
    return kernels


@dataclass(frozen=True)
class TimedModules:
    """Timed modules of sparse attention.

    - ops: for each of `DEGREES`, the operations of the modules, whose counts are arrays ``[module]``.
    - seconds, tokens: the time and the number of tokens of each module, in the order of `DEGREES`.
    """

    gpu: GPUSpec
    calibration: Calibration
    layers: int
    ops: list[list[Op]]
    seconds: Array
    tokens: Array

    @classmethod
    def of(cls, table: Table, gpu: GPUSpec, calibration: Calibration) -> "TimedModules":
        """The modules of `MODEL` in a table, at `DEGREES`."""
        model = load_model(MODEL)
        of_model = (
            (table["gemm_type"] == "fp8_block")
            & (table["kv_cache_dtype"] == "fp8")
            & (table["model"] == model.hf_id)
        )
        table = where(table, of_model & (table["step"] >= SHORTEST_TOKENS))
        by_degree = []
        ops = []
        for degree in DEGREES:
            calls = where(table, table["num_heads"] * degree == model.num_attention_heads)
            sharded = shard(model, Degrees(degree), precision_of(model, gpu.peak, kv_dtype="fp8"))
            batch = calls["batch_size"].astype(float)
            context = calls["step"].astype(float)
            in_pass = forward(sharded, PassShape(batch, 1.0, context), parse_kv("full"))
            ops.append([op for op in in_pass if op.name in PARTS or op.kind == "attention"])
            by_degree.append(calls)
        seconds = np.concatenate([calls["seconds"] for calls in by_degree])
        tokens = np.concatenate([calls["batch_size"] for calls in by_degree])
        return cls(gpu, calibration, model.num_hidden_layers, ops, seconds, tokens)

    def priced(self, index: IndexConstants) -> Array:
        """The predicted seconds of each module with these constants of an indexer."""
        constants = index_constants(index).items()
        update = {name: Constant(value=value, source=NAME) for name, value in constants}
        machine = Machine(self.gpu, self.calibration.replace(**update))
        by_degree = [sum(machine.op_predicted_s(op) for op in ops) for ops in self.ops]
        return np.concatenate(by_degree) / self.layers

    def error(self, index: IndexConstants) -> float:
        """The median absolute log error of the modules with these constants."""
        return float(np.median(np.abs(np.log(self.priced(index) / self.seconds))))

    def fitted(self) -> IndexConstants:
        """The constants with the smallest squared relative errors."""
        index_ops = [op for op in chain.from_iterable(self.ops) if isinstance(op, IndexerOp)]
        moved = np.concatenate([op.cost.kv_bytes + op.cost.activation_bytes for op in index_ops])
        ideal_s = moved / self.layers / self.gpu.memory_bandwidth_bytes_per_s
        columns = np.stack([ideal_s, np.ones(len(self.seconds)), self.tokens], 1)
        unexplained = 1.0 - self.priced(IDEAL) / self.seconds
        solution, _ = nonnegative(columns / self.seconds[:, None], unexplained)
        slower, layer_s, token_s = solution.tolist()
        return IndexConstants(1.0 / (1.0 + slower), layer_s, token_s)
