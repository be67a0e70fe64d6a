"""The lines of a server's log that state its throughput under load.

A server averages each line over an interval. The first and the last interval of a load are partly idle: their
throughput is too low for their running requests. They count only where a load has no interval between them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

_VLLM = re.compile(
    r"(?:Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, )?"
    r"Avg generation throughput: (?P<decode>[\d.]+) tokens/s, Running: (?P<running>\d+) reqs, "
    r"(?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (?P<waiting>\d+) reqs"
)
_SGLANG = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+).*?gen throughput \(token/s\): (?P<decode>[\d.]+)"
    r"(?:, #queue-req: (?P<waiting>\d+))?(?P<prompt>)"
)


@dataclass(frozen=True, slots=True)
class LoadLine:
    """One line: requests that run and wait, and tokens per second of answers and prompts."""

    running: int
    waiting: float
    decode_tokens_per_s: float
    prompt_tokens_per_s: float

    @classmethod
    def of(cls, match: re.Match[str]) -> "LoadLine":
        return cls(
            int(match["running"]),
            float(match["waiting"] or 0),
            float(match["decode"]),
            float(match["prompt"] or 0),
        )

    @property
    def busy(self) -> bool:
        return self.running > 0 and self.decode_tokens_per_s > 0.0

    @property
    def tpot_s(self) -> float:
        """Seconds per output token of a running request."""
        return self.running / self.decode_tokens_per_s


@dataclass(frozen=True, slots=True)
class LoggedLoad:
    """The lines of a log that count. partly_idle: whether each is the first or the last one of its load."""

    lines: tuple[LoadLine, ...]
    partly_idle: bool

    @classmethod
    def of(cls, text: str) -> "LoggedLoad | None":
        """From a log; None if it has no line under load."""
        loads = list(_loads(text))
        inner = tuple(line for load in loads for line in load[1:-1])
        if inner:
            return cls(inner, partly_idle=False)
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


def _loads(text: str) -> Iterator[list[LoadLine]]:
    """The busy lines of each load: an idle line ends one."""
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
    vllm = [LoadLine.of(match) for match in _VLLM.finditer(text)]
    return vllm or [LoadLine.of(match) for match in _SGLANG.finditer(text)]
