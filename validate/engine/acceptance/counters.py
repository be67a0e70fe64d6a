"""The counters of drafts of an engine, and the acceptance that follows from them, even if the draft length
changed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance.contexts import Contexts

SHORT = 0.02
"""Largest share of draft tokens that can be missing because requests ended."""
TRUNCATING = ("ngram", "suffix")
"""Kinds of draft that stop early if they find no more tokens. Their early stops are part of their
acceptance.
"""
POSITIONS = (
    "er-position acceptance rate",
    "acceptance rate per position",
    "_per_pos",
    "_per_position",
    "_histogram",
    "acceptance at token",
)
"""A text that contains one of these words counts drafts by position or by accepted tokens."""


class Counted(NamedTuple):
    """The rates for one row of an acceptance file.

    - contexts: the contexts at which the rates were counted; None if this is not stated.
    """

    rates: dict[str, Any]
    contexts: Contexts | None


class CountedText(NamedTuple):
    """The rates for the rows of an acceptance file, and the convention by which the text counts them."""

    rows: list[Counted]
    convention: str


def states_positions(text: str) -> bool:
    """Whether a text counts drafts by position or by accepted tokens. Its positions then show the draft
    length.
    """
    return any(word in text for word in POSITIONS)


@dataclass(frozen=True)
class AcceptanceSubject:
    """The models and the draft that the figures of a file are about. The file itself does not name them.

    - context: the context at which the figures were counted, one number or the ends of a range; empty if the
      file states it.
    - gamma: the draft length.
    - lengths: the draft lengths above 0 in use, if there are several.
    """

    target: str
    draft: str
    draft_kv: str
    context: tuple[int, ...]
    gamma: int
    gamma_given: bool = True
    """Whether the user gave gamma. Figures with another number of positions are then refused."""
    lengths: tuple[int, ...] = ()


def lacks_counters(where: str) -> InputError:
    """The error about a text without the counters by position."""
    return InputError(
        f"{where}: must hold spec_decode counters num_drafts and num_accepted_tokens_per_pos, finite "
        "and 0 or more"
    )


def counts_no_draft(where: str) -> InputError:
    """The error about a text with counters that are all 0."""
    return InputError(f"{where}: counts no draft: nothing was drafted")


def _difference(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals over all drafts. A total is None if the engine does not report it.

    - accepted: accepted[j] is the number of drafts whose first j + 1 tokens were all accepted.
    - draft_tokens: the number of drafted tokens.
    - decoded: the number of output tokens, without the first of each request.
    """

    drafts: float
    accepted: tuple[float, ...]
    draft_tokens: float | None = None
    decoded: float | None = None

    @property
    def iterations(self) -> float:
        """Number of iterations, summed over sequences. Each iteration gives one token in addition to the
        accepted ones.

        A look-up draft, such as an n-gram, is counted only if it finds a match, so it can have more
        iterations than drafts. If `decoded` is None or implies at most `SHORT` more iterations than drafts,
        the number of drafts is used.
        """
        count = 0.0 if self.decoded is None else self.decoded - sum(self.accepted)
        return count if count > self.drafts * (1 + SHORT) else self.drafts

    @property
    def tokens_per_iteration(self) -> float:
        """Mean number of tokens gained per iteration, including the bonus token."""
        return 1.0 + sum(self.accepted) / self.iterations

    @property
    def draft_length(self) -> float:
        """Mean number of tokens per draft."""
        if self.draft_tokens is None:
            return len(self.accepted)
        return self.draft_tokens / self.drafts

    @property
    def one_length(self) -> bool:
        """Whether all drafts had the full length, except for a few tokens at the ends of requests."""
        return self.draft_length >= len(self.accepted) * (1 - SHORT)

    @classmethod
    def total(cls, parts: Sequence["Counters"]) -> "Counters":
        """The sum of the counts of several intervals, without `decoded`."""
        columns = itertools.zip_longest(*(part.accepted for part in parts), fillvalue=0.0)
        drafted = [part.draft_tokens for part in parts if part.draft_tokens is not None]
        return cls(
            drafts=sum(part.drafts for part in parts),
            accepted=tuple(map(sum, columns)),
            draft_tokens=None if len(drafted) < len(parts) else sum(drafted),
        )

    def since(self, before: "Counters") -> "Counters":
        """The counts since `before`."""
        pairs = itertools.zip_longest(self.accepted, before.accepted, fillvalue=0.0)
        return Counters(
            drafts=self.drafts - before.drafts,
            accepted=tuple(now - then for now, then in pairs),
            draft_tokens=_difference(self.draft_tokens, before.draft_tokens),
            decoded=_difference(self.decoded, before.decoded),
        )

    def check(self, where: str) -> None:
        """Raises InputError for impossible totals, for totals of zero, and for totals that fell because the
        server was restarted.
        """
        if not self.drafts:
            raise counts_no_draft(where)
        reached = (self.drafts, *self.accepted)
        if min(reached) < 0:
            raise InputError(f"{where}: must not fall: was the server restarted?")
        if any(after > before for before, after in itertools.pairwise(reached)):
            raise InputError(
                f"{where}: num_accepted_tokens_per_pos must not rise and be at most num_drafts "
                f"({self.drafts:g})"
            )

    def rates(self, where: str, draft: str = "", lengths: tuple[int, ...] = ()) -> dict[str, Any]:
        """The rates for one row of an acceptance file.

        - lengths: the draft lengths above 0 of the served schedule.

        An engine divides the count of every position by all drafts, also by those that are too short for the
        position. If half of the drafts have 1 token and half have 3, a rate of 0.62 at position 3 is reported
        as 0.31. For two lengths, the number of drafts of each length follows from the totals (N1 + N2 drafts,
        k1 N1 + k2 N2 tokens). The count of a position is then divided by the drafts that reach it. For more
        lengths, only the positions that all drafts reach are used. Raises InputError if lengths are needed
        and not given.
        """
        self.check(where)
        if lengths and not self._agree(lengths):
            raise InputError(
                f"--lengths: must hold the draft lengths in use, given {','.join(map(str, lengths))}; "
                f"{where} counts {self.draft_length:.3g} tokens per draft and {len(self.accepted)} positions"
            )
        if len(set(lengths)) > 1 and not self.one_length:
            return {"positions": self._by_length(sorted(set(lengths)))}
        if not self.one_length and not draft.startswith(TRUNCATING):
            raise InputError(
                f"{where}: drafts of {self.draft_length:.3g} tokens on average where {len(self.accepted)} "
                "is the longest: the draft length changed while this was counted, which biases every "
                "position beyond the shortest; give --lengths (the draft lengths of the schedule, such as "
                "1,3) or figures of one length"
            )
        if draft.startswith(TRUNCATING) and self.decoded is None:
            raise InputError(
                f"{where}: must hold the generated tokens and the finished requests of an n-gram or "
                "suffix draft, which counts only its hits: save the whole page of /metrics, or the JSON of "
                "vllm bench serve"
            )
        first = self.iterations if draft.startswith(TRUNCATING) else self.drafts
        reached = (first, *self.accepted, 0.0)
        return {"histogram": [before - after for before, after in itertools.pairwise(reached)]}

    def _agree(self, lengths: tuple[int, ...]) -> bool:
        """Whether drafts of these lengths can give the mean length and the positions that are counted."""
        shortest = min(lengths)
        longest = max(lengths)
        return longest <= len(self.accepted) and shortest <= self.draft_length <= longest

    def _by_length(self, lengths: list[int]) -> list[float]:
        """The conditional acceptance by position of drafts of several lengths.

        - lengths: the draft lengths, from short to long.
        """
        short = lengths[0]
        long = lengths[-1]
        survival = [a / self.drafts for a in self.accepted[:short]]
        if len(lengths) == 2:
            longer = self.drafts * (self.draft_length - short) / (long - short)
            for accepted in self.accepted[short:long] if longer > 0 else ():
                survival.append(min(accepted / longer, survival[-1]))
        return [after / before if before else 0.0 for before, after in itertools.pairwise([1.0, *survival])]

    def draft_length_note(self, lengths: tuple[int, ...]) -> str:
        """A note about draft lengths for the `source` of an acceptance file; empty if all drafts have one
        length.
        """
        if self.one_length:
            return ""
        if len(set(lengths)) == 2:
            return (
                f"each position over the drafts that reached it (lengths {min(lengths)} and {max(lengths)})"
            )
        if lengths:
            return f"only the {min(lengths)} positions that every draft reaches"
        return (
            f"drafts of {self.draft_length:.2f} tokens on average: a short draft counts as rejected "
            "beyond its end"
        )
