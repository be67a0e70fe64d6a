"""Maps each parameter of a model to its pieces: Hugging Face tensors, or rows or columns of such tensors."""

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
    """Rows or columns of a Hugging Face tensor, from `start` to `stop` - 1.

    - shape: the shape of the whole tensor.
    - dim: 0 for rows, 1 for columns.
    """

    name: str
    shape: tuple[int, ...]
    dim: int = 0
    start: int = 0
    stop: int | None = None

    def of(self, whole: Any) -> Tensor:
        """This piece of a tensor.

        - whole: the tensor, or a lazy slice of a file, of which only the piece is read.
        """
        if self.dim:
            return whole[:, self.start : self.stop]
        return whole[self.start : self.stop]


Pieces = Iterator[tuple[str, tuple[Piece, ...]]]
"""Pairs of a parameter of `Model` and its pieces on one rank, in the order of concatenation."""
Slice = tuple[str, int, tuple[int, int]]
"""The name of a tensor, its number of rows or columns, and the range [start, stop) of this rank."""
Rows = list[Slice]
"""The slices of tensors whose rows follow each other in one parameter."""
NORMS = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
}
"""Norm of a `Layer` -> its name in Hugging Face folders."""
FUSED = {"qkv": "self_attn.qkv_proj", "mlp.gate_up": "mlp.gate_up_proj"}
"""Matrix of a `Layer` -> the name of the same matrix in folders of Phi-3."""


def pieces(model: Model) -> Pieces:
    """The pieces of all parameters of a model on its rank."""
    rows = model.shard.split(model.spec.vocab_size)
    spec = model.spec
    vocabulary = (spec.vocab_size, spec.hidden_size)
    yield "embedding", (Piece("model.embed_tokens.weight", vocabulary, 0, *rows),)
    for number, layer in enumerate(model.layers):
        for name, of_parameter in _layer_pieces(spec, model.shard, layer, f"model.layers.{number}"):
            yield f"layers.{number}.{name}", of_parameter
    yield "final_norm", (Piece("model.norm.weight", (spec.hidden_size,)),)
    if model.head is not None:
        yield "head", (Piece("lm_head.weight", vocabulary, 0, *rows),)


def _layer_pieces(spec: ModelSpec, shard: RankShard, layer: nn.Module, prefix: str) -> Pieces:
    """The pieces of the parameters of a layer.

    - prefix: the name of the layer in the folder.
    """
    rows, columns = _projections(spec, shard)
    for name, parameter in layer.named_parameters():
        module, _, kind = name.rpartition(".")
        outputs, *inputs = parameter.shape
        if name in NORMS:
            yield name, (Piece(f"{prefix}.{NORMS[name]}.weight", (outputs,)),)
        elif module in rows and kind != "scale":
            of_parameter = []
            for file, all_rows, span in rows[module]:
                of_parameter.append(Piece(f"{prefix}.{file}.{kind}", (all_rows, *inputs), 0, *span))
            yield name, tuple(of_parameter)
        elif module in columns and kind != "scale":
            file, all_columns, span = columns[module]
            tensor = f"{prefix}.{file}.{kind}"
            if inputs:
                yield name, (Piece(tensor, (outputs, all_columns), 1, *span),)
            else:
                yield name, (Piece(tensor, (outputs,)),)
    if isinstance(layer.mlp, RoutedExperts):
        yield from _expert_pieces(spec, shard, prefix)


def _projections(spec: ModelSpec, shard: RankShard) -> tuple[dict[str, Rows], dict[str, Slice]]:
    """Two mappings: module -> the slices whose rows it has on this rank, and module -> the slice whose
    columns it has.
    """
    first, last = shard.kv_heads(spec.num_key_value_heads)
    queries = spec.num_attention_heads * spec.head_dim
    keys = spec.num_key_value_heads * spec.head_dim
    inner = spec.intermediate_size
    of_queries = (queries, shard.split(queries))
    of_keys = (keys, (first * spec.head_dim, last * spec.head_dim))
    of_inner = (inner, shard.split(inner))
    rows: dict[str, Rows] = {
        "qkv": [
            ("self_attn.q_proj", *of_queries),
            ("self_attn.k_proj", *of_keys),
            ("self_attn.v_proj", *of_keys),
        ],
        "mlp.gate_up": [("mlp.gate_proj", *of_inner), ("mlp.up_proj", *of_inner)],
    }
    if spec.model_type == "phi3":
        rows = {module: _fused(tensor, rows[module]) for module, tensor in FUSED.items()}
    columns: dict[str, Slice] = {
        "output": ("self_attn.o_proj", *of_queries),
        "mlp.down": ("mlp.down_proj", *of_inner),
    }
    return rows, columns


def _fused(tensor: str, rows: Rows) -> Rows:
    """The same rows, as slices of one tensor in which the rows of all tensors follow each other.

    - tensor: the name of this tensor.
    """
    starts = [0, *accumulate(count for _, count, _ in rows)]
    fused = []
    for start, (_, _, (first, stop)) in zip(starts, rows, strict=False):
        fused.append((tensor, starts[-1], (start + first, start + stop)))
    return fused


def _expert_pieces(spec: ModelSpec, shard: RankShard, prefix: str) -> Pieces:
    """The pieces of the router and the experts. The gate and up matrices of an expert follow each other."""
    assert spec.moe is not None
    hidden = spec.hidden_size
    inner = spec.moe.intermediate_size
    count = spec.moe.num_experts
    span = shard.split(inner)
    if spec.model_type == "mixtral":
        block = f"{prefix}.block_sparse_moe"
        gate, down, up = "w1", "w2", "w3"
    else:
        block = f"{prefix}.mlp"
        gate, down, up = "gate_proj", "down_proj", "up_proj"
    yield "mlp.router", (Piece(f"{block}.gate.weight", (count, hidden)),)
    gate_up_pieces = []
    down_pieces = []
    for expert in range(count):
        weights = f"{block}.experts.{expert}"
        for name in (gate, up):
            gate_up_pieces.append(Piece(f"{weights}.{name}.weight", (inner, hidden), 0, *span))
        down_pieces.append(Piece(f"{weights}.{down}.weight", (hidden, inner), 1, *span))
    yield "mlp.gate_up", tuple(gate_up_pieces)
    yield "mlp.down", tuple(down_pieces)


def head_pieces(head: HeadModel, layer: str) -> Pieces:
    """The pieces of an EAGLE-3 head.

    - layer: the name of the layer in the folder, ``midlayer`` or ``layers.0``.
    """
    names = {
        "project.weight": "fc",
        "embedding_norm": f"{layer}.input_layernorm",
        "final_norm": "norm",
        "head": "lm_head",
        "layers.0.attention_norm": f"{layer}.hidden_norm",
    }
    for name, file in names.items():
        yield name, (Piece(f"{file}.weight", tuple(head.get_parameter(name).shape)),)
    for name, of_parameter in _layer_pieces(head.spec, RankShard(), head.layers[0], layer):
        if name != "attention_norm":
            yield f"layers.0.{name}", of_parameter
