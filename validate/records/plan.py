"""What to measure: a YAML plan, checked, and the points it spells out."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from perfmodel.errors import InputError, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.specs import files
from perfmodel.specs.formats import Precision, kv_format, weight_format
from perfmodel.specs.model import ModelSpec, load_model

FOLDER = Path(__file__).parents[1] / "plans"
SHAPES = FOLDER / "shapes"
MIN_SAMPLES = 7
Mode = Literal["end_to_end", "phases"]
Counts = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
DType = Literal["bf16", "fp16", "fp32"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Precisions(_Strict):
    """Formats of weights (and activations) and of the cache."""

    weights: DType = "bf16"
    kv: DType = "bf16"

    @model_validator(mode="after")
    def _same(self) -> Self:
        if self.weights != self.kv:
            raise ValueError("the decoder keeps its cache in the type of its weights: kv must equal weights")
        return self


class Block(_Strict):
    """One rectangle of the grid: every batch with every context, gamma and KV method.

    target, draft: a model's name, or that of a file in ``validate/plans/shapes``; draft ``self`` is the target itself.
    weights, draft_weights: ``random:SEED``. alpha: scripted acceptance, at which speculation advances.
    """

    target: str
    weights: str = Field("random:0", pattern=r"^random:\d+$")
    draft: str = "self"
    draft_weights: str = Field("random:1", pattern=r"^random:\d+$")
    draft_kv: tuple[str, ...] = Field(("full",), min_length=1)
    batch: Counts
    context: Counts
    gamma: Counts
    alpha: float = Field(ge=0, le=1)

    @field_validator("draft_kv")
    @classmethod
    def _known(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        for text in methods:
            try:
                parse_kv(text, "draft_kv")
            except InputError as error:
                raise ValueError(str(error)) from None
        return methods

    def points(self) -> Iterator["Point"]:
        """Target and context outermost, so that models and caches change as seldom as possible."""
        for context, batch, kv, gamma in itertools.product(self.context, self.batch, self.draft_kv, self.gamma):
            yield Point(
                self.target, self.weights, self.draft, self.draft_weights, kv, batch, context, gamma, self.alpha
            )


class Protocol(_Strict):
    """How each point is timed.

    A sample is `iterations` iterations of the loop, from the same cache contents; `warmup` samples are thrown away.
    Plain and speculative samples take turns. read_every: iterations after which the loop looks at its lengths.
    graphs: on CUDA, replay captured iterations (and captured phases).
    """

    modes: tuple[Mode, ...] = Field(default=("end_to_end", "phases"), min_length=1)
    warmup: PositiveInt = 1
    samples: int = Field(default=MIN_SAMPLES, ge=MIN_SAMPLES)
    iterations: PositiveInt = 4
    read_every: PositiveInt = 4
    graphs: bool = True
    seed: int = Field(default=0, ge=0)

    @field_validator("modes")
    @classmethod
    def _once(cls, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        if len({*modes}) < len(modes):
            raise ValueError("must name each mode once")
        return modes


class Micro(_Strict):
    """Sizes of the microbenchmarks: GEMM rows (M) and the most memory that is copied and read, in bytes."""

    rows: Counts = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 129, 160, 192, 256, 257, 512, 1024, 2048, 4096)
    max_bytes: PositiveInt = 2**31


class Plan(_Strict):
    """A whole plan. hardware: the device that predictions are for; ``--hardware`` puts another in its place."""

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")
    title: str = Field(min_length=8)
    device: Literal["cpu", "cuda"]
    hardware: str
    tensor_parallel: PositiveInt = 1
    attention: Literal["auto", "math", "sdpa", "triton"] = "auto"
    threads: PositiveInt | None = None
    precision: Precisions = Precisions()
    grid: tuple[Block, ...] = Field(min_length=1)
    protocol: Protocol = Protocol()
    micro: Micro = Micro()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        for key in (point.key for point in self.points()):
            if key in seen:
                raise ValueError(f"grid: each point must be asked for once, given twice: {key}")
            seen.add(key)
        return self

    def points(self) -> list["Point"]:
        """Every point of every block, in order."""
        return [point for block in self.grid for point in block.points()]

    def runs(self) -> list[tuple["Point", Mode]]:
        """Every point in every mode: the rows of the record."""
        return [(point, mode) for point in self.points() for mode in self.protocol.modes]

    def precisions(self) -> Precision:
        """As the engine counts them."""
        return Precision(weight_format(self.precision.weights), kv_format(self.precision.kv))

    @property
    def digest(self) -> str:
        """What a run is resumed against: the plan's contents and those of the shapes it names."""
        return hashlib.sha256(json.dumps(self.resolved(), sort_keys=True).encode()).hexdigest()

    def resolved(self) -> dict[str, Any]:
        """The plan with all defaults and the full shape of every model, as records keep it."""
        names = {n for block in self.grid for n in (block.target, block.draft) if n != "self"}
        shapes = {name: spec_of(name).model_dump(mode="json", exclude_defaults=True) for name in sorted(names)}
        return {**self.model_dump(mode="json"), "shapes": shapes}


@dataclass(frozen=True, slots=True)
class Point:
    """One point to measure."""

    target: str
    weights: str
    draft: str
    draft_weights: str
    draft_kv: str
    batch: int
    context: int
    gamma: int
    alpha: float

    @property
    def key(self) -> str:
        """Names the point within its plan."""
        return f"{self.target}/{self.draft}/{self.draft_kv}/b{self.batch}/s{self.context}/g{self.gamma}/a{self.alpha:g}"

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)


def model_reference(name: str) -> str:
    """What `load_model` understands: the path of a shape of this folder, else the name itself."""
    path = SHAPES / f"{name}.yaml"
    return str(path) if path.is_file() else name


def spec_of(name: str) -> ModelSpec:
    """A model by name, or a shape made for measuring."""
    return load_model(model_reference(name), "plan")


def plan_names() -> tuple[str, ...]:
    """The plans that ship."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_plan(name: str) -> Plan:
    """A plan by bundled name or path. Raises InputError naming file and key; every model it names must exist."""
    path = Path(name) if files.looks_like_path(name) else FOLDER / f"{name}.yaml"
    if not files.looks_like_path(name) and name not in plan_names():
        raise unknown_name("plan", "plan", name, plan_names())
    plan = files.parse(Plan, files.read_mapping(path), str(path))
    plan.resolved()
    return plan
