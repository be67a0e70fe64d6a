"""Maps each parameter of a model to Hugging Face tensors, or to rows and columns of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from torch import Tensor, nn

from perfmodel.specs import ModelSpec
from perfmodel.validate.decoder.eagle import HeadModel
from perfmodel.validate.decoder.model import Model, RoutedExperts
from perfmodel.validate.decoder.shard import RankShard


@dataclass(frozen=True)
class Piece:
    """Rows (`dim` 0) or columns (`dim` 1) [start, stop) of the Hugging Face tensor `name` of full `shape`."""

    name: str
    shape: tuple[int, ...]
    dim: int = 0
    start: int = 0
    stop: int | None = None

    def of(self, whole: Any) -> Tensor:
        """The piece of a tensor, or of a lazy slice of a file, which it reads."""
        if self.dim:
            return whole[:, self.start : self.stop]
        return whole[self.start : self.stop]


Pieces = Iterator[tuple[str, tuple[Piece, ...]]]
"""(parameter of `Model`, its Hugging Face pieces in order of concatenation), for one rank."""
Rows = list[tuple[str, int, tuple[int, int]]]
"""Tensors whose rows follow each other in one parameter: name, all rows, [start, stop) of this rank."""
NORMS = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
}
FUSED = {"qkv": "self_attn.qkv_proj", "mlp.gate_up": "mlp.gate_up_proj"}


def pieces(model: Model) -> Pieces:
    """The pieces of all parameters."""
    rows = model.shard.split(model.spec.vocab_size)
    spec = model.spec
    vocabulary = (spec.vocab_size, spec.hidden_size)
    yield "embedding", (Piece("model.embed_tokens.weight", vocabulary, 0, *rows),)
    for number, layer in enumerate(model.layers):
        for name, parts in _layer_pieces(spec, model.shard, layer, f"model.layers.{number}"):
            yield f"layers.{number}.{name}", parts
    yield "final_norm", (Piece("model.norm.weight", (spec.hidden_size,)),)
    if model.head is not None:
        yield "head", (Piece("lm_head.weight", vocabulary, 0, *rows),)


def _layer_pieces(spec: ModelSpec, shard: RankShard, layer: nn.Module, theirs: str) -> Pieces:
    """The pieces of a layer's parameters. theirs: the layer's name in the file."""
    d = spec.head_dim
    inner = spec.intermediate_size
    first, last = shard.kv_heads(spec.num_key_value_heads)
    q = spec.num_attention_heads * d
    kv = spec.num_key_value_heads * d
    query = (q, shard.split(q))
    key = (kv, (first * d, last * d))
    width = (inner, shard.split(inner))
    rows: dict[str, Rows] = {
        "qkv": [("self_attn.q_proj", *query), ("self_attn.k_proj", *key), ("self_attn.v_proj", *key)],
        "mlp.gate_up": [("mlp.gate_proj", *width), ("mlp.up_proj", *width)],
    }
    if spec.model_type == "phi3":
        rows = {module: _held_by(whole, rows[module]) for module, whole in FUSED.items()}
    columns = {"output": ("self_attn.o_proj", *query), "mlp.down": ("mlp.down_proj", *width)}
    for name, parameter in layer.named_parameters():
        module, _, kind = name.rpartition(".")
        count, *rest = parameter.shape
        if name in NORMS:
            yield name, (Piece(f"{theirs}.{NORMS[name]}.weight", (count,)),)
        elif module in rows and kind != "scale":
            pieces = [
                Piece(f"{theirs}.{file}.{kind}", (n, *rest), 0, *span) for file, n, span in rows[module]
            ]
            yield name, tuple(pieces)
        elif module in columns and kind != "scale":
            file, n, span = columns[module]
            tensor = f"{theirs}.{file}.{kind}"
            yield name, (Piece(tensor, (count, n), 1, *span) if rest else Piece(tensor, (count,)),)
    if isinstance(layer.mlp, RoutedExperts):
        yield from _expert_pieces(spec, shard, theirs)


def _held_by(whole: str, parts: Rows) -> Rows:
    """The same rows, from one tensor that holds all parts."""
    before = [0, *accumulate(n for _, n, _ in parts)]
    return [(whole, before[-1], (at + i, at + j)) for at, (_, _, (i, j)) in zip(before, parts, strict=False)]


def _expert_pieces(spec: ModelSpec, shard: RankShard, theirs: str) -> Pieces:
    """The pieces of experts, one after another: gate and up of each expert; down of each."""
    assert spec.moe is not None
    hidden = spec.hidden_size
    inner = spec.moe.intermediate_size
    count = spec.moe.num_experts
    mixtral = spec.model_type == "mixtral"
    part = shard.split(spec.moe.intermediate_size)
    block = f"{theirs}.block_sparse_moe" if mixtral else f"{theirs}.mlp"
    gate, down, up = ("w1", "w2", "w3") if mixtral else ("gate_proj", "down_proj", "up_proj")
    experts = [f"{block}.experts.{expert}" for expert in range(count)]
    yield "mlp.router", (Piece(f"{block}.gate.weight", (count, hidden)),)
    both = [f"{expert}.{name}.weight" for expert in experts for name in (gate, up)]
    yield "mlp.gate_up", tuple(Piece(name, (inner, hidden), 0, *part) for name in both)
    yield "mlp.down", tuple(Piece(f"{expert}.{down}.weight", (hidden, inner), 1, *part) for expert in experts)


def head_pieces(head: HeadModel, layer: str) -> Pieces:
    """The pieces of an EAGLE-3 head. layer: the file's name of its layer, midlayer or layers.0."""
    names = {
        "project.weight": "fc",
        "embedding_norm": f"{layer}.input_layernorm",
        "final_norm": "norm",
        "head": "lm_head",
        "layers.0.attention_norm": f"{layer}.hidden_norm",
    }
    for name, their in names.items():
        yield name, (Piece(f"{their}.weight", tuple(head.get_parameter(name).shape)),)
    for name, parts in _layer_pieces(head.spec, RankShard(), head.layers[0], layer):
        if name != "attention_norm":
            yield f"layers.0.{name}", parts
