"""The table of ``llama-bench -o csv``."""

import csv
from collections.abc import Iterator

from perfmodel.validate.engine.formats import llama_cpp
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, Timing

COLUMNS = ("n_prompt", "n_gen", "avg_ns")
DEPTH = "n_depth"


class LlamaBenchCsv(TextForm):
    """Rows with only `n_gen` tokens are baseline steps. Rows with only `n_prompt` tokens are prompts."""

    title = "llama-bench -o csv"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(all(column in line.split(",") for column in COLUMNS) for line in text.splitlines())

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        return [timing for row in _rows(where, text) for timing in llama_cpp.bench(where, row, facts)]

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`."""
        return [
            PromptTiming(row["n_prompt"], row.get(DEPTH, 0.0), row["avg_ns"] / 1e9)
            for row in _rows(where, text)
            if row["n_prompt"] and not row["n_gen"]
        ]


def _rows(where: str, text: str) -> Iterator[dict[str, float]]:
    """The figures of each row after the heading. A row that was cut off before its time is skipped."""
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if all(column in line.split(",") for column in COLUMNS))
    for row in csv.DictReader(lines[head:]):
        kept = {name: row[name] for name in (*COLUMNS, DEPTH) if row.get(name) is not None}
        if all(name in kept for name in COLUMNS):
            yield {name: number(where, name, word) for name, word in kept.items()}
