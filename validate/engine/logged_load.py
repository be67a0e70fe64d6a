"""The load that the log of a server states: the medians of its lines under load.

The server is partly idle in the first and the last interval of a load, so their throughput is too low for the
number of running requests. They are used only if no load has an interval between them. If the lines of a load
agree, the server counts as busy in all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from perfmodel.validate.engine.load_lines import LoadLine, load_lines

ALIKE = 0.1
"""Largest relative difference of the speeds in two intervals that agree."""


@dataclass(frozen=True, slots=True)
class LoggedLoad:
    """The lines of a log that are used. Its figures are medians over these lines, as `LoadLine` defines them.

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
    for line in load_lines(text):
        if line.busy:
            load.append(line)
        elif load:
            yield load
            load = []
    if load:
        yield load
