"""Reads the published prompt times of llama.cpp, and predicts the time of a prompt."""

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
"""Name of the table of prompt times in ``results/published``."""
PROMPT_TOKENS = 512
"""Largest number of prompt tokens in a pass (the default of ``--ubatch-size``)."""
REACHED = "Apple"
"""The vendor whose device files state the rate of a measured prompt as the peak."""


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A published prompt time.

    - time_ms: the time of the whole prompt.
    - drafted_ms: the time of the same prompt with an MTP draft; None if it was not measured.
    """

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
        """The prompt as a public run without output tokens."""
        blank: dict[str, Any] = dict.fromkeys(f.name for f in dataclasses.fields(PublicRun))
        of_engine = {"kind": RunKind.PROMPT, "engine": LLAMACPP, "engine_version": "", "tensor_parallel": 1}
        alone = {"expert_parallel": 1, "data_parallel": 1, "batch": 1, "context_tokens": self.input_tokens}
        stated = {name: value for name, value in dataclasses.asdict(self).items() if name in blank}
        return PublicRun(**{**blank, "draft": "", "lengths": "", **of_engine, **alone, **stated})


def prompts() -> Iterable[PublicRun]:
    """The published prompts as public runs."""
    return (row.run() for row in read_published(PROMPTS, PromptRow))


def prompt_s(scenario: Scenario, tokens: float) -> float:
    """The predicted seconds of the prefill of one prompt, without other requests."""
    return prompt_alone_s(scenario, tokens, engine_requests(scenario), PROMPT_TOKENS, drafts=False)


def prompt_peak_share(gpu: GPUSpec, share: float) -> float:
    """The share of the bf16 peak that the GEMMs of a prompt reach.

    - share: the share of the int8 peak that they reach, because quantised weights are multiplied as 8-bit
      integers. For a device without an int8 peak, it is the share of the bf16 peak.
    """
    if gpu.vendor == REACHED:
        return 1.0
    integers = gpu.peak_flops("int8") if "int8" in gpu.peak else gpu.peak_flops("bf16")
    return min(share * integers / gpu.peak_flops("bf16"), 1.0)
