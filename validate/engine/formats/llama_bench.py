"""``llama-bench -o json`` and ``llama-batched-bench --output-format jsonl`` of llama.cpp: the baseline.

llama-bench decodes one sequence: `n_gen` tokens behind `n_depth` cached ones. The batched bench decodes `pl` sequences
of `tg` tokens behind `pp`.
"""

from typing import Any

from perfmodel.validate.engine.formats.fields import middle, number, numbers, optional
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "llama-bench -o json or llama-batched-bench --output-format jsonl"
KEYS = ({"n_gen", "avg_ns"}, {"t_tg", "pl"})


def read(where: str, row: dict[str, Any], said: Said) -> list[Timing]:
    """The step of a row that only decodes."""
    if "pl" in row:
        tokens, prompt = number(where, row, "tg"), number(where, row, "pp")
        seconds, batch = number(where, row, "t_tg"), number(where, row, "pl")
    else:
        tokens, prompt = number(where, row, "n_gen"), optional(where, row, "n_depth") or 0.0
        if number(where, row, "n_prompt"):
            return []
        seconds, batch = number(where, row, "avg_ns") / 1e9, 1.0
    if not tokens:
        return []
    timing = Timing(
        where=where,
        seconds=seconds / tokens,
        batch=batch,
        context=middle(prompt, tokens),
        gamma=0,
        prompt=prompt,
        output=tokens,
        how="mean time of a token",
        samples=tuple(ns / 1e9 / tokens for ns in numbers(where, row, "samples_ns")),
    )
    return [timing]
