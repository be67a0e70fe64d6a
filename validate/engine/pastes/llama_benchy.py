"""The table that ``llama-benchy`` prints about any server: the speeds of prompts and of answers, with D
tokens before them.

A test is ``pp2048 @ d4096 (c2)`` and then ``tg32 @ d4096 (c2)``. Two clients then send prompts of 2048 tokens
after 4096 tokens and get answers of 32 tokens. ``ctx_pp`` and ``ctx_tg`` time the D tokens themselves. The
column ``t/s`` has the rate of one request; with several clients, the column ``t/s (req)`` has it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

COLUMNS = ("test", "ttfr (ms)")
"""Columns that all tables of llama-benchy have and tables of llama-bench do not have."""
_TEST = re.compile(
    r"^(?P<kind>pp|tg|ctx_pp|ctx_tg)\s*(?P<tokens>\d*)(?:\s*@\s*d(?P<depth>\d+))?(?:\s*\(c(?P<clients>\d+)\))?$"
)


@dataclass(frozen=True, slots=True)
class _Test:
    """One row.

    - tokens: the tokens of the prompt or the answer; 1 if the row does not state them.
    - depth: the cached tokens before the prompt.
    - rate: tokens per second of one request.
    """

    of_prompt: bool
    of_depth: bool
    tokens: float
    depth: float
    clients: float
    rate: float

    @property
    def together(self) -> tuple[bool, float, float]:
        """The values that the two rows of one run have in common."""
        return self.of_depth, self.depth, self.clients


class LlamaBenchy(TextForm):
    """Rows ``tgN`` are steps after the prompt in the row ``ppN`` of the same run. If there is no such row,
    the user gives ``input=N``. Accepted tokens are not printed, so the user gives ``gamma=N,accepted=X``.
    """

    title = "table of llama-benchy"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(True for _ in rows(text, COLUMNS))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        prompts: dict[tuple[bool, float, float], float] = {}
        steps = []
        for test in _tests(where, text):
            if test.of_prompt:
                prompts[test.together] = test.depth if test.of_depth else test.depth + test.tokens
                continue
            prompt = needed(where, "input", prompts.get(test.together, facts.input))
            drafted = speculation(where, facts, None, None)
            seconds = drafted.tokens_per_iteration / test.rate
            lengths = RequestLengths(prompt, test.tokens)
            how = "decoding time over iterations"
            steps.append(step(where, seconds, test.clients, lengths, drafted, how=how))
        return steps

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`. Only rows of one client count, because several prompts share a pass. The
        tokens before a prompt are in the cache only if the table also times them.
        """
        tests = list(_tests(where, text))
        cached = {test.depth for test in tests if test.of_depth}
        timed = []
        for test in tests:
            if not test.of_prompt or test.clients > 1:
                continue
            tokens = test.depth if test.of_depth else test.tokens
            before = 0.0 if test.of_depth else test.depth
            if before and before not in cached:
                tokens, before = tokens + before, 0.0
            timed.append(PromptTiming(tokens, before, tokens / test.rate))
        return timed


def _tests(where: str, text: str) -> Iterator[_Test]:
    for row in rows(text, COLUMNS):
        name = row["test"]
        words = _TEST.match(name)
        column = "t/s (req)" if "t/s (req)" in row else "t/s"
        if words is None or column not in row:
            continue
        rate = number(where, f"{column} of {name}", row[column].split("±")[0].strip())
        if not rate:
            raise refuse(where, f"{column} of {name}", "above 0", row[column])
        yield _Test(
            of_prompt=words["kind"].endswith("pp"),
            of_depth=words["kind"].startswith("ctx"),
            tokens=float(words["tokens"] or 1),
            depth=float(words["depth"] or 0),
            clients=float(words["clients"] or 1),
            rate=rate,
        )
