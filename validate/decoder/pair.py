"""The target and the draft of a run, as the flags of the command line name them, and their device and
formats.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from perfmodel.errors import InputError, refuse
from perfmodel.reading import is_folder
from perfmodel.specs import ModelSpec, load_model, weight_format
from perfmodel.validate.decoder.heads import head_of, load_head
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.shard import RankShard, for_draft, local_device
from perfmodel.validate.decoder.weights import load

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64, "fp8": torch.bfloat16}
"""Format of the weights -> type of the activations."""
SMALL_PARAMS = 50_000_000
"""Number of parameters below which a model's operators are too short for several threads."""


class PairFormats(NamedTuple):
    """The formats of weights and cache, with the names that predictions use."""

    weights: str
    kv: str


class LoadedPair(NamedTuple):
    """A target and its draft model. The draft is None for self-drafts and n-grams."""

    target: Model
    draft: Model | None


@dataclass(frozen=True)
class ModelPair:
    """The target and the draft of a run.

    - target: the name of a bundled model, or the folder of a checkpoint.
    - draft: ``self``, ``ngram[:LONGEST]``, or the name or folder of a model or head.
    - weights, draft_weights: ``checkpoint`` or ``random:SEED``. None means the checkpoint for a folder, and
      ``random:0`` for a bundled model.
    - dtype: the type of all weights and activations. With fp8 weights, activations are bf16.
    - tp, draft_tp: the number of tensor-parallel ranks of the target and of the draft.
    - kv_dtype: the type of all caches (see `Request`).
    """

    target: str
    weights: str | None = None
    draft: str = "self"
    draft_weights: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    tp: int = 1
    draft_tp: int | None = None
    kv_dtype: str = "auto"

    @property
    def folder(self) -> Path | None:
        """The folder of the target; None for a bundled model."""
        return Path(self.target) if is_folder(self.target) else None

    @property
    def draft_model(self) -> str | None:
        """The name or folder of the draft model; None without a second model."""
        if self.draft == "self" or self.draft.partition(":")[0] == "ngram":
            return None
        return self.draft

    def is_head(self, target: ModelSpec) -> bool:
        """Whether the draft is an EAGLE head of the target instead of a complete model."""
        return self.draft_model is not None and head_of(self.draft_model, target) is not None

    @property
    def kind(self) -> str:
        """The value of `Request.draft`."""
        return "model" if self.draft_model else self.draft

    def place(self) -> torch.device:
        """The device of this process. Raises InputError if the device must be CUDA and torch finds no CUDA
        device.
        """
        cuda = torch.cuda.is_available()
        if self.device == "cuda" and not cuda:
            raise refuse("--device", None, "auto or cpu where torch sees no CUDA device", self.device)
        return local_device("cuda" if cuda and self.device != "cpu" else "cpu")

    def precision(self) -> str:
        """The type of the weights: fp32, bf16, fp64 or fp8. The default is bf16 on CUDA and fp32 on a CPU."""
        if self.dtype == "auto":
            return "bf16" if self.place().type == "cuda" else "fp32"
        return self.dtype

    @property
    def formats(self) -> PairFormats:
        """The formats of weights and cache. On a CPU, fp8 is a weight-only format."""
        precision = self.precision()
        weights = weight_format(precision)
        if self.place().type == "cpu":
            weights = weights.within(("bf16", "fp32"))
        activations = "bf16" if precision == "fp8" else precision
        return PairFormats(weights.name, activations if self.kv_dtype == "auto" else self.kv_dtype)

    @property
    def spelled(self) -> str:
        """The precision as output shows it: the type of the weights and, if it was stated, of the KV
        cache.
        """
        precision = self.precision()
        return precision if self.kv_dtype == "auto" else f"{precision}, {self.kv_dtype} KV cache"

    def set_threads(self, threads: int | None) -> None:
        """Sets the number of CPU threads.

        - threads: None for one thread with a small target, and for torch's default with a large target.
        """
        if threads is not None or load_model(self.target).total_params < SMALL_PARAMS:
            torch.set_num_threads(threads or 1)

    def models(self, shard: RankShard) -> LoadedPair:
        """Loads the models, or the part of each on this rank. Raises InputError if a model cannot be
        loaded.
        """
        device = self.place()
        dtype = DTYPES[self.precision()]
        fp8 = self.precision() == "fp8"
        weights = self.weights or _default_weights(self.target)
        target = load(self.target, weights, device, dtype, shard, fp8=fp8)
        if self.draft_model is None:
            return LoadedPair(target, None)
        draft_weights = self.draft_weights or _default_weights(self.draft_model)
        if self.is_head(target.spec):
            return LoadedPair(target, load_head(self.draft_model, draft_weights, target))
        check_vocabulary(target.spec, load_model(self.draft_model, "--draft"))
        draft_shard = for_draft(shard, shard.size if self.draft_tp is None else self.draft_tp)
        draft = load(self.draft_model, draft_weights, device, dtype, draft_shard, "--draft", fp8)
        return LoadedPair(target, draft)


def check_vocabulary(target: ModelSpec, draft: ModelSpec) -> None:
    """Raises InputError for a draft model with another vocabulary size than its target."""
    if target.vocab_size != draft.vocab_size:
        tokens = f"the {target.vocab_size} tokens of {target.name}"
        raise InputError(f"--draft: {draft.name} must have {tokens}, given {draft.vocab_size}")


def _default_weights(name: str) -> str:
    return "checkpoint" if is_folder(name) else "random:0"
