"""Acceptance figures of llama.cpp. They are the ``timings`` in its server's answers (`draft_n`,
`draft_n_accepted`), or the lines of its log (`pastes.llama_server_log`).

The first token of an answer comes from the prompt's pass. Every iteration gains the accepted tokens and one
more.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts
from perfmodel.validate.engine.acceptance.counters import (
    AcceptanceSubject,
    Counted,
    CountedText,
    Counters,
    counts_no_draft,
)
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.pastes.llama_server_log import LoggedAnswer, logged
from perfmodel.validate.engine.text import floats, is_count, is_json, parse_objects
from perfmodel.validate.engine.timing import drafted_length

EARLY = 0.08
"""Largest difference of the mean draft from the full length, as a share of the full length."""
WORDS = ('"draft_n_accepted"', "draft acceptance", "#acc tokens")
CONVENTION = "llama.cpp timings: predicted_n and draft_n_accepted, iterations being what is left"
POSITIONS = "llama.cpp log: acceptance rate per position over all drafts (survival)"
LOGGED = "llama.cpp log: accepted tokens, and tokens of outputs; iterations are the rest"
TOTALS = "llama.cpp log: accepted tokens over drafts, since the start of the server"
_TOTALS = re.compile(
    r"statistics +(?P<kind>[\w-]+): .*?#gen drafts *= *(?P<drafts>\d+),.*?#gen tokens *= *(?P<drafted>\d+),"
    r" *#acc tokens *= *(?P<accepted>\d+)"
)
"""A line with the totals of a kind of draft since the start of the server."""


class AnswerCounts(NamedTuple):
    """Token counts of an answer.

    - decoded: all tokens after the first one.
    - drafted: the drafted tokens.
    - accepted: the drafted tokens that were accepted.
    """

    decoded: float
    drafted: float
    accepted: float

    @classmethod
    def total(cls, answers: Iterable["AnswerCounts"]) -> "AnswerCounts":
        """The sums over answers."""
        return cls(*map(sum, zip(*answers, strict=True)))

    @property
    def iterations(self) -> float:
        """Number of iterations. Each iteration gains the accepted tokens and one more."""
        return self.decoded - self.accepted


def read(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the row of an acceptance file. Raises InputError, also for drafts that stop early
    (``--draft-p-min``).
    """
    if not is_json(text):
        return _of_log(where, text, subject)
    counts = []
    prompts = []
    for answer in parse_objects(where, text):
        timings = answer.get("timings", answer)
        counts.append(_counts(where, timings))
        prompts.append(_prompt_tokens(timings))
    contexts = Contexts.of_requests(prompts, [answer.decoded for answer in counts])
    return CountedText([Counted(_alpha(where, subject.gamma, counts), contexts)], CONVENTION)


def _counts(where: str, timings: object) -> AnswerCounts:
    """The counts in the timings of an answer. Raises InputError if one is missing."""
    values = [value_at(timings, key) for key in ("predicted_n", "draft_n", "draft_n_accepted")]
    if not all(map(is_count, values)):
        raise refuse(where, "timings", "with counts predicted_n, draft_n and draft_n_accepted", values)
    predicted, drafted, accepted = values
    return AnswerCounts(predicted - 1, drafted, accepted)


def _prompt_tokens(timings: object) -> Any:
    """The tokens of the prompt, including cached tokens; None if they are not stated."""
    read_tokens = value_at(timings, "prompt_n")
    cached = value_at(timings, "cache_n")
    return read_tokens + cached if is_count(read_tokens) and is_count(cached) else read_tokens


def draft_length(text: str) -> int | None:
    """The draft length that follows from the counts of a log; None if it has no counts."""
    answers = [answer for answer in logged("log", text) if answer.drafts and answer.iterations]
    if not answers:
        totals = _totals(text)
        return None if totals is None else drafted_length(totals.drafted / totals.iterations)
    if any(answer.rates for answer in answers):
        return max(len(answer.rates) for answer in answers)
    drafted = sum(answer.drafts.drafted for answer in answers if answer.drafts)
    return drafted_length(drafted / sum(answer.iterations or 0.0 for answer in answers))


def _of_log(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates by position if the log prints them, and otherwise one constant rate. Raises InputError."""
    drafting = [answer for answer in logged(where, text) if answer.drafts and answer.drafts.drafted]
    totals = _totals(text)
    if totals is not None and not any(answer.decoding or answer.rates for answer in drafting):
        return CountedText([Counted(_alpha(where, subject.gamma, [totals]), None)], TOTALS)
    if not drafting:
        raise counts_no_draft(where)
    contexts = Contexts.of_requests(
        [answer.prompt.tokens if answer.prompt else None for answer in drafting],
        [answer.decoding.decoded if answer.decoding else None for answer in drafting],
    )
    if all(answer.rates for answer in drafting):
        return CountedText([Counted(_by_position(where, drafting), contexts)], POSITIONS)
    counts = [_logged_counts(where, answer) for answer in drafting]
    return CountedText([Counted(_alpha(where, subject.gamma, counts), contexts)], LOGGED)


def _totals(text: str) -> AnswerCounts | None:
    """The latest totals of the server's draft. None if no line states them, if nothing was drafted, or for
    kinds of draft that take turns.
    """
    lines = list(_TOTALS.finditer(text))
    if len({line["kind"] for line in lines}) != 1:
        return None
    drafts, drafted, accepted = floats(lines[-1].group("drafts", "drafted", "accepted"))
    return AnswerCounts(drafts + accepted, drafted, accepted) if drafts else None


def _logged_counts(where: str, answer: LoggedAnswer) -> AnswerCounts:
    """The counts of a request that drafted. Raises InputError if the log lacks its decoding time."""
    if answer.decoding is None or answer.drafts is None:
        raise InputError(f"{where}: eval time: must stand beside the acceptance: add the lines before it")
    return AnswerCounts(answer.decoding.decoded, answer.drafts.drafted, answer.drafts.accepted)


def _by_position(where: str, answers: Sequence[LoggedAnswer]) -> dict[str, Any]:
    """The rates from the accepted tokens by position, over the drafts of all answers."""
    drafts = 0.0
    reached = []
    for answer in answers:
        iterations = answer.iterations or 0.0
        drafts += iterations
        reached.append([iterations * rate for rate in answer.rates])
    columns = itertools.zip_longest(*reached, fillvalue=0.0)
    return Counters(drafts, tuple(map(sum, columns))).rates(where)


def _alpha(where: str, gamma: int, answers: Sequence[AnswerCounts]) -> dict[str, Any]:
    """The constant rate that gives the counted tokens per iteration. Raises InputError for impossible counts,
    and if the mean draft differs from `gamma` by more than `EARLY`.
    """
    counts = AnswerCounts.total(answers)
    iterations = counts.iterations
    if iterations < 1 or counts.accepted > counts.drafted:
        raise refuse(where, "draft_n_accepted", "at most draft_n, and below predicted_n", counts.accepted)
    length = counts.drafted / iterations
    if abs(length - gamma) > EARLY * gamma:
        raise InputError(
            f"{where}: drafts of {length:.3g} tokens on average where --gamma is {gamma}: "
            "they stop early or the length is another; measure with --spec-draft-p-min 0 and "
            "--spec-draft-n-min equal to --spec-draft-n-max"
        )
    gained = min(counts.decoded / iterations, gamma + 1.0)
    return {"alpha": float(alpha_from_tokens_per_iteration(gained, float(gamma)))}
