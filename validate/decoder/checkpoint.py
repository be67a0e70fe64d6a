"""Reads weights from a local Hugging Face folder."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from perfmodel.errors import InputError, refuse, shortened
from perfmodel.reading import check_regular, parse_json, read_text
from perfmodel.specs.boundary.files import read_mapping
from perfmodel.validate.decoder.pieces import Piece


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
