"""Loads weights from a local Hugging Face folder, or makes random weights from a seed. Each tensor is created
on its final device and in its final type.
"""

import zlib
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from perfmodel.drafts import make_draft
from perfmodel.drafts.eagle import Eagle
from perfmodel.errors import InputError, refuse, shortened
from perfmodel.kv import parse_kv
from perfmodel.reading import check_regular, is_folder, parse_json, read_text
from perfmodel.specs import ModelSpec, Precision, kv_format, load_model, weight_format
from perfmodel.specs.boundary.files import read_mapping
from perfmodel.validate.decoder.eagle import HeadModel
from perfmodel.validate.decoder.fp8 import FP8, Fp8Linear, check_runs, quantise
from perfmodel.validate.decoder.memory import check_fits
from perfmodel.validate.decoder.model import Model, RoutedExperts
from perfmodel.validate.decoder.pieces import Piece, Pieces, head_pieces, pieces
from perfmodel.validate.decoder.shard import RankShard


class CheckpointFolder:
    """A local Hugging Face folder: ``config.json`` and one or more ``.safetensors`` files."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        self.folder = folder
        self.device = device
        self.dtype = dtype
        _check_readable(folder)
        files = [self._open(folder / name) for name in _files(folder)]
        self._file_of = {tensor: file for file in files for tensor in file.keys()}  # noqa: SIM118

    def _open(self, path: Path) -> safe_open:
        check_regular(path)
        try:
            return safe_open(path, framework="pt", device=str(self.device))
        except (SafetensorError, OSError) as error:
            cause = " ".join(str(error).split())
            raise InputError(f"{path}: must be a whole safetensors file: {cause[:120]}") from None

    def check_tied(self) -> None:
        """Raises InputError if the folder has an LM head that differs from the embedding. The method is for
        models whose config.json has tie_word_embeddings.
        """
        head = self.whole("lm_head.weight")
        embedding = self.whole("model.embed_tokens.weight")
        if head is not None and embedding is not None and not torch.equal(head, embedding):
            raise InputError(
                f"{self.folder}: lm_head.weight: must be the embedding, as tie_word_embeddings says"
            )

    def whole(self, name: str) -> torch.Tensor | None:
        """A stored tensor; None if the folder has no tensor with this name."""
        file = self._file_of.get(name)
        return None if file is None else file.get_tensor(name)

    def read(self, piece: Piece) -> torch.Tensor:
        """Reads one piece. Only the bytes of the piece are read from the disk. Raises InputError if the
        tensor is missing or has another shape.
        """
        file = self._file_of.get(piece.name)
        if file is None and piece.name == "lm_head.weight":
            raise InputError(
                f"{self.folder}: no lm_head.weight although config.json says tie_word_embeddings is false"
            )
        if file is None:
            raise InputError(f"{self.folder}: must hold the tensor {piece.name} that config.json calls for")
        lazy = file.get_slice(piece.name)
        if tuple(lazy.get_shape()) != piece.shape:
            shape = list(piece.shape)
            raise InputError(
                f"{self.folder}: {piece.name}: must be {shape} by config.json, given {lazy.get_shape()}"
            )
        return piece.of(lazy).to(self.device, self.dtype)


def _files(folder: Path) -> list[str]:
    """The names of the weight files: those in the index, or else ``model.safetensors``, or else the only
    file.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return _shards(index)
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    chosen = [name for name in names if name == "model.safetensors"] or names
    if len(chosen) != 1:
        allowed = "model.safetensors, or shards with model.safetensors.index.json"
        raise refuse(str(folder), "weights", allowed, ", ".join(names[:4]) or "none")
    return chosen


def _shards(index: Path) -> list[str]:
    """The names of the files in an index. Raises InputError if they are not in the folder of the index."""
    data = parse_json(str(index), read_text(index))
    file_of = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(file_of, dict) or not file_of:
        allowed = "an object of tensor names and their files"
        raise refuse(str(index), "weight_map", allowed, type(file_of).__name__)
    for tensor, name in file_of.items():
        if not _is_file_name(name):
            allowed = "the name of a file in this folder"
            raise refuse(str(index), f"weight_map: {shortened(tensor)!r}", allowed, repr(name))
    return sorted(set(file_of.values()))


def _is_file_name(name: object) -> bool:
    """Whether a value is the name of a file without a folder."""
    if not isinstance(name, str) or name in ("", ".."):
        return False
    return Path(name).name == name and name.isprintable()


def _check_readable(folder: Path) -> None:
    """Raises InputError for settings in config.json that this decoder would otherwise ignore."""
    config = read_mapping(folder / "config.json")
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise InputError(
            f"{folder}: hidden_act: must be 'silu' to be run here, given {config['hidden_act']!r}"
        )
    if config.get("quantization_config") is not None:
        raise InputError(
            f"{folder}: quantization_config: must be absent: weights must be floating-point and unscaled"
        )
    kinds = config.get("layer_types") or []  # a list of names, as `load_model` has checked
    if kinds != sorted(kinds):  # "full_attention" before "sliding_attention"
        sliding = [layer for layer, kind in enumerate(kinds) if kind != "full_attention"]
        raise InputError(
            f"{folder}: layer_types: must have its sliding layers last to be run here, given {sliding[:8]}"
        )


class RandomWeights:
    """Normally distributed weights, which are made on the device. With the same seed, every rank gets its
    part of the same model.

    - deviation: the standard deviation.
    """

    def __init__(self, seed: int, device: torch.device, dtype: torch.dtype, deviation: float = 0.02) -> None:
        self.seed = seed
        self.device = device
        self.dtype = dtype
        self.deviation = deviation

    def read(self, piece: Piece) -> torch.Tensor:
        """One piece of the random model. The weights of norms are 1."""
        if "norm" in piece.name:
            return torch.ones(piece.shape, device=self.device, dtype=self.dtype)
        generator = torch.Generator(self.device).manual_seed(zlib.crc32(piece.name.encode(), self.seed))
        full = torch.empty(piece.shape, device=self.device, dtype=self.dtype).normal_(
            0, self.deviation, generator=generator
        )
        of_rank = piece.of(full)
        return of_rank if of_rank.shape == full.shape else of_rank.clone()


WeightSource = CheckpointFolder | RandomWeights
"""A source of weights. Its method `read` returns a piece on the device and in the type of the source."""


def build(spec: ModelSpec, source: WeightSource, shard: RankShard | None = None, fp8: bool = False) -> Model:
    """A model of the shape `spec` with the weights of `source`. Each parameter is allocated once, on its
    final device and in its final type.

    - fp8: whether the matrices of the layers are quantised while they are read (see the module `fp8`).
    """
    model = _empty(spec, shard, fp8)
    fill(model, pieces(model), source)
    return model.eval()


def _empty(spec: ModelSpec, shard: RankShard | None, fp8: bool) -> Model:
    with torch.device("meta"):
        model = Model(spec, shard)
        if fp8:
            quantise(model)
    return model


def fill(model: torch.nn.Module, parameters: Pieces, source: WeightSource) -> None:
    """Sets the parameters of a model to values from `source`.

    - parameters: the pieces of each parameter.
    """
    owners = dict(model.named_modules())
    for name, parts in parameters:
        tensors = [source.read(part) for part in parts]
        owner, _, leaf = name.rpartition(".")
        value = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        module = owners[owner]
        empty = getattr(module, leaf)
        if empty.dtype != FP8:
            setattr(module, leaf, torch.nn.Parameter(value.view(empty.shape), requires_grad=False))
            continue
        pairs = zip(parts, tensors, strict=True)
        peaks = torch.cat([_row_peaks(source, piece, tensor) for piece, tensor in pairs])
        if isinstance(module, RoutedExperts):
            module.hold(leaf, value.view(empty.shape), peaks)
        else:
            module.hold(value, peaks)


def _row_peaks(source: WeightSource, piece: Piece, tensor: torch.Tensor) -> torch.Tensor:
    """The largest absolute value in each whole row of a matrix, even if this rank has only some of the
    columns.

    - tensor: the value of `piece`.
    """
    whole = source.read(replace(piece, start=0, stop=None)) if piece.dim else tensor
    return whole.abs().amax(1)


def load(
    name: str,
    weights: str,
    device: torch.device,
    dtype: torch.dtype,
    shard: RankShard | None = None,
    flag: str = "--model",
    fp8: bool = False,
) -> Model:
    """Loads a model.

    - name: the name of a bundled model, or a folder.
    - weights: ``checkpoint`` for those of the folder, or ``random:SEED``.
    - dtype: the type of activations and of weights that are not fp8.
    - flag: the flag whose value is `name`, for errors.

    Raises InputError if a file or tensor is missing, truncated or of the wrong shape, and if memory does not
    suffice.
    """
    spec = load_model(name, flag)
    source = _source(spec, name, weights, device, dtype)
    if fp8:
        check_runs(device, dtype)
    need = weight_bytes(_empty(spec, shard, fp8), dtype)
    check_fits(f"model {spec.name}", need, device, "take a smaller model or dtype")
    try:
        return build(spec, source, shard, fp8)
    except torch.OutOfMemoryError:
        raise InputError(f"model {spec.name}: must fit on {device} with {need / 1e9:.1f} GB") from None


def weight_bytes(model: torch.nn.Module, dtype: torch.dtype) -> int:
    """The bytes of all parameters: one byte per fp8 weight, and the size of `dtype` per other weight."""
    return sum(p.numel() * (p.itemsize if p.dtype == FP8 else dtype.itemsize) for p in model.parameters())


def _source(
    spec: ModelSpec, name: str, weights: str, device: torch.device, dtype: torch.dtype
) -> WeightSource:
    kind, _, seed = weights.partition(":")
    if kind == "random" and seed.isdigit():
        return RandomWeights(int(seed), device, dtype)
    if weights != "checkpoint":
        raise InputError(f"--weights: must be 'checkpoint' or 'random:SEED', given {weights!r}")
    if not is_folder(name):
        raise InputError(f"--checkpoint: must be a folder with config.json and .safetensors, given {name!r}")
    checkpoint = CheckpointFolder(Path(name), device, dtype)
    if spec.tie_word_embeddings:
        checkpoint.check_tied()
    return checkpoint


def load_head(name: str, weights: str, target: Model) -> HeadModel:
    """Loads an EAGLE-3 head for a target. Its matrices are fp8 if those of the target are.

    - name: the folder of the head, or ``eagle3`` for random weights.
    - weights: see `load`.

    Raises InputError for another kind of head, for more than one rank, and for the reasons of `load`.
    """
    draft = head_of(name, target.spec)
    assert draft is not None
    if draft.name != "eagle3" or draft.features != 3 or target.shard.size > 1:
        raise InputError(
            f"--draft: {name}: must be an EAGLE-3 head of three features on one device to be run here"
        )
    source = _source(draft.model, name, weights, target.device, target.dtype)
    with torch.device("meta"):
        head = HeadModel(draft.model, target.spec)
        if isinstance(target.layers[0].qkv, Fp8Linear):
            quantise(head)
    newer_names = isinstance(source, CheckpointFolder) and source.whole("midlayer.hidden_norm.weight") is None
    fill(head, head_pieces(head, "layers.0" if newer_names else "midlayer"), source)
    head.embedding = target.embedding
    vocab = draft.model.vocab_size
    most = target.spec.vocab_size
    head.to_target = torch.arange(vocab, device=target.device) * (most // vocab)
    if isinstance(source, CheckpointFolder):
        to_target = torch.arange(vocab)
        offsets = source.whole("d2t")
        if offsets is not None:
            fits = offsets.shape == to_target.shape
            to_target = to_target + offsets.cpu().long() if fits else to_target[:0]
        distinct = {token for token in to_target.tolist() if 0 <= token < most}
        if len(distinct) < vocab:
            raise InputError(
                f"{name}: d2t: must add up to {vocab} different tokens of {target.spec.name}'s {most}"
            )
        head.to_target = to_target.to(target.device)
    return head.eval()


def head_of(name: str, target: ModelSpec) -> Eagle | None:
    """The EAGLE head with this name; None if the name is that of a complete model.

    - name: a folder with a config.json, or a kind of draft such as ``eagle3``.
    """
    if not name.startswith("eagle") and not is_folder(name):
        return None
    draft = make_draft(name, target, Precision(weight_format("bf16"), kv_format("bf16")), 1, parse_kv("full"))
    return draft if isinstance(draft, Eagle) else None
