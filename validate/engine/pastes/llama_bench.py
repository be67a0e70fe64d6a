"""The table that ``llama-bench`` prints: the tokens per second of tests such as ``tg128 @ d4096``."""

import re
from collections.abc import Iterator, Mapping

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing

COLUMNS = ("test", "t/s")
_OF_SERVERS = "ttfr (ms)"
"""A column of llama-benchy. Its tests have the same names but are another kind of run."""
MOE_ON_HOST = "n_cpu_moe"
"""A column with the number of layers whose experts are in host memory."""
_TEST = re.compile(r"^(?P<kind>pp|tg)\s*(?P<tokens>\d+)(?:\s*@\s*d(?P<depth>\d+))?$")


class LlamaBench(TextForm):
    """Rows ``tgN`` are baseline steps, and rows ``ppN`` are prompts. ``@ dD`` means that D tokens were in the
    cache before. Mixed tests (``ppN+tgM``) are ignored.
    """

    title = "table of llama-bench"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(_OF_SERVERS not in row for row in rows(text, COLUMNS))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        for test, rate in _tests(where, text, "tg"):
            lengths = RequestLengths(float(test["depth"] or 0), float(test["tokens"]))
            steps.append(step(where, 1.0 / rate, 1.0, lengths, how="mean time of a token"))
        return steps

    def note(self, text: str, facts: GivenFacts) -> str:
        """See `TextForm.note`."""
        on_host = {row.get(MOE_ON_HOST, "0") for row in rows(text, COLUMNS)} - {"0"}
        if not on_host:
            return ""
        layers = sorted(on_host, key=int)
        return (
            f"{MOE_ON_HOST} is {' or '.join(layers)}, but the prediction has all experts on the device: "
            f"compare with `perfmodel whatif --cpu-moe {layers[0]} --host-bandwidth GB/S`"
        )

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        timed = []
        for test, rate in _tests(where, text, "pp"):
            tokens = float(test["tokens"])
            timed.append(PromptTiming(tokens, float(test["depth"] or 0), tokens / rate))
        return timed


def _tests(where: str, text: str, kind: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """The tests of one kind, with their tokens per second."""
    for row in rows(text, COLUMNS):
        test = _TEST.match(row["test"])
        if test is None or test["kind"] != kind:
            continue
        rate = number(where, f"t/s of {row['test']}", row["t/s"].split("±")[0].strip())
        if not rate:
            raise refuse(where, f"t/s of {row['test']}", "above 0", row["t/s"])
        yield test.groupdict(), rate
