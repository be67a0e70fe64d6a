"""A user's acceptance file: the typed boundary of ``--acceptance FILE``."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from perfmodel.errors import InputError
from perfmodel.specs.acceptance.acceptance_rows import AcceptanceRow, positions_from_histogram
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.strict import Strict

Rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StandardError(Strict):
    """Of figures counted over several documents, which are its clusters; null for a position that was never
    reached.
    """

    documents: int = Field(ge=2)
    tokens_per_iteration: Count
    positions: tuple[Count | None, ...]


class AcceptanceEntry(Strict):
    target: str = Field(min_length=1)
    draft: str = Field(min_length=1)
    draft_kv: str = Field(min_length=1)
    kv_budget_tokens: PositiveInt | None = None
    context_tokens: float = Field(gt=0, allow_inf_nan=False)
    alpha: Rate | None = None
    positions: tuple[Rate, ...] | None = Field(None, min_length=1, max_length=4096)
    histogram: tuple[Count, ...] | None = Field(None, min_length=2, max_length=4097)
    standard_error: StandardError | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> "AcceptanceEntry":
        if sum(value is not None for value in (self.alpha, self.positions, self.histogram)) != 1:
            raise ValueError("one of alpha, positions and histogram must be given, and only one")
        if self.histogram is not None and not sum(self.histogram):
            raise ValueError("histogram must have a count above 0")
        return self


class AcceptanceFile(Strict):
    """Acceptance rows with one source; `histogram` counts iterations by accepted draft tokens (0 ...
    gamma).
    """

    schema_version: Literal[1]
    source: str = Field(min_length=3)
    rows: tuple[AcceptanceEntry, ...] = Field(min_length=1)


def read_acceptance(where: str | Path) -> tuple[AcceptanceRow, ...]:
    """The rows of a user's JSON or YAML file. Raises InputError naming file and key."""
    path = Path(where)
    parsed = files.parse(AcceptanceFile, files.read_mapping(path), str(path))
    rows: dict[object, AcceptanceRow] = {}
    for number, row in enumerate(parsed.rows):
        positions = positions_from_histogram(row.histogram) if row.histogram else row.positions
        error, source = row.standard_error, parsed.source
        if error:
            source += (
                f", tokens per iteration +/- {error.tokens_per_iteration:.2g} by {error.documents} documents"
            )
        stated = row.model_dump(exclude={"positions", "histogram", "standard_error"})
        entry = AcceptanceRow(source=f"{source} ({path})", positions=positions, **stated)
        if rows.setdefault((entry.subject, entry.context_tokens), entry) is not entry:
            raise InputError(
                f"{path}: rows.{number}: the same target, draft, method, budget and context as an earlier row"
            )
    return tuple(rows.values())
