"""Whether a server is as fast as predicted, and which half is off: acceptance, step, or load.

Times are those of the server's own log or page of metrics. The prediction is the answer of `whatif` for the
same running requests, context and draft length, with the acceptance that the server counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.text import seconds
from perfmodel.specs.engines.backends import attention_of
from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.load_lines import LoggedLoad
from perfmodel.validate.engine.pastes.llama_server_log import logged
from perfmodel.validate.engine.signs import Half, Sign, signs_in

_CAPTURED_TOKENS = re.compile(
    r"max_(?:cudagraph_)?capture_size\W+(\d+)|cudagraph_capture_sizes\W+([\d, ]+)\]"
)
_CAPTURED_REQUESTS = re.compile(r"cuda[-_]graph[-_]max[-_]bs\W+\d+")
SAME_TEXTS = 0.1
"""Difference of accepted tokens that counts as none if an expectation has no spread (rows of a file)."""
MOST_OF_IT = 2 / 3
"""Share of the excess over the prediction from which prompts explain it."""
LEAST_SHARE = 0.05
"""Share of the time from which prompts are named."""
OFF_SHARE = 0.25
"""Share of the time from which prompts put a load off: a choice. A healthy vLLM (CPU) spent 15 % on them."""
_TPOT = "vllm:request_time_per_output_token_seconds"
"""Seconds per output token, by request."""
_GAPS = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
"""Seconds of an iteration, as a client sees them; the second is the name before 0.11."""
_BACKEND = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) (?:attention )?backend"
    r"|Use (\w+) (?:attention )?backend by default|\battention_backend=['\"](\w+)['\"]"
)
"""The attention backend in a log of vLLM or SGLang."""
_FALLBACKS = ("FLEX_ATTENTION", "XFORMERS", "TORCH_SDPA")
"""Backends of vLLM that no prediction assumes: general kernels, for shapes that the others do not run."""
_FLASH = "flash-attn"
_FLASH_VERSION = re.compile(r"Using FlashAttention version (\d)")


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds per output token of a running request, and requests that wait.

    partly_idle: whether the log has no interval that lies inside a load.
    """

    tpot_s: float
    waiting: float
    prompt_tokens_per_s: float = 0.0
    partly_idle: bool = False

    @classmethod
    def of(cls, where: str, text: str, gained: float = 1.0) -> "Pace | None":
        """From a log, or a page of metrics; None if neither states a pace. gained: tokens per iteration."""
        load = LoggedLoad.of(text)
        if load is not None:
            return cls(load.tpot_s, load.waiting, load.prompt_tokens_per_s, load.partly_idle)
        alone = [answer.tpot_s for answer in logged(where, text) if answer.tpot_s is not None]
        if alone:
            return cls(median(alone), 0.0)
        tpot_s = _mean(where, text, _TPOT)
        if tpot_s is None:
            gaps = [_mean(where, text, name) for name in _GAPS]
            iteration_s = next((gap_s for gap_s in gaps if gap_s is not None), None)
            tpot_s = None if iteration_s is None else iteration_s / gained
        if tpot_s is not None:
            return cls(tpot_s, total(where, text, "vllm:num_requests_waiting"))
        throughput = total(where, text, "sglang:gen_throughput")
        running = total(where, text, "sglang:num_running_reqs")
        if throughput and running:
            return cls(running / throughput, total(where, text, "sglang:num_queue_reqs"))
        return None


def _mean(where: str, text: str, histogram: str) -> float | None:
    """The mean of a histogram of a page; None without it."""
    count = total(where, text, f"{histogram}_count")
    return total(where, text, f"{histogram}_sum") / count if count else None


@dataclass(frozen=True, slots=True)
class Health:
    """What the server takes against what it should take; `half` names the part that is off."""

    half: Half
    lines: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is known to be off."""
        return self.half in (Half.NONE, Half.OPEN)

    @property
    def assumed(self) -> str:
        """What the advice on the draft length assumes of a server that is off."""
        return "the counted acceptance" if self.half is Half.ACCEPTANCE else "a server as fast as predicted"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a server should do at its own load.

    predicted: at its running requests, context, draft length and acceptance. gained: tokens per iteration
    that it counts, and `usual` their expected interval; None if none is known. prompt_token_s: seconds of a
    prompt token.
    """

    predicted: WhatIf
    gained: float
    usual: tuple[float, float] | None
    prompt_token_s: float

    @property
    def interval(self) -> tuple[float, float]:
        """Seconds of an iteration."""
        return self.predicted.iteration_interval or (self.predicted.iteration_s,) * 2

    @property
    def rejected(self) -> bool:
        """Whether fewer tokens are accepted than expected, by more than the texts of a server differ."""
        return is_rejected(self.usual, self.gained)

    @property
    def times_fewer(self) -> float:
        """The least expected tokens per iteration over those counted; 1 where none are missing."""
        if self.usual is None or not self.rejected:
            return 1.0
        return self.usual[0] / self.gained


def is_rejected(usual: tuple[float, float] | None, gained: float) -> bool:
    """Whether fewer tokens are accepted per iteration than expected, by more than the texts of a server
    differ. usual: the least and the most; None if they are not known.
    """
    if usual is None:
        return False
    low, high = usual
    return gained < (low if low < high else low * (1.0 - SAME_TEXTS))


def usual_text(usual: tuple[float, float]) -> str:
    """Expected tokens per iteration as printed: a range, or one number if both ends are alike."""
    return " to ".join(dict.fromkeys(f"{tokens:.2f}" for tokens in usual))


@dataclass(frozen=True, slots=True)
class _Measured:
    """A pace next to its prediction, in seconds of an iteration. prompt_share: share of the time that prompts
    take, 0 to 1.
    """

    iteration_s: float
    predicted_s: float
    low_s: float
    high_s: float
    prompt_share: float

    @classmethod
    def of(cls, pace: Pace, expectation: Expectation) -> "_Measured":
        low_s, high_s = expectation.interval
        return cls(
            iteration_s=pace.tpot_s * expectation.gained,
            predicted_s=expectation.predicted.iteration_s,
            low_s=low_s,
            high_s=high_s,
            prompt_share=min(pace.prompt_tokens_per_s * expectation.prompt_token_s, 1.0),
        )

    @property
    def times_slower(self) -> float:
        """The iteration over the predicted one."""
        return self.iteration_s / self.predicted_s

    @property
    def too_slow(self) -> bool:
        """Whether an iteration takes longer than its interval."""
        return self.iteration_s > self.high_s

    @property
    def as_predicted_without_prompts(self) -> bool:
        """Whether the time that prompts do not take lies below the end of the interval."""
        return self.iteration_s * (1.0 - self.prompt_share) <= self.high_s

    @property
    def explained_by_prompts(self) -> bool:
        """Whether prompts take all, or most, of what exceeds the prediction."""
        prompts_s = self.iteration_s * self.prompt_share
        excess_s = self.iteration_s - self.predicted_s
        return self.as_predicted_without_prompts or prompts_s >= MOST_OF_IT * excess_s

    @property
    def slowed_by_usual_prompts(self) -> bool:
        """Whether prompts explain all of it and take no more of the time than those of a healthy server."""
        return self.as_predicted_without_prompts and self.prompt_share < OFF_SHARE


def health(pace: Pace, expectation: Expectation, text: str) -> Health:
    """Compares a pace with the prediction. text: the log."""
    predicted = expectation.predicted
    measured = _Measured.of(pace, expectation)
    signs = [
        *signs_in(text),
        *_outside_captured(text, predicted),
        *_other_backend(text, predicted),
    ]
    slow = measured.too_slow and not (measured.slowed_by_usual_prompts and _is_unhindered(pace, signs))
    half = _half_off(slow, measured, expectation, pace, signs)
    lines = [
        _verdict_line(half, pace, measured),
        *_rejection_lines(expectation),
        *_time_lines(measured, slow),
        *_cause_lines(half, pace, measured, signs),
    ]
    return Health(half, tuple(lines))


def _half_off(
    slow: bool, measured: _Measured, expectation: Expectation, pace: Pace, signs: list[Sign]
) -> Half:
    """The half that is off. A slow step is not blamed if rejected tokens cost more than it does, nor if only
    partly idle intervals show it.
    """
    half = _half(slow, measured.explained_by_prompts, expectation.rejected, pace, signs)
    if half is not Half.STEP:
        return half
    if expectation.times_fewer > measured.times_slower:
        return Half.ACCEPTANCE
    if pace.partly_idle and not any(sign.decides for sign in signs):
        return Half.OPEN
    return half


def _verdict_line(half: Half, pace: Pace, m: _Measured) -> str:
    """The first line: the half that is off, and the times."""
    taken = f"measured {seconds(pace.tpot_s)} per token, {seconds(m.iteration_s)} per iteration"
    interval = f"{seconds(m.low_s)} to {seconds(m.high_s)}"
    return f"health: {half.value}: {taken}; predicted {seconds(m.predicted_s)} per iteration ({interval})"


def _rejection_lines(expectation: Expectation) -> Iterator[str]:
    """Where to look if fewer tokens are accepted than expected."""
    if expectation.rejected and expectation.usual is not None:
        usual = usual_text(expectation.usual)
        yield (
            f"{expectation.gained:.2f} tokens per iteration, below the expected {usual}: "
            "check the draft's checkpoint, the chat template, sampling and context"
        )


def _time_lines(m: _Measured, slow: bool) -> Iterator[str]:
    """An iteration outside its interval. slow: whether its time is more than usual prompts explain."""
    if m.too_slow:
        yield f"an iteration takes {m.times_slower:.1f} times as long as predicted"
        if not slow:
            prompts_s = m.iteration_s * m.prompt_share
            yield f"prompts take {seconds(prompts_s)} of it; the rest is as long as predicted"
    if m.iteration_s < m.low_s:
        yield (
            f"faster than predicted: an iteration takes {m.times_slower:.2f} times as long; are the model, "
            "its format and the device those of the server?"
        )


def _cause_lines(half: Half, pace: Pace, m: _Measured, signs: list[Sign]) -> Iterator[str]:
    """What the log shows of a slow step or load, and what it may not show."""
    named = [sign.meaning for sign in signs if sign.half is not Half.ACCEPTANCE]
    rejecting = [sign.meaning for sign in signs if sign.half is Half.ACCEPTANCE]
    if half is Half.ACCEPTANCE and rejecting:
        yield f"seen in the log: {'; '.join(rejecting)}"
    if half in (Half.STEP, Half.LOAD):
        load = _load_in_words(pace, m.prompt_share) if half is Half.LOAD else []
        yield f"seen in the log: {'; '.join(named + load) or 'nothing that explains it'}"
    if half is Half.STEP and not named:
        yield (
            "not seen, but possible: a batch outside the captured sizes, fewer threads, a power or clock "
            "limit, all-reduce over PCIe, a draft launched by the host"
        )
    if half is Half.OPEN:
        yield (
            "the log has no interval inside a load, only its first and last ones: these are partly idle "
            "and look slow; let a load run for three lines of the log and ask again"
        )


def _is_unhindered(pace: Pace, signs: list[Sign]) -> bool:
    """Whether no request waits, and the log has no sign of a slow step or a full cache."""
    return pace.waiting < 1 and not any(sign.decides for sign in signs)


def _half(slower: bool, explained: bool, rejected: bool, pace: Pace, signs: list[Sign]) -> Half:
    """A slow iteration decides before a low acceptance. Waiting or preempted requests, or prompts that
    explain the time that is missing, make it the load's, unless the log has a sign of a slow step.
    """
    if not slower:
        return Half.ACCEPTANCE if rejected else Half.NONE
    loaded = explained or pace.waiting >= 1 or any(sign.half is Half.LOAD and sign.decides for sign in signs)
    slow = any(sign.half is Half.STEP and sign.decides for sign in signs)
    return Half.LOAD if loaded and not slow else Half.STEP


def _load_in_words(pace: Pace, share: float) -> list[str]:
    words = []
    if pace.waiting:
        words.append(f"{pace.waiting:.0f} requests wait")
    if share >= LEAST_SHARE:
        words.append(
            f"{pace.prompt_tokens_per_s:.0f} prompt tokens per second take {share:.0%} of the time: smaller "
            "chunks of prompts, or another server for them"
        )
    return words


def _other_backend(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """A sign if attention runs on another backend than the predicted one."""
    expected = predicted.query.attention_backend
    version = _FLASH_VERSION.search(text)
    if version and expected and expected.startswith(_FLASH) and expected != f"{_FLASH}{version[1]}":
        meaning = (
            f"attention runs on {_FLASH}{version[1]}, and {expected} was predicted (--attention-backend)"
        )
        yield Sign(_FLASH_VERSION, Half.STEP, meaning)
    printed = _BACKEND.search(text)
    attention = attention_of(predicted.calibration.stack)
    if printed is None or expected is None or attention is None:
        return
    backend = next(word for word in printed.groups() if word)
    known = [*(of_engine.word for of_engine in attention.backends.values()), *_FALLBACKS]
    expected_word = attention.backends[expected].word or expected
    if backend in known and backend != expected_word:
        meaning = f"attention runs on {backend}, and {expected_word} was predicted (--attention-backend)"
        yield Sign(_BACKEND, Half.STEP, meaning)


def _outside_captured(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """A sign if the running batch is larger than the largest captured graph, in tokens (vLLM) or requests
    (SGLang).
    """
    running = predicted.query.batch
    tokens = running * ((predicted.query.gamma or 0) + 1)
    for pattern, count, unit in (
        (_CAPTURED_TOKENS, tokens, "tokens"),
        (_CAPTURED_REQUESTS, running, "requests"),
    ):
        words = [word for line in pattern.finditer(text) for word in re.findall(r"\d+", line[0])]
        largest = max(map(int, words), default=None)
        if largest is not None and count > largest:
            meaning = f"an iteration has {count} {unit}, and the largest captured CUDA graph {largest}"
            yield Sign(pattern, Half.STEP, meaning)
