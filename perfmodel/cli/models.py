"""``perfmodel models``: the dimensions and the numbers of parameters of the models."""

from typing import Any

from perfmodel.answers.text import count
from perfmodel.cli.catalogue import Catalogue, Fact, app_of
from perfmodel.specs import ModelSpec, load_model
from perfmodel.specs.boundary.files import bundled_names

TOLERANCE = 0.02
"""Allowed relative difference between computed and published parameter counts. Published counts often have
only two digits.
"""


def _attention(m: ModelSpec) -> str:
    parts = ["MLA" if m.mla else "MHA" if m.num_key_value_heads == m.num_attention_heads else "GQA"]
    if m.num_sliding_layers:
        parts.append(f"{m.num_sliding_layers} of {m.num_attention_layers} sliding")
    if m.indexer:
        parts.append(f"{m.indexer.topk} entries selected")
    if m.linear_attention:
        parts.append(f"{m.linear_attention.layers} of {m.num_hidden_layers} layers {m.linear_attention.kind}")
    return ", ".join(parts)


def _describe(m: ModelSpec) -> dict[str, Any]:
    counted = {
        "total_params": m.total_params,
        "active_params": m.active_params,
        "kv_bytes_per_token_bf16": m.kv_bytes_per_token(),
    }
    return {"name": m.name, "title": m.title} | m.as_mapping() | {"counted": counted}


def _faults(m: ModelSpec) -> list[str]:
    """Published parameter counts that differ from the count of the shape."""
    if (p := m.published) is None:
        return []
    tables = 1 if m.tie_word_embeddings else 2
    counts = {
        "total_b": m.total_params,
        "nonembedding_b": m.total_params - m.embedding_params * tables,
    }
    faults = []
    for name, counted in counts.items():
        printed = getattr(p, name)
        if printed and abs(counted / 1e9 / printed - 1) > TOLERANCE:
            computed = f"{counted / 1e9:.3f} computed"
            faults.append(f"published.{name}: {printed:g} billion published, {computed}")
    return faults


CATALOGUE = Catalogue(
    verb="models",
    example="llama-3.1-8b",
    noun="model",
    names=lambda: bundled_names("models"),
    load=load_model,
    columns=(
        Fact("name", "name", lambda m: m.name),
        Fact("total_params", "parameters", lambda m: m.total_params, count),
        Fact("active_params", "active", lambda m: m.active_params, count, spare=2),
        Fact("num_hidden_layers", "layers", lambda m: m.num_hidden_layers, spare=4),
        Fact("hidden_size", "hidden", lambda m: m.hidden_size, spare=6),
        Fact("num_attention_heads", "heads", lambda m: m.num_attention_heads, spare=5),
        Fact("num_key_value_heads", "KV heads", lambda m: m.num_key_value_heads, spare=3),
        Fact("attention", "attention", _attention, left=True),
        Fact(
            "kv_bytes_per_token_bf16",
            "KV B/token",
            lambda m: m.kv_bytes_per_token(),
            lambda value: f"{value:.0f}",
        ),
        Fact("weights", "weights", lambda m: m.weights, left=True, spare=1),
        Fact("max_position_embeddings", "max context", lambda m: m.max_position_embeddings),
    ),
    describe=_describe,
    faults=_faults,
)
app = app_of(CATALOGUE)
