"""The question of a sweep, which has lists of values and asks about every combination."""

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any

from perfmodel.answers.declaration import argument, listed, question
from perfmodel.answers.question import Options, Query, arguments as arg, doubts, resolve
from perfmodel.answers.readers import Lengths, MaybeReals, MaybeWords, Wholes, Words
from perfmodel.errors import InputError
from perfmodel.speculation import Scenario, Workload

MAX_CASES = 10_000
"""Largest number of cases: combinations of all lists except batch, context and gamma. Each case is computed
separately.
"""
HEADS = ("model", "hardware", "tp", "draft_kv", "alpha")
"""Arguments with lists. Each combination of their values is a case."""
AXES = (*HEADS, "batch", "context", "gamma")
"""All arguments with lists, in the order of the rows. The last one varies fastest."""


@question
class Grid(Options):
    """A question about every combination of the listed values. All other arguments have one value. A gamma of
    None means the best gamma at each point.
    """

    model: Annotated[Words, listed(arg.Model)]  # type: ignore[assignment]  # several
    hardware: Annotated[Words, listed(arg.Hardware)]  # type: ignore[assignment]
    batch: Annotated[Wholes, listed(arg.Batch)]
    context: Annotated[Wholes, listed(arg.Context)]
    gamma: Annotated[Lengths, listed(arg.Gamma)] = argument(default="auto")
    tp: Annotated[Wholes, listed(arg.TP)] = argument(default=1)
    draft_kv: Annotated[MaybeWords, listed(arg.DraftKV)] = argument(default=None)
    alpha: Annotated[MaybeReals, listed(arg.Alpha)] = argument(default=None)

    def check(self) -> None:
        super().check()
        if self.tokens_per_iteration is not None and len(self.axis("gamma")) > 1:
            raise InputError(
                "--tokens-per-iteration: needs one --gamma N, the draft length at which it was measured"
            )

    def axis(self, name: str) -> tuple[Any, ...]:
        """The values of the list `name`, one of `AXES`."""
        values = getattr(self, name)
        return values if isinstance(values, tuple) else (values,)

    @property
    def rows(self) -> int:
        """The number of rows of the whole grid."""
        return math.prod(len(self.axis(name)) for name in AXES)

    @property
    def looks_up(self) -> bool:
        """Whether the acceptance must be looked up because the question does not state it. A published
        acceptance depends on the context.
        """
        is_open = self.axis("alpha") == (None,) and self.tokens_per_iteration is None
        return is_open and any(gamma != 0 for gamma in self.axis("gamma"))

    def resolved(self) -> Iterator[tuple[Query, tuple[float, ...], Scenario]]:
        """Yields the cases of the grid. Each combination of `HEADS` gives a question, the contexts, and the
        scenario.

        If the acceptance is looked up, it depends on the context, so each context is a separate case. Raises
        InputError for too many cases, or for an impossible case.
        """
        every = self.axis("context")
        gammas = self.axis("gamma")
        self._check_points()
        # with the longest gamma, `resolve` looks the acceptance up if any row needs it
        longest = max(gammas, key=lambda g: math.inf if g is None else g)
        point = {"batch": self.axis("batch")[0], "gamma": longest}
        together = [(context,) for context in every] if self.looks_up else [every]
        heads = [self.axis(name) for name in HEADS]
        if math.prod(map(len, heads)) * len(together) > MAX_CASES:
            raise InputError(
                f"sweep: at most {MAX_CASES} combinations of all lists but batch, context and "
                "gamma (without --alpha each context counts, because its acceptance is looked up)"
            )
        for *head, contexts in itertools.product(*heads, together):
            query = self.query(**point, context=contexts[0], **dict(zip(HEADS, head, strict=True)))
            yield query, contexts, resolve(query)

    def _check_points(self) -> None:
        """Raises InputError for an impossible batch, context or draft length."""
        Workload.of(self.axis("batch"), 1)
        Workload.of(1, self.axis("context"))
        Workload.of(1, 1, [0 if gamma is None else gamma for gamma in self.axis("gamma")])

    def doubts(self) -> tuple[str, ...]:
        """The warnings about all cases at batch 1 and their longest context. No warning is repeated."""
        return tuple(dict.fromkeys(note for _, note in self.noted()))

    def noted(self) -> Iterator[tuple[Query, str]]:
        """The question of each case with each of its warnings."""
        for query, contexts, scenario in self.resolved():
            gamma = 1 if query.gamma is None else query.gamma
            for note in doubts(query, scenario, 1.0, max(contexts), gamma):
                yield query, note
