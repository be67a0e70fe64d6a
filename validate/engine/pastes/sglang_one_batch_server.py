"""The output of SGLang's ``bench_one_batch_server``: lines for each batch, and a table of all batches.

The lines are ``batch size: 8``, ``input_len: 1024``, ``output throughput: 610.20 tok/s`` and, with a draft,
``acc_length: 2.79``.
"""

import re
from collections.abc import Iterator, Mapping

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_PROMPTS = "input throughput (tok/s)"
_OUTPUTS = "output throughput (tok/s)"
COLUMNS = ("batch size", _PROMPTS, _OUTPUTS)
"""Older versions print no input lengths in the table."""
_LINES = re.compile(
    r"batch size: (?P<batch>\d+)\s+input_len: (?P<input>\d+)\s+output_len: (?P<output>\d+)\s+"
    r"latency: \S+ s\s+"
    r"input throughput: (?P<prompts>\S+) tok/s\s+output throughput: (?P<outputs>\S+) tok/s"
    r"(?:(?:(?!batch size:).)*?acc_length: (?P<accepted>\S+))?",
    re.S,
)
_LENGTH = re.compile(r"Output lens: \(?\[?(\d+)")


class SglangOneBatchServer(TextForm):
    """A row of the table is one step. Without a table, each printed run is one step. The draft length is not
    printed, so the user gives ``gamma=N``.
    """

    title = "output of SGLang's bench_one_batch_server"
    engine = "sglang"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(True for _ in _runs(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        for run in _runs(text):
            batch = _positive(where, "batch size", run["batch"])
            rate = _positive(where, "output throughput", run["outputs"])
            accepted = number(where, "acc length", run["accepted"]) if run["accepted"] else None
            drafted = speculation(where, facts, accepted, None)
            iteration_s = drafted.tokens_per_iteration * batch / rate
            prompt = number(where, "input len", run["input"]) if run["input"] else facts.input
            lengths = RequestLengths(
                needed(where, "input", prompt),
                number(where, "output len", run["output"]) if run["output"] else facts.output or 1.0,
            )
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, batch, lengths, drafted, how=how))
        return steps

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`. Only batches of one request count, because several prompts share a pass."""
        timed = []
        for run in _runs(text):
            if run["input"] and _positive(where, "batch size", run["batch"]) == 1:
                tokens = number(where, "input len", run["input"])
                rate = _positive(where, "input throughput", run["prompts"])
                timed.append(PromptTiming(tokens, 0.0, tokens / rate))
        return timed


def _runs(text: str) -> Iterator[Mapping[str, str]]:
    """The printed figures of each run: from the rows of the table, which has no warm-up runs, or else from
    the lines. A figure that is not printed is empty.
    """
    table = list(rows(text, COLUMNS))
    length = _LENGTH.search(text)
    for row in table:
        accepted = row.get("acc length", "n/a")
        yield {
            "batch": row["batch size"],
            "input": row.get("input len", ""),
            "output": length[1] if length else "",
            "prompts": row[_PROMPTS],
            "outputs": row[_OUTPUTS],
            "accepted": "" if accepted == "n/a" else accepted,
        }
    if not table:
        yield from (run.groupdict("") for run in _LINES.finditer(text))


def _positive(where: str, name: str, word: str) -> float:
    value = number(where, name, word)
    if not value:
        raise refuse(where, name, "above 0", word)
    return value
