"""The table that ``llama-batched-bench`` prints: the times of prompts and of answers for B sequences in one
batch.
"""

from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number, rows
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing

COLUMNS = ("PP", "TG", "B", "N_KV", "T_PP s", "T_TG s")


class LlamaBatchedBench(TextForm):
    """A row has B prompts of PP tokens in T_PP seconds, and then B answers of TG tokens in T_TG seconds."""

    title = "table of llama-batched-bench"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(True for _ in rows(text, COLUMNS))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        for prompt, output, batch, _, seconds in _numbers(where, text):
            if output:
                how = "mean time of a token"
                steps.append(step(where, seconds / output, batch, RequestLengths(prompt, output), how=how))
        return steps

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`. Only rows of one sequence count, because several prompts share a pass."""
        timed = []
        for prompt, _, batch, seconds, _ in _numbers(where, text):
            if batch == 1 and prompt:
                timed.append(PromptTiming(prompt, 0.0, seconds))
        return timed


def _numbers(where: str, text: str) -> list[list[float]]:
    """PP, TG, B, T_PP and T_TG of each row. Raises InputError."""
    names = ("PP", "TG", "B", "T_PP s", "T_TG s")
    return [[number(where, name, row[name]) for name in names] for row in rows(text, COLUMNS)]
