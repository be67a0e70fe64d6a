"""One device of a tiny or a bundled model, and its operations by name."""

from perfmodel.costs import Shard, forward, shard
from perfmodel.kv import parse_kv
from perfmodel.operations import Op
from perfmodel.specs import ModelSpec, Precision, files, kv_format, load_model, weight_format

FULL = parse_kv("full")
BF16 = Precision(weight_format("bf16"), kv_format("bf16"))
MODELS = files.bundled_names("models")


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
    return ModelSpec.model_validate(base | shape)


def part(model: str | ModelSpec, tp: int = 1, weights: str = "bf16", kv: str = "bf16", **kwargs) -> Shard:
    """With an indexer in fp8, if the model has one."""
    spec = load_model(model) if isinstance(model, str) else model
    return shard(spec, tp, Precision(weight_format(weights), kv_format(kv), "fp8"), **kwargs)


def count(p: Shard, batch=1.0, query=1.0, context=100.0, kv=FULL, **kwargs) -> dict[str, Op]:
    return {op.name: op for op in forward(p, batch, query, context, kv, **kwargs)}
