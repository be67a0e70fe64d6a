"""Reads and checks plans of measurements, which are YAML files, and lists their points."""

import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from perfmodel.errors import InputError, about_file, unknown_name
from perfmodel.reading import is_file
from perfmodel.specs import (
    Frozen,
    ModelSpec,
    Positive,
    Precision,
    files,
    kv_format,
    load_gpu,
    load_model,
    weight_format,
)
from perfmodel.validate.records.plan_points import Counts, GridBlock, PlanPoint

FOLDER = Path(__file__).parents[1] / "plans"
"""The folder of the bundled plans."""
SHAPES = FOLDER / "shapes"
"""The folder of the shapes of models that were made for measurements."""
MIN_SAMPLES = 7
"""Smallest number of samples of a row, so its median and quartiles are meaningful."""
Mode = Literal["end_to_end", "phases"]
MOST_POINTS = 10_000
"""Largest number of points of a plan. A larger plan is probably a mistake."""
DType = Literal["bf16", "fp16", "fp32", "fp8"]


class Precisions(Frozen):
    """These fields give the formats of the weights (and activations) and of the cache."""

    weights: Annotated[
        DType, Meta(description="format of weights and activations; with `fp8` weights, activations are bf16")
    ] = "bf16"
    kv: Annotated[DType, Meta(description="format of the cache: that of the activations, or `fp8`")] = "bf16"

    def __post_init__(self) -> None:
        if self.kv not in (self.activations, "fp8"):
            raise ValueError("kv must equal weights (bf16 if weights is fp8) or be fp8")

    @property
    def activations(self) -> DType:
        """Type of activations, embedding, LM head and norms."""
        return "bf16" if self.weights == "fp8" else self.weights


class Protocol(Frozen):
    """The protocol of a point: baseline and speculative samples alternate, with the same cache contents."""

    modes: Annotated[
        tuple[Mode, ...],
        Meta(min_length=1, description="`end_to_end` times whole loops, `phases` times the parts of a loop"),
    ] = (
        "end_to_end",
        "phases",
    )
    warmup: Annotated[Positive, Meta(description="number of samples to discard at the start")] = 1
    samples: Annotated[int, Meta(ge=MIN_SAMPLES, description="number of samples per row")] = MIN_SAMPLES
    within: Annotated[
        Annotated[float, Meta(gt=0.0, lt=1.0)] | None,
        Meta(
            description="take `end_to_end` samples until the half-width of the 90 % interval is below this "
            "share of the speedup"
        ),
    ] = None
    seconds: Annotated[
        Positive, Meta(description="if `within` is set: maximum total time of a row's samples, in seconds")
    ] = 20
    iterations: Annotated[Positive, Meta(description="number of iterations of the loop per sample")] = 4
    read_every: Annotated[
        Positive, Meta(description="number of iterations between two reads of the sequence lengths")
    ] = 4
    graphs: Annotated[
        bool, Meta(description="on CUDA, capture iterations and phases as graphs and replay them")
    ] = True
    seed: Annotated[int, Meta(ge=0, description="random seed of cache contents and acceptance")] = 0

    def __post_init__(self) -> None:
        if len({*self.modes}) < len(self.modes):
            raise ValueError("modes: must name each mode once")


class Micro(Frozen):
    """Sizes of the microbenchmarks."""

    rows: Annotated[Counts, Meta(description="numbers of rows (M) of the GEMMs")] = (
        1,
        2,
        4,
        8,
        12,
        16,
        24,
        32,
        48,
        64,
        96,
        128,
        129,
        160,
        192,
        256,
        257,
        512,
        1024,
        2048,
        4096,
    )
    max_bytes: Annotated[Positive, Meta(description="size of the largest buffer to copy and read")] = 2**31
    sweeps: Annotated[
        Positive, Meta(description="number of rounds in which all kernels are timed, one after another")
    ] = 1


class Plan(Frozen):
    """A plan of measurements: a YAML file of `validate/plans`, or your own."""

    schema_version: Literal[1]
    name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9-]{0,60}\Z",
            description="name of the file, which may contain a-z, 0-9 and -",
        ),
    ]
    title: Annotated[str, Meta(min_length=8, description="purpose, in one line")]
    device: Annotated[Literal["cpu", "cuda"], Meta(description="kind of device")]
    hardware: Annotated[str, Meta(description="device of the predictions; `--hardware` overrides it")]
    tensor_parallel: Annotated[
        Positive, Meta(description="number of processes that torchrun starts and that share the model")
    ] = 1
    attention: Annotated[
        Literal["auto", "math", "sdpa", "triton", "triton-unsplit"], Meta(description="attention kernel")
    ] = "auto"
    threads: Annotated[
        Positive | None, Meta(description="number of CPU threads; by default, torch chooses it")
    ] = None
    precision: Precisions = Precisions()
    grid: Annotated[
        tuple[GridBlock, ...], Meta(min_length=1, description="blocks of points; no point may occur twice")
    ]
    protocol: Protocol = Protocol()
    micro: Micro = Micro()

    def __post_init__(self) -> None:
        if self.protocol.within is not None and self.tensor_parallel > 1:
            raise ValueError("protocol.within: must be left out where tensor_parallel is above 1")
        points = sum(block.count for block in self.grid)
        if points > MOST_POINTS:
            raise ValueError(f"grid: must be at most {MOST_POINTS} points, given {points}")
        seen: set[str] = set()
        for key in (point.name for point in self.points()):
            if key in seen:
                raise ValueError(f"grid: each point must be asked for once, given twice: {key}")
            seen.add(key)

    def points(self) -> list[PlanPoint]:
        """Every point of every block, in order."""
        return [point for block in self.grid for point in block.points()]

    def restricted_to(self, wanted: Callable[[PlanPoint], bool]) -> "Plan | None":
        """The plan with only those pairs of batch and context whose points are all wanted; None if there are
        none.
        """
        blocks = []
        cells = 0
        for block in self.grid:
            for context, batch in itertools.product(block.context, block.batch):
                cells += 1
                cell = block.replace(context=(context,), batch=(batch,))
                if all(wanted(p) for p in block.points() if (p.context, p.batch) == (context, batch)):
                    blocks.append(cell)
        if len(blocks) == cells:
            return self
        return self.replace(grid=tuple(blocks)) if blocks else None

    def runs(self) -> list[tuple[PlanPoint, Mode]]:
        """Every point in every mode. These are the rows of the record."""
        return [(point, mode) for point in self.points() for mode in self.protocol.modes]

    def precisions(self) -> Precision:
        """The formats as predictions name them. On a CPU, fp8 weights have the format ``fp8-wo``, because
        they are converted before products.
        """
        weights = weight_format(self.precision.weights)
        on_device = weights.within(("bf16", "fp32")) if self.device == "cpu" else weights
        return Precision(on_device, kv_format(self.precision.kv))

    @property
    def digest(self) -> str:
        """The digest of the plan and of the shapes of its models. A resumed run must have the same digest."""
        return hashlib.sha256(json.dumps(self.resolved(), sort_keys=True).encode()).hexdigest()

    def resolved(self) -> dict[str, Any]:
        """The plan with all defaults and the full shape of every model, as records keep it."""
        names = {n for block in self.grid for n in (block.target, block.draft) if n != "self"}
        shapes = {name: spec_of(name).as_mapping(exclude_defaults=True) for name in sorted(names)}
        return {**self.as_mapping(), "shapes": shapes}


def model_reference(name: str) -> str:
    """A name for `load_model`: the path of the file in `SHAPES` if there is one, and otherwise the name
    itself.
    """
    path = SHAPES / f"{name}.yaml"
    return str(path) if is_file(path) else name


def spec_of(name: str) -> ModelSpec:
    """The model with this name, or the shape with this name that was made for measurements."""
    return load_model(model_reference(name), "plan")


def plan_names() -> tuple[str, ...]:
    """The names of the bundled plans."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_plan(name: str) -> Plan:
    """The plan with a bundled name or a path. Raises InputError, which names the file and the key. Every
    model in the plan must exist.
    """
    path = Path(name) if files.looks_like_path(name) else FOLDER / f"{name}.yaml"
    if not files.looks_like_path(name) and name not in plan_names():
        raise unknown_name("plan", "plan", name, plan_names())
    plan = files.parse(Plan, files.read_mapping(path), str(path))
    with about_file(path):
        load_gpu(plan.hardware, "hardware")
        try:
            plan.resolved()
        except InputError as error:
            raise InputError(f"grid: {error.as_flags.removeprefix('plan: ')}") from None
    return plan
