"""Chooses which of several servers to run first if no acceptance is known, and says what decides."""

from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.likely import draft_to_measure, exists_for
from perfmodel.answers.advice.margins import BreakEven
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
    likely: tuple[TypicalGain, ...],
    would_pay: tuple[BreakEven, ...],
    to_measure: SwitchToMeasure | None,
    plain: str | None,
    with_draft: str | None,
) -> RunFirst:
    """The server to run first. It has a draft that gains even with a low acceptance for its kind, if a
    command line can start such a draft, perhaps with an engine flag. Otherwise, it has no draft.

    - would_pay: the break-even acceptance of each draft.
    - plain: the command line of the choice.
    - with_draft: the command line of the server with the draft to measure. It equals `plain` if the engine's
      server has no such draft.
    """
    sure = draft_to_measure(query, likely)
    if sure is not None and with_draft not in (None, plain):
        least = next((even.smallest_alpha for even in would_pay if even.draft == sure.draft), None)
        decides = "if the draft makes it faster" if least is None else f"if alpha is at least {least:.2f}"
        return RunFirst(_to_decide(sure.draft, sure.draft, decides), with_draft)
    if to_measure is not None and (line := to_measure.alternative.line) is not None:
        draft = to_measure.gain.draft
        server = f"{draft} and {switch_text(to_measure.changes)}"
        return RunFirst(_to_decide(server, draft, "if it is faster"), line)
    if sure is None:
        why = _why_no_draft(query, likely)
    else:
        why = f"{sure.draft} would gain, but no command line with it is known for this engine"
    return RunFirst(f"Until a draft is measured, run the server without a draft: {why}", None)


def _to_decide(server: str, draft: str, decides: str) -> str:
    """What to run, what to measure, and what decides.

    - server: the server to run first, by what it has.
    - decides: when to keep this server.
    """
    run = f"To decide, run the first server below (with {server}) and measure the acceptance of {draft}"
    gains = "which gains even with a low acceptance for its kind"
    return f"{run}, {gains}; keep this server {decides}, otherwise run the one without a draft"


def _why_no_draft(query: AdviseQuery, likely: tuple[TypicalGain, ...]) -> str:
    """The reason to start without a draft. A draft that gains even with a low acceptance for its kind cannot
    be started if no weights of it are known.
    """
    gaining = next((gain.draft for gain in likely if gain.worth_measuring), None)
    if gaining is None:
        return "no draft is certain to gain"
    if exists_for(query, gaining):
        return f"{gaining} would gain, but no command line with it is known for this engine"
    return f"{gaining} would gain, but no such head is known for this model (--draft-path names one)"
