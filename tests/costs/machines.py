"""One device of a tiny or a bundled model, an ideal A100 with some constants changed, and single ops."""

from typing import Any

import numpy as np

from perfmodel.costs import Degrees, PassShape, Shard, forward, shard
from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.roofline import Machine
from perfmodel.kv import parse_kv
from perfmodel.operations import Array, Cost
from perfmodel.specs import (
    Calibration,
    ModelSpec,
    Precision,
    files,
    kv_format,
    load_calibration,
    load_gpu,
    load_model,
    weight_format,
)
from perfmodel.specs.calibrations.constants import AllReduce

FULL = parse_kv("full")
BF16 = Precision(weight_format("bf16"), kv_format("bf16"))
MODELS = files.bundled_names("models")
A100 = load_gpu("a100-sxm-80gb")
F = 312e12
BW = 2.039e12
LINK = 300e9
IDEAL = load_calibration("ideal")
CALIBRATIONS = files.bundled_names("calibrations")
HAIR = 1e-12


def tiny(**shape) -> ModelSpec:
    """A dense model small enough to multiply out; 4 query heads share 2 KV heads."""
    base = {
        "name": "tiny",
        "title": "tiny",
        "source": "made up",
        "model_type": "llama",
        "num_hidden_layers": 3,
        "hidden_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 80,
        "vocab_size": 100,
        "max_position_embeddings": 4096,
    }
    return ModelSpec.of_mapping(base | shape)


def device_shard(
    model: str | ModelSpec,
    tp: int = 1,
    weights: str = "bf16",
    kv: str = "bf16",
    groups: int = 1,
    expert_groups: int = 1,
    **kwargs,
) -> Shard:
    """One device's part of a model; its indexer, if it has one, is in fp8."""
    spec = load_model(model) if isinstance(model, str) else model
    degrees = Degrees(tp, groups, expert_groups)
    return shard(spec, degrees, Precision(weight_format(weights), kv_format(kv), "fp8"), **kwargs)


def count(p: Shard, batch=1.0, query=1.0, context=100.0, kv=FULL, **kwargs) -> dict[str, Any]:
    return {op.name: op for op in forward(p, PassShape(batch, query, context, **kwargs), kv)}


def calibrated(**values: float | AllReduce | None) -> Calibration:
    """The ideal calibration with some constants changed."""
    changed = {
        name: getattr(IDEAL, name).replace(value=value) if isinstance(value, float) else value
        for name, value in values.items()
    }
    return IDEAL.replace(**changed)


def machine(tp: int = 1, kv_reread: float | None = None, **values) -> Machine:
    return Machine(A100, calibrated(**values), tp, kv_reread)


def linear(memory_s: float, compute_s: float, kernels: int = 0, **more) -> GemmOp:
    return GemmOp("gemm", kernels, Cost(flops=compute_s * F, weight_bytes=memory_s * BW), **more)


def attention(kv_s: float, compute_s: float = 0.0, kernels: int = 0, **more) -> AttentionOp:
    return AttentionOp("attention", kernels, Cost(flops=compute_s * F, kv_bytes=kv_s * BW), **more)


def never_falls(seconds: Array) -> bool:
    """By more than rounding."""
    return bool(np.all(np.diff(seconds) >= -1e-12 * seconds[1:]))
