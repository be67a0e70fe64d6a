"""What one ``generate`` command asks for, and the models and requests that it resolves to."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from perfmodel.errors import refuse
from perfmodel.validate.decoder import kv
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.parallel import for_draft, local_device
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.sampling import Sampling, scripted_weights
from perfmodel.validate.decoder.shard import Shard
from perfmodel.validate.decoder.tokens import end_tokens
from perfmodel.validate.decoder.weights import load

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}
LEAST_BUDGET = 64


@dataclass(frozen=True)
class Job:
    """name: of a bundled model, or a checkpoint's folder; draft: ``self``, ``ngram[:LONGEST]``, or a model likewise.

    draft_kv: methods to compare; empty for every one that the decoder runs. alpha: scripted acceptance.
    middle_kv, inner_gamma: see `Request`; the draft then reads its whole cache where draft_kv is empty.
    """

    name: str
    gamma: int
    batch: int
    new_tokens: int
    weights: str | None = None
    draft: str = "self"
    draft_weights: str | None = None
    draft_kv: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    alpha: float | None = None
    attention: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    tp: int = 1
    draft_tp: int | None = None
    middle_kv: str | None = None
    inner_gamma: int = 0

    @property
    def folder(self) -> Path | None:
        """The checkpoint's folder, None for a bundled name."""
        return Path(self.name) if Path(self.name).is_dir() else None

    @property
    def separate_draft(self) -> str | None:
        """The draft model's name or folder, None where no second model is run."""
        return None if self.draft == "self" or self.draft.partition(":")[0] == "ngram" else self.draft

    def place(self) -> torch.device:
        """The device of this process. Raises InputError for CUDA where torch sees none."""
        cuda = torch.cuda.is_available()
        if self.device not in ("auto", "cpu", "cuda") or (self.device == "cuda" and not cuda):
            raise refuse("--device", None, "auto, cpu or (where torch sees one) cuda", self.device)
        return local_device("cuda" if cuda and self.device != "cpu" else "cpu")

    def precision(self) -> str:
        """fp32, bf16 or fp64; by default bf16 on CUDA and fp32 on a CPU."""
        if self.dtype == "auto":
            return "bf16" if self.place().type == "cuda" else "fp32"
        if self.dtype not in DTYPES:
            raise refuse("--dtype", None, f"auto, {', '.join(DTYPES)}", self.dtype)
        return self.dtype

    def models(self, shard: Shard) -> tuple[Model, Model | None]:
        """Target and separate draft, this rank's part of each."""
        device, dtype = self.place(), DTYPES[self.precision()]
        target = load(self.name, self.weights or _default_weights(self.name), device, dtype, shard)
        if self.separate_draft is None:
            return target, None
        part = for_draft(shard, shard.size if self.draft_tp is None else self.draft_tp)
        weights = self.draft_weights or _default_weights(self.separate_draft)
        return target, load(self.separate_draft, weights, device, dtype, part, "--draft")

    def requests(self, context: int) -> list[Request]:
        """One request for each draft cache, for prompts of `context` tokens."""
        kind = "model" if self.separate_draft else self.draft
        methods = self.draft_kv or every_method(context, self.gamma)
        if self.draft.startswith("ngram"):
            methods = ("full",)
        elif self.middle_kv is not None:
            methods = self.draft_kv or ("full",)
        return [
            Request(
                batch=self.batch,
                context=context,
                new_tokens=self.new_tokens,
                gamma=self.gamma,
                draft=kind,
                draft_kv=method,
                sampling=self.sampling,
                script=None if self.alpha is None else tuple(scripted_weights(self.alpha, self.gamma)),
                attention=self.attention,
                eos=end_tokens(self.folder),
                middle_kv=self.middle_kv,
                inner_gamma=self.inner_gamma,
            )
            for method in methods
        ]


def every_method(context: int, gamma: int) -> tuple[str, ...]:
    """Every draft cache that the decoder runs; those with a budget get an eighth of the context."""
    budget = max(context // 8, LEAST_BUDGET, 8 * gamma)
    spelled = {"full": "full", "retrieval": f"retrieval:{budget},every=8", "quantized": "quantized,bits=4"}
    return tuple(spelled.get(name, f"{name}:{budget}") for name in kv.names())


def _default_weights(name: str) -> str:
    return "checkpoint" if Path(name).is_dir() else "random:0"
