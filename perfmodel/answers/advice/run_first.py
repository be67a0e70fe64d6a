"""Chooses which of several servers to run first, if no acceptance is known or nothing fits in memory."""

from collections.abc import Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange
from perfmodel.answers.advice.likely import draft_to_measure
from perfmodel.answers.advice.servers.base import MODEL
from perfmodel.answers.advice.switch_to_measure import SwitchToMeasure
from perfmodel.answers.advice.ways import Way
from perfmodel.answers.point.remedies import switch_text
from perfmodel.answers.question.typical import TypicalGain


def run_first(
    query: AdviseQuery,
    changes: Sequence[BetterChange],
    likely: tuple[TypicalGain, ...],
    to_measure: SwitchToMeasure | None,
) -> str:
    """A sentence (without a full stop) that names the server to run first, and the reason. The first choice
    is a server with a change that is better without a draft. The second is a server whose draft gains even
    with a low acceptance for its kind. The last is the server without a draft.
    """
    for change in changes:
        if change.draft is None:
            server = f"with {change.flags} and no draft"
            return (
                f"Run the server {server} first: it is {change.gain:.2f} times the choice at any acceptance"
            )
    gains = "it gains even with a low acceptance for its kind"
    if (sure := draft_to_measure(query, likely)) is not None:
        return f"Run the server with {sure.draft} first: {gains}"
    if to_measure is not None:
        server = f"{to_measure.gain.draft} and {switch_text(to_measure.changes)}"
        return f"Run the server with {server} first: {gains}"
    return "Run the server without a draft first: no draft is certain to gain"


def first_change(ways: Sequence[Way], alternatives: Sequence[Alternative]) -> str | None:
    """A sentence (without a full stop) that names the server to run first if nothing fits in memory. This is
    the server of the first change that keeps the devices of the question and has a complete command line. The
    result is None if there is no such change, or only one command line.
    """
    lines = [each for each in alternatives if each.line is not None]
    if len(lines) <= 1:
        return None
    complete = [each for each in lines if each.line is not None and MODEL not in each.line.split()]
    for way in ways:
        if way.on_given_devices and any(each.text.startswith(way.opening) for each in complete):
            return f"Run the server {way.text} first: it needs no other GPUs"
    return None
