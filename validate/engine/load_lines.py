"""The lines of a server's log that state its throughput under load.

Each line has averages over an interval. The server is partly idle in the first and the last interval of a
load, so their throughput is too low for the number of running requests. They are used only if no load has an
interval between them. If the lines of a load agree, the server counts as busy in all of them.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

_VLLM = re.compile(
    r"(?:Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, )?"
    r"Avg generation throughput: (?P<decode>[\d.]+) tokens/s, Running: (?P<running>\d+) reqs, "
    r"(?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (?P<waiting>\d+) reqs"
    r"(?:.*?KV cache usage: (?P<used>[\d.]+)%)?(?P<cached>)"
)
_SGLANG = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[^\]\n]*\] )?"
    r"Decode batch.*?#running-req: (?P<running>\d+)(?:.*?#(?:full )?token: (?P<cached>\d+))?"
    r".*?gen throughput \(token/s\): (?P<decode>[\d.]+)"
    r"(?:, #queue-req: (?P<waiting>\d+))?(?P<prompt>)(?P<used>)"
)
"""`_VLLM` and `_SGLANG` match the line of each engine. Both have the groups that `LoadLine.of` reads. A group
that is always empty stands for a value that the engine does not print.
"""
_SGLANG_PROMPT = re.compile(r"Prefill batch.*?#new-token: (?P<tokens>\d+)")
ALIKE = 0.1
"""Largest relative difference of the speeds in two intervals that agree."""
_CACHE = re.compile(r"GPU KV cache size: ([\d,]*\d) tokens")


@dataclass(frozen=True, slots=True)
class LoadLine:
    """One line of a log. `cached_tokens` and `used_share` are None if the line does not state them.

    - running, waiting: the numbers of running and of waiting requests.
    - cached_tokens: the cached tokens of all running requests.
    - used_share: the share of the cache that these tokens use.
    """

    running: int
    waiting: float
    decode_tokens_per_s: float
    prompt_tokens_per_s: float
    cached_tokens: float | None = None
    used_share: float | None = None

    @classmethod
    def of(cls, match: re.Match[str], cache_tokens: float | None = None) -> "LoadLine":
        """The figures of a matched line.

        - cache_tokens: the size of the cache, in tokens; None if it is not known.
        """
        cached = float(match["cached"]) if match["cached"] else None
        used_share = float(match["used"]) / 100 if match["used"] else None
        if cache_tokens is not None and used_share is not None:
            cached = cache_tokens * used_share
        return cls(
            int(match["running"]),
            float(match["waiting"] or 0),
            float(match["decode"]),
            float(match["prompt"] or 0),
            cached,
            used_share,
        )

    @property
    def busy(self) -> bool:
        return self.running > 0 and self.decode_tokens_per_s > 0.0

    @property
    def tpot_s(self) -> float:
        """Seconds per output token of each running request."""
        return self.running / self.decode_tokens_per_s


@dataclass(frozen=True, slots=True)
class LoggedLoad:
    """The lines of a log that are used.

    - partly_idle: whether every line is the first or the last one of its load.
    """

    lines: tuple[LoadLine, ...]
    partly_idle: bool

    @classmethod
    def of(cls, text: str) -> "LoggedLoad | None":
        """The lines of a log that are used; None if it has no line under load."""
        loads = list(_loads(text))
        inner = tuple(line for load in loads for line in load[1:-1])
        if inner:
            return cls(inner, partly_idle=False)
        for load in loads:
            if len(load) > 1 and _agree(load):
                return cls(tuple(load), partly_idle=False)
        edges = tuple(line for load in loads for line in load)
        return cls(edges, partly_idle=True) if edges else None

    @property
    def tpot_s(self) -> float:
        return median(line.tpot_s for line in self.lines)

    @property
    def waiting(self) -> float:
        return median(line.waiting for line in self.lines)

    @property
    def prompt_tokens_per_s(self) -> float:
        return median(line.prompt_tokens_per_s for line in self.lines)

    @property
    def running(self) -> float:
        return median(line.running for line in self.lines)

    @property
    def context(self) -> float | None:
        """Median number of cached tokens per running request; None if no line states them."""
        stated = [line.cached_tokens / line.running for line in self.lines if line.cached_tokens]
        return median(stated) if stated else None

    def context_of(self, cache_tokens: float) -> float | None:
        """Median number of cached tokens per running request, which follows from the used share of the cache.
        None if no line states the share.

        - cache_tokens: the size of the cache.
        """
        shares = [line.used_share / line.running for line in self.lines if line.used_share]
        return cache_tokens * median(shares) if shares else None


def _agree(load: list[LoadLine]) -> bool:
    """Whether all lines have the same number of running requests and about the same speed (`ALIKE`)."""
    paces = [line.tpot_s for line in load]
    same_requests = len({line.running for line in load}) == 1
    return same_requests and max(paces) <= min(paces) * (1.0 + ALIKE)


def _loads(text: str) -> Iterator[list[LoadLine]]:
    """The busy lines of each load. An idle line ends a load."""
    load: list[LoadLine] = []
    for line in _lines(text):
        if line.busy:
            load.append(line)
        elif load:
            yield load
            load = []
    if load:
        yield load


def _lines(text: str) -> list[LoadLine]:
    size = _CACHE.search(text)
    cache_tokens = float(size[1].replace(",", "")) if size else None
    vllm = [LoadLine.of(match, cache_tokens) for match in _VLLM.finditer(text)]
    return vllm or list(_lines_of_sglang(text))


def _lines_of_sglang(text: str) -> Iterator[LoadLine]:
    """The lines about decoding. Each line has the prompt tokens per second since the line before it."""
    end = 0
    before: datetime | None = None
    for match in _SGLANG.finditer(text):
        line = LoadLine.of(match)
        now = _time(match["time"])
        prompts = [int(tokens) for tokens in _SGLANG_PROMPT.findall(text, end, match.start())]
        passed_s = (now - before).total_seconds() if now and before else 0.0
        yield replace(line, prompt_tokens_per_s=sum(prompts) / passed_s) if passed_s > 0 else line
        end = match.end()
        before = now


def _time(text: str | None) -> datetime | None:
    """The time at the beginning of a line; None if there is no valid time."""
    with suppress(ValueError):
        return datetime.fromisoformat(text or "")
    return None
