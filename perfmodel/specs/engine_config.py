"""What serving engines take: vLLM's ``--speculative-config`` and SGLang's flags, as schemas that refuse anything else.

vLLM: docs.vllm.ai, ``SpeculativeConfig``; `num_speculative_tokens_per_batch_size` is ``[[lo, hi, K], ...]`` with both
ends included, K = 0 is off. The five-item form ``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` is proposed, not yet served.
SGLang: docs.sglang.ai, server arguments. Both as of the packages of 2025.
"""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Whole = Annotated[int, Field(strict=True, ge=0, le=2**40)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VLLMConfig(_Strict):
    """``vllm serve --speculative-config``, the part that a schedule decides."""

    method: Literal["ngram", "draft_model", "eagle", "eagle3", "medusa", "mtp"]
    model: str | None = Field(None, min_length=1)
    num_speculative_tokens: Annotated[int, Field(strict=True, ge=1, le=1024)]
    num_speculative_tokens_per_batch_size: tuple[tuple[Whole, Whole, Whole], ...] = Field(min_length=1)
    draft_tensor_parallel_size: Annotated[int, Field(strict=True, ge=1)] | None = None
    prompt_lookup_max: Annotated[int, Field(strict=True, ge=1)] | None = None
    parallel_drafting: bool | None = None

    @model_validator(mode="after")
    def _covers(self) -> "VLLMConfig":
        if self.method in ("draft_model", "eagle", "eagle3", "medusa") and not self.model:
            raise ValueError(f"model must name the draft of method {self.method}")
        rows = self.num_speculative_tokens_per_batch_size
        if rows[0][0] != 1 or any(low > high for low, high, _ in rows):
            raise ValueError("ranges must start at batch size 1, each with its lower end first")
        if any(after[0] != before[1] + 1 for before, after in pairwise(rows)):
            raise ValueError("ranges must follow each other without gap or overlap")
        if any(k > self.num_speculative_tokens for *_, k in rows):
            raise ValueError("no range may draft more than num_speculative_tokens")
        return self


class ContextTable(_Strict):
    """The proposed five-item form: ``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` rows that tile batches x contexts once."""

    rows: tuple[tuple[Whole, Whole, Whole, Whole, Whole], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _tiles(self) -> "ContextTable":
        spans = sorted({row[2:4] for row in self.rows})
        if spans[0][0] != 0 or any(low > high for low, high in spans):
            raise ValueError("context ranges must start at 0, each with its lower end first")
        if any(after[0] != before[1] + 1 for before, after in pairwise(spans)):
            raise ValueError("context ranges must follow each other without gap or overlap")
        ends = set()
        for span in spans:
            rows = [row for row in self.rows if row[2:4] == span]
            if rows[0][0] != 1 or any(after[0] != before[1] + 1 for before, after in pairwise(rows)):
                raise ValueError("batch ranges must start at 1 and follow each other without gap or overlap")
            if any(low > high for low, high, *_ in rows):
                raise ValueError("each batch range must have its lower end first")
            ends.add(rows[-1][1])
        if len(ends) != 1:
            raise ValueError("every context range must reach the same batch size")
        return self


class SGLangFlags(_Strict):
    """SGLang's server arguments for speculation; one draft length for all batches."""

    speculative_algorithm: Literal["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"]
    speculative_draft_model_path: str | None = Field(None, min_length=1)
    speculative_num_steps: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    speculative_eagle_topk: Annotated[int, Field(strict=True, ge=1, le=256)] | None = None
    speculative_num_draft_tokens: Annotated[int, Field(strict=True, ge=2, le=1025)]

    @model_validator(mode="after")
    def _complete(self) -> "SGLangFlags":
        if self.speculative_algorithm == "NGRAM":
            return self
        if self.speculative_num_steps is None or self.speculative_eagle_topk is None:
            raise ValueError("steps and top-k must be given for a draft model")
        if self.speculative_eagle_topk == 1 and self.speculative_num_draft_tokens != self.speculative_num_steps + 1:
            raise ValueError("a chain verifies one token more than it has steps")
        if self.speculative_algorithm != "NEXTN" and not self.speculative_draft_model_path:
            raise ValueError("the draft's path must be given")
        return self

    def arguments(self) -> list[str]:
        """As words of a command line."""
        words = []
        for name, value in self.model_dump(exclude_none=True).items():
            words += ["--" + name.replace("_", "-"), str(value)]
        return words
