"""Published measurements as typed, checked rows, and the one shape that all sets map to.

A row that contradicts itself is refused with file, line and column: times must add up to the printed speed, the printed
speedup must be the ratio of the printed times, and every row names its source. Times in the files are milliseconds as
printed; `MeasuredPoint` is in seconds.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from perfmodel.errors import InputError, unknown_name
from perfmodel.reading import read_csv
from perfmodel.specs import PACKAGE
from perfmodel.specs.formats import WeightName

MS = 1e-3
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Milliseconds = Annotated[float, Field(gt=0, lt=1e5, allow_inf_nan=False)]
Speedup = Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False)]

# What a printed figure may be off by: half of its last digit (the tables print two decimals).
HALF_DIGIT = 0.005
# Per-iteration time outside the drafts and the verification that is plausible for a stack, ms.
OVERHEAD_RANGE_MS: dict[str, tuple[float, float]] = {"a100-sxm-80gb": (0.0, 3.5), "h100-sxm-80gb": (0.0, 1.2)}

# Share of a baseline step that a tree row must leave for its verification: step times are printed once for all tasks.
LEAST_VERIFICATION = 0.9


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One published measurement, in seconds; None where the source does not give the figure.

    `draft_s` is one draft step, `target_s` one baseline step of the target, `context` the cached tokens per
    sequence, and `asked_context` what an own plan asked for, where that differs: samples grow, the more the longer the
    draft. `tree` is (nodes, levels) where the draft is a tree, both counting the root, and `widths` the nodes of each
    level, where they are known; then `gamma` is None and `draft_s` the mean of its passes. Two levels have no `gamma`
    either but `gammas`: the draft's tokens in an inner round, and the fewest that the target drafts of them over
    `middle_kv`; `draft_s` is then an inner round. `rounds` and `verified` are means: inner rounds of an iteration, and
    tokens of a sequence that its verification runs.
    """

    set_name: str
    row_id: str
    source: str
    hardware: str
    stack: str
    tp: int
    target: str
    weights: str
    batch: int
    context: int
    draft: str | None = None
    draft_kv: str | None = None
    gamma: int | None = None
    tree: tuple[int, int] | None = None
    widths: tuple[int, ...] | None = None
    middle_kv: str | None = None
    gammas: tuple[int, int] | None = None
    rounds: float | None = None
    verified: float | None = None
    target_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    overhead_s: float | None = None
    tokens_per_iteration: float | None = None
    alpha: float | None = None
    ar_tpot_s: float | None = None
    sd_tpot_s: float | None = None
    speedup: float | None = None
    asked_context: int | None = None
    kv_dtype: str = "bf16"
    notes: str = ""

    @property
    def drafts(self) -> float | None:
        """How often `draft_s` is spent in an iteration: draft steps, a tree's levels but the last, or inner rounds."""
        return self.tree[1] - 1 if self.tree else self.rounds if self.gammas else self.gamma

    @property
    def query(self) -> float:
        """Tokens of a sequence that a verification runs."""
        return self.tree[0] if self.tree else self.verified or 1.0 if self.gammas else (self.gamma or 0) + 1.0

    @property
    def drafted(self) -> str:
        """What an iteration drafts, in a table: gamma, the nodes of a tree's levels, or both levels' gammas."""
        if self.gammas:
            return f"{self.gammas[1]} by {self.gammas[0]}"
        return "-".join(map(str, self.widths)) if self.widths else f"{self.gamma}"

    @property
    def read(self) -> str:
        """KV methods that are drafted with, the upper level's first."""
        return f"{self.middle_kv} < {self.draft_kv}" if self.middle_kv else self.draft_kv or ""

    @property
    def iteration_s(self) -> float | None:
        """A whole speculative iteration, end to end."""
        return self.tokens_per_iteration * self.sd_tpot_s if self.tokens_per_iteration and self.sd_tpot_s else None


class HasId(BaseModel):
    """Any row of a file: named once in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Slug
    source: str = Field(min_length=8)


class Row(HasId):
    """What every published row states: who measured it, on what."""

    hardware: Slug
    stack: Slug
    tensor_parallel: PositiveInt
    weights: WeightName
    batch: PositiveInt
    notes: str = ""

    @field_validator("source")
    @classmethod
    def _source_says_something(cls, source: str) -> str:
        if not source.strip():
            raise ValueError("must name where the figure was printed")
        return source


class MagicDecRow(Row):
    """One row of MagicDec's tables: the three phases, tokens per iteration and both speeds."""

    target: Slug
    draft: Slug
    draft_kv: Slug
    kv_budget_tokens: PositiveInt
    kv_budget_assumed: bool
    task: str
    context_tokens: PositiveInt
    gamma: PositiveInt
    draft_total_ms: Milliseconds
    verify_ms: Milliseconds
    tokens_per_iteration: float = Field(ge=1, allow_inf_nan=False)
    ar_tpot_ms: Milliseconds
    sd_tpot_ms: Milliseconds
    speedup: Speedup

    @property
    def overhead_ms(self) -> float:
        """Iteration time that neither the drafts nor the verification account for."""
        return self.tokens_per_iteration * self.sd_tpot_ms - self.draft_total_ms - self.verify_ms

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        _check_tokens(self.tokens_per_iteration, self.gamma)
        low, high = OVERHEAD_RANGE_MS.get(self.hardware, (0.0, float("inf")))
        if not low <= self.overhead_ms <= high:
            raise ValueError(
                f"sd_tpot_ms: (draft_total_ms + verify_ms + overhead) / tokens_per_iteration must hold with an "
                f"overhead of {low:g} to {high:g} ms on {self.hardware}, given figures imply {self.overhead_ms:.2f} ms"
            )
        _check_ratio(self.speedup, self.ar_tpot_ms, self.sd_tpot_ms)
        return self

    def point(self) -> MeasuredPoint:
        """In seconds; a step of the baseline is the target step, the overhead is what is left over."""
        return MeasuredPoint(
            **_common("magicdec", self),
            target=self.target,
            draft=self.draft,
            draft_kv=f"{self.draft_kv}:{self.kv_budget_tokens}",
            context=self.context_tokens,
            gamma=self.gamma,
            target_s=self.ar_tpot_ms * MS,
            draft_s=self.draft_total_ms / self.gamma * MS,
            verify_s=self.verify_ms * MS,
            overhead_s=self.overhead_ms * MS,
            tokens_per_iteration=self.tokens_per_iteration,
            ar_tpot_s=self.ar_tpot_ms * MS,
            sd_tpot_s=self.sd_tpot_ms * MS,
            speedup=self.speedup,
        )


class GammaOptimalRow(Row):
    """An end-to-end speedup at the draft length that was measured to be best."""

    target: Slug
    draft: Slug
    draft_kv: Slug
    kv_budget_tokens: PositiveInt
    context_tokens: PositiveInt
    gamma_optimal: PositiveInt
    speedup: Speedup
    alpha: float = Field(gt=0, lt=1, allow_inf_nan=False)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.speedup > self.gamma_optimal + 1:
            raise ValueError(f"speedup: must be at most gamma_optimal + 1, given {self.speedup:g}")
        return self

    def point(self) -> MeasuredPoint:
        """`gamma` is the measured best one; no time of the source is known, only the ratio."""
        return MeasuredPoint(
            **_common("gamma_optimal", self),
            target=self.target,
            draft=self.draft,
            draft_kv=f"{self.draft_kv}:{self.kv_budget_tokens}",
            context=self.context_tokens,
            gamma=self.gamma_optimal,
            alpha=self.alpha,
            speedup=self.speedup,
        )


class GptFastRow(Row):
    """One baseline speed of gpt-fast's README; the device ran at a power limit."""

    power_limit_w: float = Field(gt=0, allow_inf_nan=False)
    model: Slug
    context_mid_tokens: PositiveInt
    tokens_per_s: float = Field(gt=0, allow_inf_nan=False)
    step_ms: Milliseconds

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        expected = 1000 * self.batch / self.tokens_per_s
        if abs(self.step_ms - expected) > 6e-4 + expected * HALF_DIGIT / self.tokens_per_s:
            raise ValueError(f"step_ms: must be 1000 x batch / tokens_per_s ({expected:.3f}), given {self.step_ms:g}")
        return self

    def point(self) -> MeasuredPoint:
        """Decoding only: a target step and nothing of speculation."""
        notes = "; ".join(filter(None, (f"power limited to {self.power_limit_w:g} W", self.notes)))
        return MeasuredPoint(
            **(_common("gptfast_decode", self) | {"notes": notes}),
            target=self.model,
            context=self.context_mid_tokens,
            target_s=self.step_ms * MS,
            ar_tpot_s=self.step_ms * MS,
        )


class SpeculationOtherRow(Row):
    """A tree-speculation figure that states device, batch, context, tree, accepted length and both step times."""

    target: Slug
    draft: Slug
    draft_kv: Slug
    task: str
    temperature: float = Field(ge=0, allow_inf_nan=False)
    prompt_tokens: PositiveInt
    generated_tokens: PositiveInt
    tree_size: int = Field(ge=2)
    tree_levels: int = Field(ge=2)
    tokens_per_iteration: float = Field(ge=1, allow_inf_nan=False)
    target_ms: Milliseconds
    draft_step_ms: Milliseconds
    speedup: Speedup

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.tree_levels > self.tree_size:
            raise ValueError(f"tree_levels: must be at most tree_size ({self.tree_size}), given {self.tree_levels}")
        _check_tokens(self.tokens_per_iteration, self.tree_levels - 1)
        drafts_ms = (self.tree_levels - 1) * self.draft_step_ms
        left_ms = self.tokens_per_iteration * self.target_ms / self.speedup - drafts_ms
        if left_ms < LEAST_VERIFICATION * self.target_ms:
            raise ValueError(
                f"speedup: must leave about one target step ({self.target_ms:g} ms) for the verification, "
                f"given {self.speedup:g} leaves {left_ms:.2f} ms"
            )
        return self

    def point(self) -> MeasuredPoint:
        """The context is that of the middle of the generation."""
        return MeasuredPoint(
            **_common("speculation_other", self),
            target=self.target,
            draft=self.draft,
            draft_kv=self.draft_kv,
            context=self.prompt_tokens + self.generated_tokens // 2,
            tree=(self.tree_size, self.tree_levels),
            target_s=self.target_ms * MS,
            draft_s=self.draft_step_ms * MS,
            tokens_per_iteration=self.tokens_per_iteration,
            ar_tpot_s=self.target_ms * MS,
            sd_tpot_s=self.target_ms / self.speedup * MS,
            speedup=self.speedup,
        )


def _common(set_name: str, row: Row) -> dict[str, Any]:
    return {
        "set_name": set_name,
        "row_id": row.id,
        "source": row.source,
        "hardware": row.hardware,
        "stack": row.stack,
        "tp": row.tensor_parallel,
        "weights": row.weights,
        "batch": row.batch,
        "notes": row.notes,
    }


def _check_tokens(tokens_per_iteration: float, drafted: int) -> None:
    if tokens_per_iteration > drafted + 1:
        raise ValueError(
            f"tokens_per_iteration: must be at most {drafted + 1} (drafted tokens in a row + 1), "
            f"given {tokens_per_iteration:g}"
        )


def _check_ratio(speedup: float, ar_ms: float, sd_ms: float) -> None:
    low = (ar_ms - HALF_DIGIT) / (sd_ms + HALF_DIGIT) - HALF_DIGIT
    high = (ar_ms + HALF_DIGIT) / (sd_ms - HALF_DIGIT) + HALF_DIGIT
    if not low - 1e-9 <= speedup <= high + 1e-9:
        raise ValueError(
            f"speedup: must be ar_tpot_ms / sd_tpot_ms ({ar_ms / sd_ms:.3f}) within rounding, given {speedup:g}"
        )


PublishedRow = MagicDecRow | GammaOptimalRow | GptFastRow | SpeculationOtherRow
ROW_TYPES: dict[str, type[PublishedRow]] = {
    "magicdec": MagicDecRow,
    "gamma_optimal": GammaOptimalRow,
    "gptfast_decode": GptFastRow,
    "speculation_other": SpeculationOtherRow,
}


AnyRow = TypeVar("AnyRow", bound=HasId)


def read_rows(path: Path, row_type: type[AnyRow]) -> tuple[AnyRow, ...]:
    """All rows of a CSV file, checked. Raises InputError naming file, line, row id and column of the first fault."""
    numbered = read_csv(path, row_type.model_fields)
    rows = tuple(_parse(path, line, cells, row_type) for line, cells in numbered)
    if not rows:
        raise InputError(f"{path}: must hold at least one row, given a header only")
    seen: set[str] = set()
    for (line, _), row in zip(numbered, rows, strict=True):
        if row.id in seen:
            raise InputError(f"{path}: line {line}: id: must be given once in a file, given {row.id!r} again")
        seen.add(row.id)
    return rows


def _parse(path: Path, line: int, cells: dict[str, Any], row_type: type[AnyRow]) -> AnyRow:
    place = f"{path}: line {line} (row {(cells.get('id') or '?')[:40]})"
    try:
        return row_type.model_validate(cells)
    except OverflowError:
        raise InputError(f"{place}: must hold numbers, given one of hundreds of digits") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        column = ".".join(map(str, fault["loc"]))  # a rule over several columns names its column in the message
        given = f", given {str(fault['input'])[:60]!r}" if column else ""
        message = fault["msg"].removeprefix("Value error, ")
        raise InputError(" ".join(f"{place}: {column + ': ' if column else ''}{message}{given}".split())) from None


@cache
def published_rows(set_name: str) -> tuple[PublishedRow, ...]:
    """The rows of one bundled set, as printed."""
    if set_name not in ROW_TYPES:
        raise unknown_name("--set", "published set", set_name, ROW_TYPES)
    path = PACKAGE / "results" / "published" / f"{set_name}.csv"
    return read_rows(path, ROW_TYPES[set_name])


def published_points(*set_names: str) -> tuple[MeasuredPoint, ...]:
    """The points of the named bundled sets, or of all of them."""
    return tuple(row.point() for name in set_names or ROW_TYPES for row in published_rows(name))
