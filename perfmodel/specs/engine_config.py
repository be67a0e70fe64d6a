"""What serving engines take: vLLM's ``--speculative-config``, SGLang's flags and the file of its adaptive mode.

Schemas that refuse anything else, of the versions in `CHECKED`, against whose own parsers every kind of line was tried
(tests/engine/lines.json, made by ``make test-engine``). The five-item form ``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` is a
proposal that no engine takes.
"""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from perfmodel.specs.strict import Strict

CHECKED = {"vllm": "0.32.0", "sglang": "0.5.23"}
"""Engine -> the version whose parser took the lines."""
LOOKUP = (2, 4)
"""Fewest and most tokens that an n-gram draft matches, unless told (prompt look-up's range; Saxena 2023)."""
Whole = Annotated[int, Field(strict=True, ge=0, le=2**40)]


class VLLMConfig(Strict):
    """``vllm serve --speculative-config``, the part that a table of draft lengths decides.

    `num_speculative_tokens_per_batch_size` is ``[[lo, hi, K], ...]`` with both ends included, K = 0 is off; it turns
    the dynamic mode on, which captures graphs for every K, so that one constant K goes without. `prompt_lookup_*` is
    the match window of n-grams.
    """

    method: Literal["ngram", "draft_model", "eagle", "eagle3", "dflash", "dspark", "mtp"]
    model: str | None = Field(None, min_length=1)
    num_speculative_tokens: Annotated[int, Field(strict=True, ge=1, le=1024)]
    num_speculative_tokens_per_batch_size: tuple[tuple[Whole, Whole, Whole], ...] | None = Field(None, min_length=1)
    draft_tensor_parallel_size: Annotated[int, Field(strict=True, ge=1)] | None = None
    prompt_lookup_max: Annotated[int, Field(strict=True, ge=1)] | None = None
    prompt_lookup_min: Annotated[int, Field(strict=True, ge=1)] | None = None
    parallel_drafting: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "VLLMConfig":
        if self.method not in ("ngram", "mtp") and not self.model:
            raise ValueError(f"model must name the draft of method {self.method}")
        low, high = self.prompt_lookup_min, self.prompt_lookup_max
        if (self.method == "ngram") != (low is not None and high is not None) or (low or 1) > (high or low or 1):
            raise ValueError("prompt_lookup_min and prompt_lookup_max belong to ngram, both, the smaller first")
        if self.num_speculative_tokens_per_batch_size is not None:
            self._covers(self.num_speculative_tokens_per_batch_size)
        return self

    def _covers(self, rows: tuple[tuple[int, int, int], ...]) -> None:
        if rows[0][0] != 1 or any(low > high for low, high, _ in rows):
            raise ValueError("ranges must start at batch size 1, each with its lower end first")
        if any(after[0] != before[1] + 1 for before, after in pairwise(rows)):
            raise ValueError("ranges must follow each other without gap or overlap")
        if any(k > self.num_speculative_tokens for *_, k in rows):
            raise ValueError("no range may draft more than num_speculative_tokens")


class ContextTable(Strict):
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


class SGLangFlags(Strict):
    """SGLang's server arguments for speculation.

    One draft length, or (`speculative_adaptive_config`, EAGLE heads only) the file of `AdaptiveConfig`. NGRAM drafts a
    tree unless its breadth is 1. A DFLASH block is all that is verified, a DSPARK block all but its first token.
    window and sink: what an EAGLE or MTP head attends to, StreamingLLM's selection; the EAGLE-3 heads of Llama
    keep no sink.
    """

    speculative_algorithm: Literal["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK"]
    speculative_draft_model_path: str | None = Field(None, min_length=1)
    speculative_num_steps: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    speculative_eagle_topk: Annotated[int, Field(strict=True, ge=1, le=256)] | None = None
    speculative_num_draft_tokens: Annotated[int, Field(strict=True, ge=2, le=1025)]
    speculative_ngram_max_bfs_breadth: Annotated[int, Field(strict=True, ge=1)] | None = None
    speculative_dspark_block_size: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    speculative_draft_window_size: Annotated[int, Field(strict=True, ge=1)] | None = None
    speculative_draft_sink_size: Annotated[int, Field(strict=True, ge=0)] | None = None
    speculative_adaptive_config: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _complete(self) -> "SGLangFlags":
        if self.speculative_algorithm == "NGRAM":
            if self.speculative_ngram_max_bfs_breadth != 1:
                raise ValueError("a chain of n-grams has a breadth of 1")
            return self
        if self.speculative_algorithm in ("DFLASH", "DSPARK"):
            return self._block()
        if self.speculative_num_steps is None or self.speculative_eagle_topk is None:
            raise ValueError("steps and top-k must be given for a draft model")
        if self.speculative_eagle_topk == 1 and self.speculative_num_draft_tokens != self.speculative_num_steps + 1:
            raise ValueError("a chain verifies one token more than it has steps")
        if self.speculative_algorithm != "NEXTN" and not self.speculative_draft_model_path:
            raise ValueError("the draft's path must be given")
        if self.speculative_adaptive_config and self.speculative_algorithm == "STANDALONE":
            raise ValueError("only EAGLE heads take a length by batch size")
        if self.speculative_draft_sink_size is not None and self.speculative_draft_window_size is None:
            raise ValueError("a sink needs a window")
        return self

    def _block(self) -> "SGLangFlags":
        if not self.speculative_draft_model_path:
            raise ValueError("the draft's path must be given")
        wanted = self.speculative_num_draft_tokens - 1 if self.speculative_algorithm == "DSPARK" else None
        if self.speculative_dspark_block_size != wanted:
            raise ValueError("a DSpark block, and no other, is one token less than is verified")
        return self

    def arguments(self) -> list[str]:
        """As words of a command line."""
        words = []
        for name, value in self.model_dump(exclude_none=True).items():
            if name == "speculative_adaptive_config":
                words.append("--speculative-adaptive")
            words += ["--" + name.replace("_", "-"), str(value)]
        return words


class _Slot(Strict):
    candidate_steps: tuple[Whole] = Field(description="one: the length does not adapt within a range")


class AdaptiveConfig(Strict):
    """The file of ``--speculative-adaptive-config``: the batch size from which on a length holds -> that length."""

    slots: dict[Annotated[int, Field(ge=1)], _Slot] = Field(min_length=1)

    @classmethod
    def of(cls, rows: tuple[tuple[int, int], ...]) -> "AdaptiveConfig":
        """From (first batch size, length) pairs."""
        return cls(slots={low: _Slot(candidate_steps=(tokens,)) for low, tokens in rows})

    def file(self) -> dict[str, Any]:
        """As the engine reads it: JSON keys are text."""
        return {str(low): {"candidate_steps": list(slot.candidate_steps)} for low, slot in sorted(self.slots.items())}
