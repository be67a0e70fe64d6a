"""The lines in the log of a vLLM or SGLang server that state its throughput. Each line has averages over an
interval.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from perfmodel.validate.engine.cache_size import printed_cache_tokens

_VLLM = re.compile(
    r"(?:Avg prompt throughput: (?P<prompt>\d+\.?\d*) tokens/s, )?"
    r"Avg generation throughput: (?P<decode>\d+\.?\d*) tokens/s, Running: (?P<running>\d+) reqs, "
    r"(?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (?P<waiting>\d+) reqs"
    r"(?:.*?KV cache usage: (?P<used>\d+\.?\d*)%)?"
)
_SGLANG = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[^\]\n]*\] )?"
    r"Decode batch.*?#running-req: (?P<running>\d+)(?:.*?#(?:full )?token: (?P<cached>\d+))?"
    r".*?gen throughput \(token/s\): (?P<decode>\d+\.?\d*)"
    r"(?:, #queue-req: (?P<waiting>\d+))?"
)
_SGLANG_PROMPT = re.compile(r"Prefill batch.*?#new-token: (?P<tokens>\d+)")


@dataclass(frozen=True, slots=True)
class LoadLine:
    """One line of a log. `cached_tokens` and `used_share` are None if the line does not state them.

    - running, waiting: the numbers of running and of waiting requests.
    - decode_tokens_per_s, prompt_tokens_per_s: the tokens of all requests together.
    - cached_tokens: the cached tokens of all running requests.
    - used_share: the share of the cache that these tokens use.
    """

    running: int
    waiting: float
    decode_tokens_per_s: float
    prompt_tokens_per_s: float
    cached_tokens: float | None = None
    used_share: float | None = None

    @property
    def busy(self) -> bool:
        """Whether requests decoded in the interval."""
        return self.running > 0 and self.decode_tokens_per_s > 0.0

    @property
    def tpot_s(self) -> float:
        """Seconds per output token of each running request."""
        return self.running / self.decode_tokens_per_s


def load_lines(text: str) -> list[LoadLine]:
    """The lines of vLLM in a log, or else those of SGLang; empty for any other text."""
    return list(_vllm_lines(text)) or list(_sglang_lines(text))


def has_sglang_lines(text: str) -> bool:
    """Whether a text contains lines of SGLang."""
    return _SGLANG.search(text) is not None


def _vllm_lines(text: str) -> Iterator[LoadLine]:
    """The lines of vLLM. They state the share of the cache in use, and one earlier line states its size."""
    cache_tokens = printed_cache_tokens(text)
    for line in _VLLM.finditer(text):
        used_share = float(line["used"]) / 100 if line["used"] else None
        cached_tokens = None
        if cache_tokens is not None and used_share is not None:
            cached_tokens = cache_tokens * used_share
        yield LoadLine(
            running=int(line["running"]),
            waiting=float(line["waiting"]),
            decode_tokens_per_s=float(line["decode"]),
            prompt_tokens_per_s=float(line["prompt"] or 0),
            cached_tokens=cached_tokens,
            used_share=used_share,
        )


def _sglang_lines(text: str) -> Iterator[LoadLine]:
    """The lines of SGLang about decoding. The prompt tokens per second are those of the lines about prefill
    since the previous line, over the time between the two lines; 0 if a line does not state its time.
    """
    previous_end = 0
    previous_time: datetime | None = None
    for line in _SGLANG.finditer(text):
        time = _time(line["time"])
        prompts = _SGLANG_PROMPT.findall(text, previous_end, line.start())
        passed_s = (time - previous_time).total_seconds() if time and previous_time else 0.0
        yield LoadLine(
            running=int(line["running"]),
            waiting=float(line["waiting"] or 0),
            decode_tokens_per_s=float(line["decode"]),
            prompt_tokens_per_s=sum(map(int, prompts)) / passed_s if passed_s > 0 else 0.0,
            cached_tokens=float(line["cached"]) if line["cached"] else None,
        )
        previous_end = line.end()
        previous_time = time


def _time(text: str | None) -> datetime | None:
    """The time at the beginning of a line; None if there is no valid time."""
    with suppress(ValueError):
        return datetime.fromisoformat(text or "")
    return None
