"""A server that `advise` names in addition to its choice, or because there is no choice, with the command
line that starts it.
"""

from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.one_server import line_of, serve
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.servers.base import MODEL


@dataclass(frozen=True, slots=True)
class Alternative:
    """A configuration that a reader may prefer to the choice. text: a sentence, without its full stop,
    about the configuration and its cost. servers: number of servers to start behind a router. line: the
    command line of one of these servers; None if the engine of the question has none.
    """

    text: str
    servers: int
    line: str | None

    @classmethod
    def of(cls, text: str, query: AdviseQuery, point: PricedPoint, seats: int | None = None) -> "Alternative":
        """The alternative that consists of the servers of a point. seats: sequences that one server runs
        at once; None means the batch of the point.
        """
        lines = serve(query, point, seats)
        line = None if lines is None else line_of(lines, point)
        if lines is not None and line is None and not lines.lines:
            text += "".join(f" ({note})" for note in lines.notes if "--model-path" in note)
        if line is not None and f" {MODEL} " in f"{line} ":
            text += f" ({MODEL} stands for such a checkpoint)"
        return cls(text, point.layout.replicas, line)


@dataclass(frozen=True, slots=True)
class BetterChange:
    """A change of the question that gives much better servers than the choice.

    flags: the change as command-line flags. gain: how many times better the servers are than the choice,
    by the objective.
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
    """The draft with its KV method and its length: ``eagle3, gamma 3``. A method that reads the full cache
    is left out.
    """
    if not point.gamma:
        return "no draft"
    draft = point.candidate.scenario.draft
    method = draft.kv.label().partition(",")[0]
    name = draft.name if method == "full" else f"{draft.name} {method}"
    return f"{name}, gamma {point.gamma}"


def per_gpu(point: PricedPoint) -> float:
    """Tokens per second and GPU; GPUs that the layout leaves idle count too."""
    layout = point.layout
    return layout.replicas * point.batch / point.tpot_s / layout.gpus
