"""llama.cpp's prompts: the published ones, the time of one, and the share of the peak that it reaches."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perfmodel.queueing.prompts import engine_requests, prompt_alone_s
from perfmodel.specs import LLAMACPP, GPUSpec
from perfmodel.specs.published import read_published
from perfmodel.speculation import Scenario
from perfmodel.validate.studies.public_runs import PublicRun, RunKind

PROMPTS = "llamacpp_prompts"
"""Table of prompts in ``results/published``."""
PROMPT_TOKENS = 512
"""Tokens of a pass over a prompt (``--ubatch-size``)."""
REACHED = "Apple"
"""The maker whose device files state as the peak what a prompt reached."""


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One row of the table of prompts. time_ms: of the whole prompt; drafted_ms: of the same with MTP."""

    id: str
    source_id: str
    source: str
    model: str
    hardware: str
    weights: str
    kv_dtype: str
    input_tokens: float
    time_ms: float
    drafted_ms: float | None
    date: str
    notes: str

    def run(self) -> PublicRun:
        """The prompt as a run without tokens."""
        blank: dict[str, Any] = dict.fromkeys(f.name for f in dataclasses.fields(PublicRun))
        of_engine = {"kind": RunKind.PROMPT, "engine": LLAMACPP, "engine_version": "", "tensor_parallel": 1}
        alone = {"expert_parallel": 1, "data_parallel": 1, "batch": 1, "context_tokens": self.input_tokens}
        stated = {name: value for name, value in dataclasses.asdict(self).items() if name in blank}
        return PublicRun(**{**blank, "draft": "", "lengths": "", **of_engine, **alone, **stated})


def prompts() -> Iterable[PublicRun]:
    """The published prompts."""
    return (row.run() for row in read_published(PROMPTS, PromptRow))


def prompt_s(scenario: Scenario, tokens: float) -> float:
    """Seconds of a prompt that is read alone."""
    return prompt_alone_s(scenario, tokens, engine_requests(scenario), PROMPT_TOKENS, drafts=False)


def prompt_peak_share(gpu: GPUSpec, share: float) -> float:
    """Share of the bf16 peak that the GEMMs of a prompt reach.

    Quantised weights are multiplied in 8-bit integers, so `share` is of the int8 peak where a device has one.
    """
    if gpu.vendor == REACHED:
        return 1.0
    integers = gpu.peak_flops("int8") if "int8" in gpu.peak else gpu.peak_flops("bf16")
    return min(share * integers / gpu.peak_flops("bf16"), 1.0)
