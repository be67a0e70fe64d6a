"""Chooses which of several servers to run first if no acceptance is known."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange
from perfmodel.answers.advice.likely import draft_to_measure
from perfmodel.answers.advice.switch_to_measure import SwitchToMeasure
from perfmodel.answers.point.remedies import switch_text
from perfmodel.answers.question.typical import TypicalGain


@dataclass(frozen=True, slots=True)
class RunFirst:
    """The server to run first.

    - text: a sentence (without a full stop) that names the server, and the reason.
    - line: its command line; None if there is none for the engine.
    """

    text: str
    line: str | None


def run_first(
    query: AdviseQuery,
    changes: Sequence[tuple[BetterChange, Alternative]],
    likely: tuple[TypicalGain, ...],
    to_measure: SwitchToMeasure | None,
    plain: str | None,
    with_draft: str | None,
) -> RunFirst:
    """The server to run first. The first choice is a server with a change that is better without a draft, or
    with a draft of known acceptance. The second is a server whose draft gains even with a low acceptance for
    its kind. The last is the server without a draft. A server without a command line is passed over.

    - plain: the command line of the choice.
    - with_draft: the command line of the server with the draft to measure. It equals `plain` if the engine's
      server has no such draft.
    """
    for change, alternative in changes:
        if alternative.line is not None:
            draft, which = ("no draft", " at any acceptance") if change.draft is None else (change.draft, "")
            better = f"it is {change.gain:.2f} times the choice{which}"
            text = f"Run the server with {change.flags} and {draft} first: {better}"
            return RunFirst(text, alternative.line)
    gains = "it gains even with a low acceptance for its kind"
    sure = draft_to_measure(query, likely)
    if sure is not None and with_draft not in (None, plain):
        return RunFirst(f"Run the server with {sure.draft} first: {gains}", with_draft)
    if to_measure is not None and (line := to_measure.alternative.line) is not None:
        server = f"{to_measure.gain.draft} and {switch_text(to_measure.changes)}"
        return RunFirst(f"Run the server with {server} first: {gains}", line)
    if sure is None:
        why = _why_no_draft(likely)
    else:
        why = f"{sure.draft} would gain, but no command line with it is known for this engine"
    return RunFirst(f"Run the server without a draft first: {why}", None)


def _why_no_draft(likely: tuple[TypicalGain, ...]) -> str:
    """The reason to start without a draft. A draft that gains even with a low acceptance for its kind cannot
    be started if no weights of it are known.
    """
    gaining = next((gain.draft for gain in likely if gain.worth_measuring), None)
    if gaining is None:
        return "no draft is certain to gain"
    return f"{gaining} would gain, but no weights of it are known for this model (--draft-path names them)"
