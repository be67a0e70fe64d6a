"""The lines that llama.cpp's server prints after a request: its times, and the accepted share of its drafted
tokens.

A line is ``draft acceptance = 0.64479 (167 accepted / 259 generated), mean acceptance length = 2.92,
acceptance rate per position = (0.805, 0.632, 0.483)``. Older builds print only ``draft acceptance rate =
0.57576 ( 171 accepted / 297 generated)``. The rate of a position is the share of all drafts whose tokens up
to this position were accepted. The sum of these rates is the mean length minus the bonus token.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.text import floats, is_count, is_json
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    RequestLengths,
    Timing,
    drafted_length,
    needed,
    speculation,
)

_LINE = re.compile(
    r"(?P<prompt>prompt )?eval time\s*=\s*(?P<ms>[\d.]+) ms\s*/\s*(?P<tokens>\d+) (?P<unit>tokens|runs)"
    r"|draft acceptance(?: rate)?\s*=\s*[\d.]+\s*\(\s*(?P<accepted>\d+) accepted\s*/\s*(?P<drafted>\d+) "
    r"generated\)(?:,\s*mean (?:acceptance )?len(?:gth)?\s*=\s*[\d.]+,\s*"
    r"acceptance rate per position\s*=\s*\((?P<rates>[\d., ]+)\))?"
)
_SLOT = re.compile(r"\bslot\b.*?\bid +(\d+) \|")
"""The number of the slot that answered, in other lines of the log."""
_EXAMPLE_PROGRAM = re.compile(r"\bn_drafted\s*=")
"""A count of llama-speculative, which prints the times of its models in lines like those of the server."""


class TimedTokens(NamedTuple):
    """The tokens of a prompt or of an answer, and their total time."""

    milliseconds: float
    tokens: float

    @property
    def decoded(self) -> float:
        """Tokens of an answer without its first one, which comes from the prompt's pass."""
        return self.tokens - 1


class DraftedTokens(NamedTuple):
    """The drafted tokens of an answer, and how many of them were accepted."""

    accepted: float
    drafted: float


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """The printed figures of one request. A field is None if it was not printed.

    - rates: for each position, the share of drafts whose tokens up to it were accepted; empty if not printed.
    """

    prompt: TimedTokens | None = None
    decoding: TimedTokens | None = None
    """The time of all tokens of the answer. llama-cli prints the number of runs after the first token
    instead.
    """
    drafts: DraftedTokens | None = None
    rates: tuple[float, ...] = ()

    def joined(self, other: "LoggedAnswer") -> "LoggedAnswer":
        """This request with the figures of another line added."""
        return LoggedAnswer(
            self.prompt or other.prompt,
            self.decoding or other.decoding,
            self.drafts or other.drafts,
            self.rates or other.rates,
        )

    def begins_after(self, other: "LoggedAnswer") -> bool:
        """Whether this line belongs to the request after `other`. This is so if it repeats a figure that
        `other` already has, or if it is a prompt after an answer.
        """
        for name in ("prompt", "decoding", "drafts"):
            if getattr(self, name) is not None and getattr(other, name) is not None:
                return True
        return bool(self.prompt and other.decoding)

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None if not printed, or for an answer of one token."""
        if self.decoding is None or self.decoding.decoded <= 0:
            return None
        return self.decoding.milliseconds / 1e3 / self.decoding.decoded

    @property
    def iterations(self) -> float | None:
        """Number of iterations with a draft. It follows from the rates of positions, or else is the number of
        tokens minus the accepted ones. None if neither is printed.
        """
        if self.drafts is None:
            return None
        if sum(self.rates):
            return self.drafts.accepted / sum(self.rates)
        if self.decoding is None:
            return None
        return self.decoding.decoded - self.drafts.accepted

    @property
    def draft_length(self) -> int | None:
        """The draft length: the number of printed positions, or less if drafts stop early
        (``--spec-draft-p-min``). None if no positions are printed.
        """
        if not self.rates or not self.drafts or not self.iterations:
            return None
        return min(len(self.rates), drafted_length(self.drafts.drafted / self.iterations))


def logged(where: str, text: str) -> list[LoggedAnswer]:
    """The requests of a log, in order. Raises InputError for impossible counts."""
    answers = [LoggedAnswer()]
    for line in _LINE.finditer(text):
        printed = _line(where, line)
        if printed.begins_after(answers[-1]):
            answers.append(printed)
        else:
            answers[-1] = answers[-1].joined(printed)
    return answers


def _line(where: str, line: re.Match[str]) -> LoggedAnswer:
    """The figures of a request in one line. Raises InputError."""
    if line["accepted"]:
        return LoggedAnswer(drafts=_drafts(where, line), rates=_rates(where, line))
    tokens = number(where, "tokens", line["tokens"])
    if line["unit"] == "runs":  # of llama-cli, which does not count the first token
        tokens += 1
    timed = TimedTokens(number(where, "eval time", line["ms"]), tokens)
    return LoggedAnswer(prompt=timed) if line["prompt"] else LoggedAnswer(decoding=timed)


def _drafts(where: str, line: re.Match[str]) -> DraftedTokens:
    accepted = number(where, "accepted", line["accepted"])
    drafted = number(where, "drafted", line["drafted"])
    if accepted > drafted:
        raise refuse(where, "draft acceptance", f"at most the {drafted:g} generated tokens", accepted)
    return DraftedTokens(accepted, drafted)


def _rates(where: str, line: re.Match[str]) -> tuple[float, ...]:
    """Survival by position. Raises InputError if the rates rise."""
    if not line["rates"]:
        return ()
    rates = floats(word for word in line["rates"].replace(" ", "").split(",") if word)
    is_falling = all(later <= earlier for earlier, later in pairwise([1.0, *rates]))
    if not all(map(is_count, rates)) or not is_falling:
        allowed = "rates from 0 to 1 that do not rise"
        raise refuse(where, "acceptance rate per position", allowed, line["rates"])
    return tuple(rates)


class LlamaServerLog(TextForm):
    """Requests are assumed to run one at a time, unless the user gives ``batch=N``."""

    title = "log of llama.cpp's server"
    engine = "llamacpp"
    of_server = True

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        if is_json(text) or _EXAMPLE_PROGRAM.search(text):
            return False
        return any(line["ms"] for line in _LINE.finditer(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`. The first token of an answer comes from the prompt's pass."""
        answers = logged(where, text)
        timed = [answer for answer in answers if answer.decoding]
        if not timed and any(answer.drafts for answer in answers):
            raise InputError(f"{where}: eval time: must stand beside the acceptance: add the lines before it")
        steps = []
        for n, answer in enumerate(timed, 1):
            place = where if len(answers) == 1 else f"{where}: request {n}"
            timing = _step(place, answer, facts)
            if timing is not None:
                steps.append(timing)
        return steps

    def note(self, text: str, facts: GivenFacts) -> str:
        """See `TextForm.note`."""
        slots = len(set(_SLOT.findall(text)))
        if slots < 2 or facts.batch is not None:
            return ""
        return (
            f"{slots} slots answered; each request is compared as one alone: if they ran at once, state how "
            "many: --from FILE,batch=N"
        )

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        timed = []
        for answer in logged(where, text):
            milliseconds, tokens = answer.prompt or TimedTokens(0.0, 0.0)
            if milliseconds and tokens:
                timed.append(PromptTiming(tokens, 0.0, milliseconds / 1e3))
        return timed


def _step(where: str, answer: LoggedAnswer, facts: GivenFacts) -> Timing | None:
    """The mean iteration of an answer; None for an answer of one token."""
    assert answer.decoding is not None
    tokens = answer.decoding.decoded
    if tokens < 1:
        return None
    prompt = facts.input if answer.prompt is None else answer.prompt.tokens
    lengths = RequestLengths(needed(where, "input", prompt), tokens)
    speculated = NOT_SPECULATED
    iterations = tokens
    accepted, drafted = answer.drafts or DraftedTokens(0.0, 0.0)
    if drafted:
        iterations = tokens - accepted
        if iterations < 1:
            allowed = "below the tokens of the answer, which count one of each iteration"
            raise refuse(where, "draft acceptance", allowed, accepted)
        length = answer.draft_length or facts.gamma or drafted_length(drafted / iterations)
        gained = min(tokens / iterations, length + 1.0)
        speculated = speculation(where, facts, gained, length)
    seconds = answer.decoding.milliseconds / 1e3 / iterations
    how = "decoding time over iterations"
    timing = step(where, seconds, facts.batch or 1.0, lengths, speculated, how=how)
    return timing.replace(output=answer.decoding.tokens)
