"""A tiny Llama, in one process or several."""

from typing import Any

from perfmodel.specs.models.model import ModelSpec


def tiny_spec(**changes: Any) -> ModelSpec:
    """Two layers of 32; any field can be given."""
    shape = {
        "name": "tiny",
        "title": "tiny",
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "vocab_size": 61,
        "max_position_embeddings": 2048,
        "source": "a test",
    }
    return ModelSpec.model_validate({**shape, **changes})
