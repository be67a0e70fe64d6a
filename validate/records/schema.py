"""The content of a record of measurements by this tool. The reader checks records against these classes, and
docs/records.md is generated from them.

A record has only raw samples of times. `summary.py` computes the statistics.
"""

import statistics
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from perfmodel.errors import shortened
from perfmodel.specs import Frozen, ModelSpec
from perfmodel.speculation.tree_shape import check_parents, depths
from perfmodel.validate.records.plan import Mode, Plan
from perfmodel.validate.records.plan_points import GridBlock, PlanPoint, Size

SCHEMA_VERSION = 2
SAMPLES: dict[str, dict[str, str]] = {
    "end_to_end": {
        "ar_s": "`iterations` baseline steps, timed as a whole",
        "sd_s": "`iterations` speculative iterations from the same cache contents, timed as a whole",
    },
    "phases": {
        "ar_target_s": "one target pass of the baseline (T_T)",
        "ar_accept_s": "sampling the baseline's token",
        "ar_commit_s": "storing that token in the caches",
        "sd_draft_s": "all draft passes of an iteration: gamma x T_D, or a tree's levels",
        "sd_verify_s": "the target's verification (T_V) of gamma + 1 tokens, or of a tree's nodes",
        "sd_accept_s": "accepting drafted tokens, and sampling the bonus token",
        "sd_commit_s": "writing these tokens to the caches and to the part of the cache that the draft "
        "reads, including updates that not every iteration makes",
    },
    "kernel": {"call_s": "time of one kernel call: the mean over `calls` calls timed together"},
}
"""Mode of a row (or ``kernel``) -> name of a sample -> the work that it times, in seconds."""
KERNEL_SIZES: dict[str, tuple[str, ...]] = {
    "copy": ("bytes",),
    "read": ("bytes",),
    "gemm": ("n", "k", "m"),
    "attention": ("heads", "kv_heads", "head_dim", "batch", "context", "query"),
    **dict.fromkeys(("add_norm", "norm", "residual"), ("tokens", "hidden", "kv_heads", "head_dim")),
    "rope": ("tokens", "heads", "kv_heads", "head_dim"),
    "activation": ("tokens", "inner", "kv_heads", "head_dim"),
    "sampling": ("batch", "vocab"),
    "shell": ("layers", "batch", "query"),
    "bare": ("batch", "query"),
    "loop": ("batch",),
    "allreduce": ("bytes",),
}
"""Kind of kernel -> the sizes that fits need."""
Seconds = Annotated[float, Meta(ge=0, lt=1e5)]
Time = Annotated[float, Meta(gt=0, lt=1e5)]
Count = Annotated[int, Meta(ge=0, le=10**15)]
Samples = Annotated[tuple[Time, ...], Meta(min_length=1)]
Key = Annotated[str, Meta(description="unique name of the row")]
Status = Annotated[Literal["ok", "out_of_memory", "failed"], Meta(description="`ok` if the row has times")]
Why = Annotated[str | None, Meta(description="reason for a missing time")]
Utc = Annotated[str | None, Meta(description="time at which the measurement ended (ISO 8601)")]
Load = Annotated[
    float | None, Meta(description="load average of the system over the last minute of the measurement")
]
Clocks = Annotated[
    dict[str, Any] | None,
    Meta(
        description="state of a CUDA device during the measurement: lowest `sm_mhz` and `mem_mhz`, highest "
        "`temperature_c`, and all reasons for lower clocks (`throttle`, as bits of NVML)"
    ),
]
SamplesByName = Annotated[
    dict[str, Samples], Meta(description="raw samples in seconds, by the names of the samples (listed below)")
]
THREAD_TIME = "thread_time"
"""Timer that counts only the CPU time of one thread, without the time of other processes."""


class _Part(Frozen, forbid_unknown_fields=False):
    """A part of a record. Only the keys that this reader needs are checked. Other keys are ignored."""


class PointRow(PlanPoint):
    """One point of the plan in one mode."""

    key: Key
    status: Status
    error: Why = None
    utc: Utc = None
    load_average: Load = None
    clocks: Clocks = None
    samples: SamplesByName = field(default_factory=dict)
    mode: Annotated[Mode, Meta(description="`end_to_end` times the whole loop, `phases` times its parts")]
    iterations: Annotated[Size | None, Meta(description="number of iterations per sample")] = None
    tokens: Annotated[
        dict[str, tuple[Count, ...]],
        Meta(
            description="number of tokens that all sequences gain in each sample, for the baseline (`ar`) "
            "and for speculation (`sd`)"
        ),
    ] = field(default_factory=dict)
    histogram: Annotated[
        tuple[Count, ...] | None,
        Meta(description="number of speculative iterations with 0, 1, ... accepted tokens, over all samples"),
    ] = None
    mean_growth_tokens: Annotated[
        float,
        Meta(
            ge=0,
            le=1e12,
            description="half the number of tokens that a sequence gains during a speculative sample",
        ),
    ] = 0.0
    peak_memory_bytes: Annotated[int | None, Meta(description="peak memory use on a CUDA device")] = None
    attention: Annotated[str | None, Meta(description="attention kernel in use")] = None
    graphs: Annotated[
        bool | None, Meta(description="true if the speculative iterations were captured CUDA graphs")
    ] = None

    def __post_init__(self) -> None:
        _check_samples(self, self.mode)
        if self.parents is not None:
            check_parents(self.parents)
            if self.gamma != depths(self.parents)[-1]:
                raise ValueError(
                    f"gamma: must be the {depths(self.parents)[-1]} levels below the tree's root"
                )
        elif self.alpha is None:
            raise ValueError("alpha: must be given where there is no tree")
        if self.histogram is not None and len(self.histogram) != self.gamma + 1:
            raise ValueError(
                f"histogram: must have gamma + 1 = {self.gamma + 1} counts, given {len(self.histogram)}"
            )
        outside = {len(self.samples[name]) for name in ("sd_accept_s", "sd_commit_s") if name in self.samples}
        if len(outside) > 1:
            raise ValueError("samples: sd_accept_s and sd_commit_s must be of the same iterations")


class KernelRow(_Part):
    """One kernel at one size."""

    key: Key
    status: Status
    error: Why = None
    utc: Utc = None
    load_average: Load = None
    clocks: Clocks = None
    samples: SamplesByName = field(default_factory=dict)
    kind: Annotated[str, Meta(description="kind of kernel")]
    at: Annotated[dict[str, Any], Meta(description="sizes of the kernel")]
    calls: Annotated[int | None, Meta(description="number of calls that are timed together")] = None
    captured: Annotated[
        bool | None, Meta(description="true if these calls were captured as a CUDA graph")
    ] = None
    working_set_bytes: Annotated[
        float, Meta(ge=0, description="total size of the buffers, which are used in turn")
    ] = 0.0

    def __post_init__(self) -> None:
        _check_samples(self, "kernel")
        for name in KERNEL_SIZES.get(self.kind, ()):
            size = self.at.get(name)
            if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 10**15:
                raise ValueError(
                    f"at.{name}: must be a whole number from 1 to 10^15 for a {self.kind} kernel"
                )

    @property
    def call_s(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples["call_s"])

    @property
    def best_s(self) -> float:
        """The fastest sample."""
        return min(self.samples["call_s"])


class RecordedBlock(GridBlock, forbid_unknown_fields=False):
    """A block in a record. Some old records have further keys, which are always null."""


class RecordedPlan(Plan):
    """The plan as it was run, with all defaults filled in."""

    grid: Annotated[
        tuple[RecordedBlock, ...],
        Meta(min_length=1, description="blocks of points (see [GridBlock](#gridblock))"),
    ]
    shapes: Annotated[
        dict[str, ModelSpec], Meta(description="full shape of each model at the time of the run")
    ]


class RecordedProtocol(_Part):
    """The protocol of the plan, and how long it takes to read the clock."""

    timer: Annotated[
        str,
        Meta(
            description="`perf_counter` on a CPU, `thread_time` on one thread of a CPU, `cuda_event` on CUDA"
        ),
    ]
    timer_overhead_s: Annotated[Seconds, Meta(description="mean time of an empty measurement, in seconds")]
    samples: Annotated[Size, Meta(description="number of samples per row")]
    iterations: Annotated[
        int | None, Meta(description="number of iterations per sample (`measure` only)")
    ] = None
    stretch_s: Annotated[
        Seconds | None,
        Meta(
            description="intended duration in seconds of the calls that are timed together (`microbench` "
            "only)"
        ),
    ] = None


class Device(_Part):
    """The device. For CUDA, it includes clocks, driver, power limit and temperature as `nvidia-smi` prints
    them.
    """

    kind: Literal["cpu", "cuda"]
    name: Annotated[str, Meta(pattern=r"\w", description="name that the device reports")]
    bf16: Annotated[
        str | None, Meta(description="how a CPU computes in bf16: `amx`, `avx512` or `emulated`")
    ] = None
    last_level_cache_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=2**50)] | None,
        Meta(description="size of the last-level cache that the system reports"),
    ] = None


class Environment(_Part):
    """The device, system and libraries that the times depend on. This part has no host name, user name or
    path.
    """

    device: Device
    system: Annotated[str, Meta(description="operating system and architecture")]
    libraries: Annotated[dict[str, str], Meta(description="version of each library")]
    threads: Annotated[Size, Meta(description="number of threads of torch")]
    memory_bytes: Annotated[int, Meta(ge=1, le=2**60, description="size of the host's memory")]
    world_size: Annotated[Size, Meta(description="number of processes that share the model")]


class _Record(_Part):
    """The fields of every record, except its rows."""

    crc32: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{8}\Z")] | None,
        Meta(description="checksum of the rest of the file; must be the first key"),
    ] = None
    schema_version: Annotated[int, Meta(description=f"must be {SCHEMA_VERSION}")]
    machine: Annotated[str, Meta(description="label of the machine, and name of its folder in `results/`")]
    hardware: Annotated[
        str, Meta(description="device of the predictions: a name, or a file in the same folder")
    ]
    calibration: Annotated[
        str | None,
        Meta(
            description="calibration used for the predictions, if different from the device's own: a name, "
            "or a file in the same folder"
        ),
    ] = None
    commit: Annotated[
        str, Meta(pattern=r"^([0-9a-f]{8,40}|unknown)\Z", description="commit of the code, or `unknown`")
    ]
    dirty: Annotated[bool, Meta(description="true if the working tree differed from the commit")]
    commit_from: Annotated[
        str | None, Meta(description="source of the commit's name: `git`, `PERFMODEL_COMMIT` or the version")
    ] = None
    source_sha256: Annotated[
        str | None, Meta(description="hash of the code and data files that a run depends on")
    ] = None
    plan_sha256: Annotated[
        str | None, Meta(description="hash of the plan and its shapes, which `--resume` compares")
    ] = None
    plan: RecordedPlan
    environment: Environment
    protocol: RecordedProtocol


class PointRecord(_Record):
    """A record of `perfmodel validate measure`."""

    kind: Literal["measure"]
    points: tuple[PointRow, ...]

    def __post_init__(self) -> None:
        _check_keys(self.points)


class KernelRecord(_Record):
    """A record of `perfmodel validate microbench`."""

    kind: Literal["microbench"]
    kinds: Annotated[tuple[str, ...], Meta(description="kinds of kernels that were timed")] = ()
    points: tuple[KernelRow, ...]

    def __post_init__(self) -> None:
        _check_keys(self.points)


def _check_samples(row: PointRow | KernelRow, kind: str) -> None:
    """Raises ValueError if a row with times lacks a sample of its mode.

    - kind: a key of `SAMPLES`.
    """
    missing = [name for name in SAMPLES[kind] if name not in row.samples]
    if row.status == "ok" and missing:
        raise ValueError(f"samples: must hold {', '.join(missing)} where status is ok")


def _check_keys(rows: Iterable[PointRow | KernelRow]) -> None:
    """Raises ValueError if two rows have the same key."""
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if row.key in seen:
            raise ValueError(f"points.{number}.key: must be given once, given {shortened(row.key)!r} again")
        seen.add(row.key)
