"""``llama-bench -o json`` and ``llama-batched-bench --output-format jsonl`` of llama.cpp: the baseline.

llama-bench decodes one sequence: `n_gen` tokens behind `n_depth` cached ones. The batched bench decodes `pl` sequences
of `tg` tokens behind `pp`.
"""

from typing import Any

from perfmodel.validate.engine.formats.fields import middle, number, numbers, optional, positive
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "llama-bench -o json or llama-batched-bench --output-format jsonl"


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether every object is a row of either."""
    return all(("n_gen" in row and "avg_ns" in row) or ("t_tg" in row and "pl" in row) for row in data)


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """A step of each row that only decodes."""
    found = [_row(f"{where}: row {n}", row) for n, row in enumerate(data, 1)]
    return [timing for timing in found if timing is not None]


def _row(where: str, row: dict[str, Any]) -> Timing | None:
    if "pl" in row:
        tokens, prompt = number(where, row, "tg"), number(where, row, "pp")
        seconds, batch = number(where, row, "t_tg"), number(where, row, "pl")
        samples: tuple[float, ...] = ()
    else:
        tokens, prompt = number(where, row, "n_gen"), optional(where, row, "n_depth") or 0.0
        if number(where, row, "n_prompt"):
            return None
        seconds, batch = number(where, row, "avg_ns") / 1e9, 1.0
        samples = tuple(ns / 1e9 / tokens for ns in numbers(where, row, "samples_ns")) if tokens else ()
    if not tokens:
        return None
    return Timing(
        where=where,
        seconds=positive(where, "time of a token", seconds / tokens),
        batch=batch,
        context=middle(prompt, tokens),
        gamma=0,
        prompt=prompt,
        output=tokens,
        how="mean time of a token",
        samples=samples,
    )
