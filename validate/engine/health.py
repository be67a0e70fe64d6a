"""Whether a server is as fast as predicted, and which half is off: acceptance, step, or load.

Times are those of the server's own log or page of metrics. The prediction is the answer of `whatif` for the
same running requests, context and draft length, with the acceptance that the server counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from statistics import median

from perfmodel.answers.point.whatif import WhatIf
from perfmodel.answers.text import seconds
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.pastes.llama_server_log import logged

_VLLM = re.compile(
    r"Avg generation throughput: (?P<decode>[\d.]+) tokens/s, Running: (?P<running>\d+) reqs, "
    r"Waiting: (?P<waiting>\d+) reqs"
)
_SGLANG = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+).*?gen throughput \(token/s\): (?P<decode>[\d.]+)"
    r"(?:, #queue-req: (?P<waiting>\d+))?"
)
_PAGE = "vllm:request_time_per_output_token_seconds"


class Half(Enum):
    """The part of a server that is off."""

    NONE = "healthy"
    ACCEPTANCE = "the acceptance is off"
    STEP = "the iteration is off"
    LOAD = "the load is off"


@dataclass(frozen=True, slots=True)
class Sign:
    """Words in a log that explain a slow server."""

    pattern: re.Pattern[str]
    half: Half
    meaning: str


SIGNS = (
    Sign(
        re.compile(r"enforce_eager=True|[Cc]udagraph is disabled|disable_cuda_graph=True|cuda graph: False"),
        Half.STEP,
        "CUDA graphs are off (eager mode): the host launches every kernel",
    ),
    Sign(
        re.compile(r"CUDAGraphMode\.PIECEWISE"),
        Half.STEP,
        "CUDA graphs are piecewise: the host launches the attention of every layer",
    ),
    Sign(
        re.compile(r"preempted|Retract requests|KV cache pool is full"),
        Half.LOAD,
        "requests are preempted: the KV cache is full",
    ),
)
"""Log lines of vLLM (config and scheduler) and SGLang (server_args, decode lines, retraction)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds per output token of a running request, and requests that wait; the medians of a log's lines."""

    tpot_s: float
    waiting: float

    @classmethod
    def of(cls, where: str, text: str) -> "Pace | None":
        """From a log, or a page with the histogram of TPOT; None if neither states a pace."""
        lines = [m for pattern in (_VLLM, _SGLANG) for m in pattern.finditer(text)]
        busy = [m for m in lines if int(m["running"]) and float(m["decode"])]
        if busy:
            paces = [int(m["running"]) / float(m["decode"]) for m in busy]
            return cls(median(paces), median([float(m["waiting"] or 0) for m in busy]))
        alone = [answer.tpot_s for answer in logged(where, text) if answer.tpot_s is not None]
        if alone:
            return cls(median(alone), 0.0)
        total, count = (
            sum(value for _, value in samples(where, text, f"{_PAGE}_{part}")) for part in ("sum", "count")
        )
        if not count:
            return None
        waiting = sum(value for _, value in samples(where, text, "vllm:num_requests_waiting"))
        return cls(total / count, waiting)


@dataclass(frozen=True, slots=True)
class Health:
    """What the server takes against what it should take; `half` names the part that is off."""

    half: Half
    lines: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return self.half is Half.NONE


def health(
    pace: Pace, predicted: WhatIf, gained: float, expected: tuple[float, float] | None, text: str
) -> Health:
    """Compares a pace with the prediction.

    predicted: at the server's running requests, context, draft length and acceptance. gained: tokens per
    iteration that the server counts. expected: their expected interval; None if none is known. text: the log.
    """
    iteration_s = pace.tpot_s * gained
    low, high = predicted.iteration_interval or (predicted.iteration_s, predicted.iteration_s)
    times = iteration_s / predicted.iteration_s
    measured = f"measured {seconds(pace.tpot_s)} per token, {seconds(iteration_s)} per iteration"
    should = f"predicted {seconds(predicted.iteration_s)} per iteration ({seconds(low)} to {seconds(high)})"
    signs = list(_signs(text))
    half = _half(iteration_s > high, expected is not None and gained < expected[0], pace, signs)
    lines = [f"health: {half.value}: {measured}; {should}"]
    if half is Half.ACCEPTANCE and expected is not None:
        lines.append(
            f"{gained:.2f} tokens per iteration, below the expected {expected[0]:.2f} to {expected[1]:.2f}: "
            "check the draft's checkpoint, the chat template, sampling and context"
        )
    if iteration_s > high:
        lines.append(f"an iteration takes {times:.1f} times as long as predicted")
    named = [sign.meaning for sign in signs]
    if half in (Half.STEP, Half.LOAD):
        waiting = [f"{pace.waiting:.0f} requests wait"] if half is Half.LOAD and pace.waiting else []
        lines.append(f"seen in the log: {'; '.join(named + waiting) or 'nothing that explains it'}")
    if half is Half.STEP and not named:
        lines.append(
            "not seen, but possible: a batch outside the captured sizes, a power or clock limit, all-reduce "
            "over PCIe, a draft launched by the host"
        )
    return Health(half, tuple(lines))


def _half(slow: bool, rejected: bool, pace: Pace, signs: list[Sign]) -> Half:
    """A slow iteration decides before a low acceptance; waiting or preempted requests make it the load's."""
    if slow:
        loaded = pace.waiting >= 1 or any(sign.half is Half.LOAD for sign in signs)
        return Half.LOAD if loaded and not any(sign.half is Half.STEP for sign in signs) else Half.STEP
    return Half.ACCEPTANCE if rejected else Half.NONE


def _signs(text: str) -> Iterator[Sign]:
    return (sign for sign in SIGNS if sign.pattern.search(text))
