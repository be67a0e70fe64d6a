"""Reads a user's acceptance file (``--acceptance FILE``) into typed records."""

import re
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.errors import InputError, about_file, refuse
from perfmodel.specs.acceptance.acceptance_rows import (
    AcceptanceRow,
    positions_from_histogram,
    positions_of_bins,
)
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import FINITE, Frozen, Positive

_NUMBER = re.compile(r"\d*\.?\d+%?")
Rate = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[float, Meta(ge=0, le=FINITE)]
Tokens = Annotated[float, Meta(gt=0, le=FINITE)]


class StandardError(Frozen):
    """Standard errors of an acceptance that was measured on several documents. Each document is one cluster.

    - positions: standard error of the conditional acceptance at each position. It is null for a position that
      was never reached.
    """

    documents: Annotated[int, Meta(ge=2)]
    tokens_per_iteration: Count
    positions: tuple[Count | None, ...]


class ConfidenceBin(Frozen):
    """A group of drafts with similar confidence: their share of all drafts, and their conditional acceptance
    at each position.
    """

    share: Tokens
    positions: Annotated[tuple[Rate, ...], Meta(min_length=1, max_length=4096)]


class AcceptanceEntry(Frozen):
    """One row of an acceptance file.

    - context_range_tokens: range of the contexts at which the server counted acceptance. Without this range,
      the row applies only at `context_tokens`.
    - confidence: drafts of one length, grouped by the confidence that the draft head reported.
    """

    target: Annotated[str, Meta(min_length=1)]
    draft: Annotated[str, Meta(min_length=1)]
    draft_kv: Annotated[str, Meta(min_length=1)]
    kv_budget_tokens: Positive | None = None
    context_tokens: Tokens
    context_range_tokens: tuple[Tokens, Tokens] | None = None
    alpha: Rate | None = None
    positions: Annotated[tuple[Rate, ...], Meta(min_length=1, max_length=4096)] | None = None
    histogram: Annotated[tuple[Count, ...], Meta(min_length=2, max_length=4097)] | None = None
    confidence: Annotated[tuple[ConfidenceBin, ...], Meta(min_length=2, max_length=64)] | None = None
    standard_error: StandardError | None = None

    def __post_init__(self) -> None:
        figures = (self.alpha, self.positions, self.histogram, self.confidence)
        if sum(value is not None for value in figures) != 1:
            raise ValueError("one of alpha, positions, histogram and confidence must be given, and only one")
        if len({len(each.positions) for each in self.confidence or ()}) > 1:
            raise ValueError("confidence must have as many positions in every bin")
        contexts = self.context_range_tokens
        if contexts is not None and not contexts[0] <= self.context_tokens <= contexts[1]:
            raise ValueError("context_range_tokens must hold context_tokens, the lower end first")
        if self.histogram is not None and not sum(self.histogram):
            raise ValueError("histogram must have a count above 0")


class AcceptanceFile(Frozen):
    """The contents of an acceptance file: rows from one source. The `histogram` of a row counts iterations by
    the number of accepted draft tokens (0 ... gamma).
    """

    schema_version: Literal[1]
    source: Annotated[str, Meta(min_length=3)]
    rows: Annotated[tuple[AcceptanceEntry, ...], Meta(min_length=1)]


def read_acceptance(where: str | Path) -> tuple[AcceptanceRow, ...]:
    """The rows of a user's JSON or YAML file. Raises InputError, which names the file and the key, if the
    file is wrong.
    """
    path = Path(where)
    if _NUMBER.fullmatch(str(where)) and not path.exists():
        raise refuse(
            "--acceptance", None, "a file; a number is --alpha, or --acceptance-rate with --gamma", where
        )
    with about_file(path):
        return _rows(path)


def _rows(path: Path) -> tuple[AcceptanceRow, ...]:
    """The rows of a file, each with its source. Raises InputError for two rows about the same case."""
    parsed = files.parse(AcceptanceFile, files.read_mapping(path), str(path))
    rows: dict[object, AcceptanceRow] = {}
    for number, row in enumerate(parsed.rows):
        bins = tuple((each.share, each.positions) for each in row.confidence or ())
        positions = positions_from_histogram(row.histogram) if row.histogram else row.positions
        positions = positions_of_bins(bins) if bins else positions
        error = row.standard_error
        source = parsed.source
        if error:
            source += (
                f", tokens per iteration +/- {error.tokens_per_iteration:.2g} by {error.documents} documents"
            )
        entry = AcceptanceRow(
            target=row.target,
            draft=row.draft,
            draft_kv=row.draft_kv,
            kv_budget_tokens=row.kv_budget_tokens,
            context_tokens=row.context_tokens,
            alpha=row.alpha,
            positions=positions,
            counted_at=row.context_range_tokens,
            bins=bins,
            source=f"{source} ({path})",
        )
        if rows.setdefault((entry.subject, entry.context_tokens), entry) is not entry:
            raise InputError(
                f"{path}: rows.{number}: the same target, draft, method, budget and context as an earlier row"
            )
    return tuple(rows.values())
