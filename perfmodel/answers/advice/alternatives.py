"""Servers that `advise` names in addition to its choice, or instead of a choice. Each server has a command
line.
"""

from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.gguf_head import UNTESTED
from perfmodel.answers.advice.one_server import line_of, nodes_text, on_load_text, serve
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.servers.base import MODEL
from perfmodel.answers.question import Named
from perfmodel.specs import GPUSpec, weight_format
from perfmodel.specs.models.checkpoints import main_format


@dataclass(frozen=True, slots=True)
class Alternative:
    """A configuration that a reader may prefer to the choice.

    - text: a sentence about the configuration and its cost, without a full stop.
    - servers: number of servers to start behind a router.
    - line: the command line of one of these servers; None if there is no line for the engine of the question.
    """

    text: str
    servers: int
    line: str | None

    @classmethod
    def of(cls, text: str, query: AdviseQuery, point: PricedPoint, seats: int | None = None) -> "Alternative":
        """The alternative with the servers of a point (a layout with draft, batch and draft length).

        - seats: largest number of sequences that one server runs at once; None means the batch of the point.
        """
        lines = serve(query, point, seats)
        line = None if lines is None else line_of(lines, point)
        if lines is not None and line is None and not lines.lines:
            text += "".join(f" ({note})" for note in lines.notes if "--model-path" in note)
        if line is not None and f" {MODEL} " in f"{line} ":
            text += f" ({MODEL} stands for such a checkpoint)"
        if not _computes(query, point.candidate.scenario.machine.gpu):
            text += " (this GPU has no FP8 arithmetic: such weights save only memory and its bandwidth)"
        if line is not None and (nodes := nodes_text(query, point)):
            text += f" ({nodes})"
        if lines is not None and line is not None and UNTESTED in lines.notes:
            text += f" ({UNTESTED})"
        if line is not None and (on_load := on_load_text(query, point)):
            text += f" ({on_load})"
        return cls(text, point.layout.replicas, line)


def _computes(query: AdviseQuery, gpu: GPUSpec) -> bool:
    """Whether a device computes in the format of the question's weights if these are FP8."""
    weights = main_format(Named.of(query).precision(query).weights.name)
    return weight_format(weights).base.compute != "fp8" or "fp8" in gpu.peak


@dataclass(frozen=True, slots=True)
class BetterChange:
    """A change of the question that gives much better servers than the choice.

    - flags: the change as command-line flags.
    - gain: how many times better these servers are than the choice according to the objective.
    - gain_interval: the 90 % interval of the gain. Its width is that of the speedup of the draft on these
      servers. None means that there is no draft, or that no error is known.
    """

    flags: str
    draft: str | None
    gamma: int
    batch: int
    gain: float
    gain_interval: tuple[float, float] | None = None


def point_text(point: PricedPoint) -> str:
    """A layout with its draft and batch in words, such as ``2 x TP 4, eagle3, gamma 3, batch 38``."""
    return f"{point.layout.label()}, {draft_text(point)}, {batch_text(point.batch, point.layout.replicas)}"


def batch_text(batch: int, servers: int) -> str:
    """The batch of a server in words: ``batch 8``, or ``batch 8 per server`` if there are several."""
    return f"batch {batch}{' per server' if servers > 1 else ''}"


def draft_text(point: PricedPoint) -> str:
    """The draft with its KV method and draft length in words, such as ``eagle3, gamma 3``. The method `full`
    is left out.
    """
    if not point.gamma:
        return "no draft"
    draft = point.candidate.scenario.draft
    method = draft.kv.label().partition(",")[0]
    name = draft.name if method == "full" else f"{draft.name} {method}"
    return f"{name}, gamma {point.gamma}"


def per_gpu(point: PricedPoint) -> float:
    """Tokens per second per GPU. GPUs that the layout leaves idle are counted too."""
    layout = point.layout
    return layout.replicas * point.batch / point.tpot_s / layout.gpus
