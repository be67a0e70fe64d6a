"""Loads weights from a local Hugging Face folder, or makes random weights from a seed. Each tensor is created
on its final device and in its final type.
"""

import zlib
from dataclasses import replace
from pathlib import Path

import torch

from perfmodel.errors import InputError
from perfmodel.reading import is_folder
from perfmodel.specs import ModelSpec, load_model
from perfmodel.validate.decoder.checkpoint import CheckpointFolder
from perfmodel.validate.decoder.fp8 import FP8, check_runs, quantise
from perfmodel.validate.decoder.memory import check_fits
from perfmodel.validate.decoder.model import Model, RoutedExperts
from perfmodel.validate.decoder.pieces import Piece, Pieces, pieces
from perfmodel.validate.decoder.shard import RankShard


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
    source = source_of(spec, name, weights, device, dtype)
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


def source_of(
    spec: ModelSpec, name: str, weights: str, device: torch.device, dtype: torch.dtype
) -> WeightSource:
    """The source of the weights of a model or head.

    - name, weights: see `load`.

    Raises InputError for an unknown value of `weights`, or a checkpoint that cannot be read.
    """
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
