"""Weights from a local Hugging Face folder, read lazily and straight to device and type, or random from a seed."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from perfmodel.errors import InputError
from perfmodel.specs.files import read_mapping
from perfmodel.specs.model import ModelSpec, load_model
from perfmodel.validate.decoder.cache import check_fits
from perfmodel.validate.decoder.model import Model, check_supported
from perfmodel.validate.decoder.shard import Shard


@dataclass(frozen=True)
class Piece:
    """Rows (`dim` 0) or columns (`dim` 1) [start, stop) of the Hugging Face tensor `name` of full `shape`."""

    name: str
    shape: tuple[int, ...]
    dim: int = 0
    start: int = 0
    stop: int | None = None


class Source(Protocol):
    """Where pieces of weights come from."""

    def read(self, piece: Piece) -> Tensor:
        """The piece on the source's device in the source's type."""
        ...


def pieces(spec: ModelSpec, shard: Shard) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """(parameter of `Model`, the Hugging Face pieces it is the concatenation of), for one rank."""
    vocabulary = (spec.vocab_size, spec.hidden_size)
    rows = shard.split(spec.vocab_size)
    yield "embedding", (Piece("model.embed_tokens.weight", vocabulary, 0, *rows),)
    for layer in range(spec.num_hidden_layers):
        yield from _layer_pieces(spec, shard, layer)
    yield "final_norm", (Piece("model.norm.weight", (spec.hidden_size,)),)
    if not spec.tie_word_embeddings:
        yield "head", (Piece("lm_head.weight", vocabulary, 0, *rows),)


def _layer_pieces(spec: ModelSpec, shard: Shard, layer: int) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
    d, hidden, inner = spec.head_dim, spec.hidden_size, spec.intermediate_size
    q, kv = spec.num_attention_heads * d, spec.num_key_value_heads * d
    first, last = shard.kv_heads(spec.num_key_value_heads)
    columns = {"q": (q, shard.split(q)), "k": (kv, (first * d, last * d)), "v": (kv, (first * d, last * d))}
    for kind in ("weight", "bias") if spec.qkv_bias else ("weight",):
        tail = (hidden,) if kind == "weight" else ()
        yield (
            f"{ours}.qkv.{kind}",
            tuple(
                Piece(f"{theirs}.self_attn.{x}_proj.{kind}", (total, *tail), 0, *part)
                for x, (total, part) in columns.items()
            ),
        )
    for kind in ("weight", "bias") if spec.mlp_bias else ("weight",):
        tail = (hidden,) if kind == "weight" else ()
        yield (
            f"{ours}.gate_up.{kind}",
            tuple(
                Piece(f"{theirs}.mlp.{x}_proj.{kind}", (inner, *tail), 0, *shard.split(inner)) for x in ("gate", "up")
            ),
        )
    yield f"{ours}.output.weight", (Piece(f"{theirs}.self_attn.o_proj.weight", (hidden, q), 1, *shard.split(q)),)
    yield f"{ours}.down.weight", (Piece(f"{theirs}.mlp.down_proj.weight", (hidden, inner), 1, *shard.split(inner)),)
    if spec.output_bias and shard.rank == 0:
        yield f"{ours}.output.bias", (Piece(f"{theirs}.self_attn.o_proj.bias", (hidden,)),)
    if spec.mlp_bias and shard.rank == 0:
        yield f"{ours}.down.bias", (Piece(f"{theirs}.mlp.down_proj.bias", (hidden,)),)
    yield f"{ours}.attention_norm", (Piece(f"{theirs}.input_layernorm.weight", (hidden,)),)
    yield f"{ours}.mlp_norm", (Piece(f"{theirs}.post_attention_layernorm.weight", (hidden,)),)
    if spec.qk_norm:
        yield f"{ours}.q_norm", (Piece(f"{theirs}.self_attn.q_norm.weight", (d,)),)
        yield f"{ours}.k_norm", (Piece(f"{theirs}.self_attn.k_norm.weight", (d,)),)


class Checkpoint:
    """A local Hugging Face folder: ``config.json`` beside one or more ``.safetensors`` files."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        self.folder, self.device, self.dtype = folder, device, dtype
        _check_readable(folder)
        index = folder / "model.safetensors.index.json"
        try:
            table = json.loads(index.read_text())["weight_map"] if index.is_file() else None
            names = sorted(set(table.values())) if table else [p.name for p in sorted(folder.glob("*.safetensors"))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{index}: must be a JSON object with a weight_map") from None
        if not names:
            raise InputError(f"{folder}: must hold .safetensors weights, given a folder without any")
        self._opened = {name: self._open(folder / name) for name in names}
        self._file_of = {tensor: file for file in self._opened.values() for tensor in file.keys()}  # noqa: SIM118

    def _open(self, path: Path) -> safe_open:
        try:
            return safe_open(path, framework="pt", device=str(self.device))
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"{path}: must be a whole safetensors file: {' '.join(str(error).split())[:120]}"
            ) from None

    def read(self, piece: Piece) -> Tensor:
        """One piece; only its bytes leave the disk."""
        file = self._file_of.get(piece.name)
        if file is None and piece.name == "lm_head.weight":
            raise InputError(
                f"{self.folder}: has no lm_head.weight although config.json says tie_word_embeddings is false"
            )
        if file is None:
            raise InputError(
                f"{self.folder}: must hold the tensor {piece.name} that config.json calls for; it does not"
            )
        lazy = file.get_slice(piece.name)
        if tuple(lazy.get_shape()) != piece.shape:
            wanted = list(piece.shape)
            raise InputError(f"{self.folder}: {piece.name}: must be {wanted} by config.json, given {lazy.get_shape()}")
        part = lazy[:, piece.start : piece.stop] if piece.dim else lazy[piece.start : piece.stop]
        return part.to(self.device, self.dtype)


def _check_readable(folder: Path) -> None:
    """Refuse what a config.json says of its tensors and this decoder would silently compute otherwise."""
    config = read_mapping(folder / "config.json")
    if config.get("hidden_act", "silu") != "silu":
        raise InputError(f"{folder}: hidden_act: must be 'silu' to be run here, given {config['hidden_act']!r}")
    if config.get("quantization_config") is not None:
        raise InputError(f"{folder}: quantization_config: must be absent: weights must be floating-point and unscaled")


class RandomWeights:
    """Normal weights made on the device; the same seed gives every rank its slice of the same model."""

    def __init__(self, seed: int, device: torch.device, dtype: torch.dtype, deviation: float = 0.02) -> None:
        self.seed, self.device, self.dtype, self.deviation = seed, device, dtype, deviation

    def read(self, piece: Piece) -> Tensor:
        """One piece of the seed's model; norms are 1."""
        if "norm" in piece.name:
            return torch.ones(piece.shape, device=self.device, dtype=self.dtype)
        generator = torch.Generator(self.device).manual_seed(zlib.crc32(piece.name.encode(), self.seed))
        full = torch.empty(piece.shape, device=self.device, dtype=self.dtype).normal_(
            0, self.deviation, generator=generator
        )
        part = full[:, piece.start : piece.stop] if piece.dim else full[piece.start : piece.stop]
        return part if part.shape == full.shape else part.clone()


def build(spec: ModelSpec, source: Source, shard: Shard | None = None) -> Model:
    """A model of `spec` with the weights of `source`; parameters are made once, at their final place and type."""
    with torch.device("meta"):
        model = Model(spec, shard)
    owners = dict(model.named_modules())
    for name, parts in pieces(spec, model.shard):
        tensors = [source.read(part) for part in parts]
        owner, _, leaf = name.rpartition(".")
        value = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        setattr(owners[owner], leaf, nn.Parameter(value, requires_grad=False))
    return model.eval()


def load(
    name: str,
    weights: str,
    device: torch.device,
    dtype: torch.dtype,
    shard: Shard | None = None,
    flag: str = "--model",
) -> Model:
    """A model by name or folder, as `flag` gave it. `weights` is ``checkpoint`` (the folder's own) or ``random:SEED``.

    Raises InputError in one line for anything missing, truncated or of another shape, and where memory runs out.
    """
    spec = load_model(name, flag)
    check_supported(spec)
    source = _source(name, weights, device, dtype)
    need = spec.total_params * dtype.itemsize / (shard.size if shard else 1)
    check_fits(f"model {spec.name}", need, device, "take a smaller model or dtype")
    try:
        return build(spec, source, shard)
    except torch.OutOfMemoryError:
        raise InputError(
            f"model {spec.name}: must fit on {device} with {spec.total_params * dtype.itemsize / 1e9:.1f} GB"
        ) from None


def _source(name: str, weights: str, device: torch.device, dtype: torch.dtype) -> Source:
    kind, _, seed = weights.partition(":")
    if kind == "random" and seed.isdigit():
        return RandomWeights(int(seed), device, dtype)
    if weights != "checkpoint":
        raise InputError(f"--weights: must be 'checkpoint' or 'random:SEED', given {weights!r}")
    if not Path(name).is_dir():
        raise InputError(f"--checkpoint: must be a folder with config.json and .safetensors, given {name!r}")
    return Checkpoint(Path(name), device, dtype)


def save_tensors(model: Model) -> dict[str, Tensor]:
    """The whole model's tensors by Hugging Face name (no tensor parallelism)."""
    parameters = dict(model.named_parameters())
    out: dict[str, Tensor] = {}
    for name, parts in pieces(model.spec, Shard()):
        split = parameters[name].detach().split([part.shape[0] for part in parts])
        out.update({part.name: tensor.contiguous() for part, tensor in zip(parts, split, strict=True)})
    return out
