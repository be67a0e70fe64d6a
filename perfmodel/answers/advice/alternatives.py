"""A server to consider as an alternative to the choice of `advise`, or if there is no choice, with the
line that starts it.
"""

from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.one_server import line_of, serve
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.servers.base import MODEL


@dataclass(frozen=True, slots=True)
class Alternative:
    """text: what it is and what it costs, as a sentence without its full stop. servers: number of servers
    to start behind a router. line: the command line of one of them; None if the engine of the question has
    none.
    """

    text: str
    servers: int
    line: str | None

    @classmethod
    def of(cls, text: str, query: AdviseQuery, point: PricedPoint, seats: int | None = None) -> "Alternative":
        """The servers of a point. seats: sequences that one server runs at once; by default its batch."""
        lines = serve(query, point, seats)
        line = None if lines is None else line_of(lines, point)
        if lines is not None and line is None and not lines.lines:
            text += "".join(f" ({note})" for note in lines.notes if "--model-path" in note)
        if line is not None and f" {MODEL} " in f"{line} ":
            text += f" ({MODEL} stands for such a checkpoint)"
        return cls(text, point.layout.replicas, line)


@dataclass(frozen=True, slots=True)
class BetterChange:
    """A change of the question with which its servers are much better than the choice.

    flags: the change in the words of the command line. gain: gain over the choice, by the objective.
    """

    flags: str
    draft: str | None
    gamma: int
    batch: int
    gain: float


def point_text(point: PricedPoint) -> str:
    """A layout with its draft and batch: ``2 x TP 4, eagle3, gamma 3, batch 38``."""
    return f"{point.layout.label()}, {draft_text(point)}, batch {point.batch}"


def draft_text(point: PricedPoint) -> str:
    """The draft with its view of the cache and its length: ``eagle3, gamma 3``."""
    if not point.gamma:
        return "no draft"
    draft = point.candidate.scenario.draft
    method = draft.kv.label().partition(",")[0]
    name = draft.name if method == "full" else f"{draft.name} {method}"
    return f"{name}, gamma {point.gamma}"


def per_gpu(point: PricedPoint) -> float:
    """Tokens per second and GPU; idle GPUs count."""
    layout = point.layout
    return layout.replicas * point.batch / point.tpot_s / layout.gpus
