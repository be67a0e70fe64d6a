"""Published step times of serving engines, with and without speculation, and what verification attention costs them."""

from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from perfmodel.specs import PACKAGE
from perfmodel.specs.formats import KVName, WeightName
from perfmodel.specs.published import AnyRow, HasId, Milliseconds, Slug, Speedup, read_rows

MS = 1e-3
EngineName = Literal["vllm", "trtllm", "sglang"]
Tokens = Annotated[float, Field(ge=0, le=2**24, allow_inf_nan=False)]
Day = Annotated[str, Field(pattern=r"^$|^\d{4}-\d{2}-\d{2}$")]
MeasuredAs = Literal["step", "median ITL", "median chunk gap", "mean TPOT", "median TPOT"]
RATIO_SLACK = 0.02
"""What a printed speedup may be off the ratio of the times printed beside it: medians and means are mixed."""


class EngineRow(HasId):
    """What every row of a live engine states."""

    engine: EngineName
    engine_version: str = Field(min_length=1)
    hardware: Slug
    tensor_parallel: PositiveInt
    weights: WeightName
    kv_dtype: KVName
    batch: PositiveInt
    running: Annotated[float, Field(gt=0, le=2**20, allow_inf_nan=False)] | None
    notes: str = ""

    @field_validator("running", mode="before")
    @classmethod
    def _unstated(cls, cell: Any) -> Any:
        return None if cell == "" else cell


class DecodeRow(EngineRow):
    """One baseline step of a batch. context_std_tokens: over the sequences of the batch."""

    model: Slug
    expert_parallel: PositiveInt
    context_tokens: Tokens
    context_std_tokens: Tokens
    step_ms: Milliseconds
    measured_as: MeasuredAs
    samples: PositiveInt
    date: Day

    @property
    def step_s(self) -> float:
        """Seconds."""
        return self.step_ms * MS

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.batch == 1 and self.measured_as == "step" and self.context_std_tokens:
            raise ValueError(f"context_std_tokens: must be 0 for one sequence, given {self.context_std_tokens:g}")
        if self.tensor_parallel % self.expert_parallel:
            raise ValueError(f"expert_parallel: must divide tensor_parallel, given {self.expert_parallel}")
        return self


class EngineSpeculationRow(EngineRow):
    """One speculating run beside the baseline. `clean` no: steps with prefill in them are part of the times.

    A chain drafts `steps` tokens (`topk` 1); otherwise a tree of `verified_tokens`, its root included. Blank cells: the
    source does not say.
    """

    target: Slug
    context_tokens: Tokens | None
    task: str
    draft: str = Field(min_length=3)
    steps: PositiveInt
    topk: PositiveInt
    verified_tokens: int = Field(ge=2)
    tokens_per_iteration: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None
    expert_parallel: PositiveInt
    data_parallel: PositiveInt
    positions: str
    step_ms: Milliseconds | None
    iteration_ms: Milliseconds | None
    speedup: Speedup
    clean: bool
    date: str

    @field_validator("context_tokens", "step_ms", "iteration_ms", "tokens_per_iteration", mode="before")
    @classmethod
    def _blank_is_none(cls, cell: Any) -> Any:
        return None if cell == "" else cell

    @property
    def is_chain(self) -> bool:
        """Whether one token is drafted after the other."""
        return self.topk == 1 and self.verified_tokens == self.steps + 1

    @property
    def ratio(self) -> float | None:
        """An iteration over a baseline step."""
        return self.iteration_ms / self.step_ms if self.iteration_ms and self.step_ms else None

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if (self.tokens_per_iteration or 1) > self.steps + 1:
            raise ValueError(f"tokens_per_iteration: must be at most steps + 1, given {self.tokens_per_iteration:g}")
        if self.positions:
            gained = 1.0 + sum(map(float, self.positions.split("/")))
            if abs(gained - (self.tokens_per_iteration or 0)) > RATIO_SLACK:
                raise ValueError(f"positions: must add up to tokens_per_iteration - 1, given figures gain {gained:.3f}")
        return self


class VerifyAttentionRow(HasId):
    """What somebody measured, or states, of the attention kernel that verifies; cells as the source has them."""

    engine: str
    hardware: str
    model: str
    tensor_parallel: str
    kernel: str
    kind: str
    query_tokens: str
    batch: str
    context: str
    value: str
    unit: str
    reference: str
    ratio: str
    reading: str


def engine_decode() -> tuple[DecodeRow, ...]:
    """Baseline steps."""
    return _read("engine_decode", DecodeRow)


def engine_speculation() -> tuple[EngineSpeculationRow, ...]:
    """Speculating runs."""
    return _read("engine_speculation", EngineSpeculationRow)


def verify_attention() -> tuple[VerifyAttentionRow, ...]:
    """Verification attention, measured or stated."""
    return _read("engine_verify_attention", VerifyAttentionRow)


@cache
def _read(name: str, row_type: type[AnyRow]) -> tuple[AnyRow, ...]:
    return read_rows(PACKAGE / "results" / "published" / f"{name}.csv", row_type)
