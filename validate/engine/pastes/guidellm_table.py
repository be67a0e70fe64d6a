"""GuideLLM's printed tables, which have no mean length of the prompts beside the times."""

from perfmodel.errors import InputError
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing


class GuideLLMTable(TextForm):
    """It is refused, because its JSON has all that a step needs."""

    title = "tables of guidellm"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return "Benchmarks Stats:" in text or "Benchmarks Info:" in text

    def read(self, where: str, text: str, given: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        raise InputError(f"{where}: must be GuideLLM's JSON (--output-path x.json) instead of its tables")
