"""The table that ``llama-sweep-bench`` of ik_llama.cpp prints: the times of prompts and answers after N_KV
cached tokens.
"""

from collections.abc import Iterator, Mapping

from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing

COLUMNS = ("PP", "TG", "N_KV", "T_PP s", "T_TG s")


class LlamaSweepBench(TextForm):
    """A row has an answer of TG tokens in T_TG seconds and a prompt of PP tokens in T_PP seconds, each after
    N_KV cached tokens.
    """

    title = "table of llama-sweep-bench"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(True for _ in _rows(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        for row in _rows(text):
            output, depth, seconds = (number(where, name, row[name]) for name in ("TG", "N_KV", "T_TG s"))
            if output:
                lengths = RequestLengths(depth, output)
                steps.append(step(where, seconds / output, 1.0, lengths, how="mean time of a token"))
        return steps

    def note(self, text: str, facts: GivenFacts) -> str:
        """See `TextForm.note`."""
        return "ik_llama.cpp has kernels of its own, of which no times were fitted: compared with llama.cpp"

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        timed = []
        for row in _rows(text):
            tokens, depth, seconds = (number(where, name, row[name]) for name in ("PP", "N_KV", "T_PP s"))
            if tokens:
                timed.append(PromptTiming(tokens, depth, seconds))
        return timed


def _rows(text: str) -> Iterator[Mapping[str, str]]:
    """The rows of tables without the column ``B``, which only llama-batched-bench prints."""
    return (row for row in rows(text, COLUMNS) if "B" not in row)
