"""The content of a record of own measurements, declared once: the reader checks it, docs/records.md is made
from it.

Of times a record keeps only raw samples; `summary.py` makes the statistics.
"""

import statistics
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.models.model import ModelSpec
from perfmodel.speculation.tree_shape import check_parents, depths
from perfmodel.validate.records.plan import Mode, Plan
from perfmodel.validate.records.plan_points import PlanPoint, Size

SCHEMA_VERSION = 2
SAMPLES: dict[str, dict[str, str]] = {
    "end_to_end": {
        "ar_s": "`iterations` steps of the baseline, nothing timed inside",
        "sd_s": "`iterations` speculative iterations from the same cache contents, nothing timed inside",
    },
    "phases": {
        "ar_target_s": "one target pass of the baseline (T_T)",
        "ar_accept_s": "drawing its token",
        "ar_commit_s": "its caches taking the token",
        "sd_draft_s": "all draft passes of an iteration: gamma x T_D, a tree's levels, all inner "
        "rounds of two levels",
        "sd_verify_s": "the target's verification (T_V) of gamma + 1 tokens, a tree's nodes, or all "
        "that was drafted",
        "sd_accept_s": "which drafted tokens are accepted, and the bonus token",
        "sd_commit_s": "caches and the draft's view taking them, periodic work included",
    },
    "kernel": {"call_s": "one call of the kernel, the mean of a stretch of `calls` calls"},
}
"""Mode of a row (or ``kernel``) -> its samples: name -> the timed work, in seconds."""
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
"""Kind of kernel -> the sizes that a fit reads of it."""
Seconds = Annotated[float, Meta(ge=0, lt=1e5)]
Time = Annotated[float, Meta(gt=0, lt=1e5)]
Count = Annotated[int, Meta(ge=0, le=10**15)]
Samples = Annotated[tuple[Time, ...], Meta(min_length=1)]


Key = Annotated[str, Meta(description="its name, once in a record")]
Status = Annotated[Literal["ok", "out_of_memory", "failed"], Meta(description="whether there is a time")]
Why = Annotated[str | None, Meta(description="why there is none")]
Utc = Annotated[str | None, Meta(description="when it was finished, ISO 8601")]
Load = Annotated[float | None, Meta(description="of the system over the last minute, then")]
Clocks = Annotated[
    dict[str, Any] | None,
    Meta(
        description="of a CUDA device while it was measured: slowest `sm_mhz` and `mem_mhz`, highest "
        "`temperature_c`, and every reason it gave for a lower clock (`throttle`, bits as NVML has them)"
    ),
]
SamplesByName = Annotated[dict[str, Samples], Meta(description="raw samples in seconds, by name (below)")]


class _Part(Frozen, forbid_unknown_fields=False):
    """A record may have more keys than this reader needs; the needed ones are checked."""


class PointRow(PlanPoint):
    """One point of the plan in one mode."""

    key: Key
    status: Status
    error: Why = None
    utc: Utc = None
    load_average: Load = None
    clocks: Clocks = None
    samples: SamplesByName = field(default_factory=dict)
    mode: Annotated[
        Mode, Meta(description="`end_to_end`: whole samples of the loop; `phases`: its parts, one by one")
    ]
    iterations: Annotated[Size | None, Meta(description="iterations in a sample")] = None
    tokens: Annotated[
        dict[str, tuple[Count, ...]],
        Meta(description="tokens gained in each sample, all sequences: `ar`, `sd`"),
    ] = field(default_factory=dict)
    histogram: Annotated[
        tuple[Count, ...] | None,
        Meta(
            description="speculative iterations by accepted drafted tokens, 0 to the most there can be, "
            "over all samples"
        ),
    ] = None
    rounds: Annotated[
        tuple[Count, ...],
        Meta(description="two levels: inner rounds, in each sample (`end_to_end`) or iteration (`phases`)"),
    ] = ()
    verified: Annotated[
        tuple[Count, ...], Meta(description="two levels: tokens of a sequence that were verified, likewise")
    ] = ()
    mean_growth_tokens: Annotated[
        float, Meta(ge=0, le=1e12, description="half of what a sequence grows by in a speculative sample")
    ] = 0.0
    peak_memory_bytes: Annotated[int | None, Meta(description="largest memory in use on a CUDA device")] = (
        None
    )
    attention: Annotated[str | None, Meta(description="the attention kernel that ran")] = None
    graphs: Annotated[
        bool | None, Meta(description="whether the speculative iterations were captured CUDA graphs")
    ] = None

    def __post_init__(self) -> None:
        _check_samples(self, self.mode)
        self._check_drafted()
        most = self.max_accepted
        if self.histogram is not None and len(self.histogram) != most + 1:
            raise ValueError(
                f"histogram: must have gamma + 1 = {most + 1} counts, given {len(self.histogram)}"
            )
        outside = {len(self.samples[name]) for name in ("sd_accept_s", "sd_commit_s") if name in self.samples}
        if len(outside) > 1:
            raise ValueError("samples: sd_accept_s and sd_commit_s must be of the same iterations")

    def _check_drafted(self) -> None:
        if self.parents is not None:
            check_parents(self.parents)
            if self.gamma != depths(self.parents)[-1]:
                raise ValueError(
                    f"gamma: must be the {depths(self.parents)[-1]} levels below the tree's root"
                )
        elif self.alpha is None:
            raise ValueError("alpha: must be given where there is no tree")
        if (self.middle_kv is None) != (self.inner_gamma is None):
            raise ValueError("middle_kv, inner_gamma: must be given together")
        timed = self.samples.get("sd_s" if self.mode == "end_to_end" else "sd_draft_s", ())
        for name, counts in (("rounds", self.rounds), ("verified", self.verified)):
            if len(counts) != (len(timed) if self.middle_kv is not None else 0) or 0 in counts:
                raise ValueError(f"{name}: must be a count of each of the {len(timed)} samples of two levels")


class KernelRow(_Part):
    """One kernel at one size."""

    key: Key
    status: Status
    error: Why = None
    utc: Utc = None
    load_average: Load = None
    clocks: Clocks = None
    samples: SamplesByName = field(default_factory=dict)
    kind: Annotated[str, Meta(description="which kernel")]
    at: Annotated[dict[str, Any], Meta(description="its sizes")]
    calls: Annotated[int | None, Meta(description="calls in a stretch that is timed as one")] = None
    captured: Annotated[bool | None, Meta(description="whether the stretch was a CUDA graph")] = None
    working_set_bytes: Annotated[
        float, Meta(ge=0, description="what its buffers take together: they take turns")
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


class RecordedPlan(Plan):
    """The plan with all defaults, as it was run."""

    shapes: Annotated[dict[str, ModelSpec], Meta(description="model -> its full shape, as it was then")]


class RecordedProtocol(_Part):
    """How it was timed: the plan's protocol for points, and the clock's own time."""

    timer: Annotated[str, Meta(description="`perf_counter` on a CPU, `cuda_event` on CUDA")]
    timer_overhead_s: Annotated[Seconds, Meta(description="mean of timing nothing, s")]
    samples: Annotated[Size, Meta(description="samples of each row")]
    iterations: Annotated[int | None, Meta(description="iterations in a sample (measure)")] = None
    stretch_s: Annotated[
        Seconds | None, Meta(description="aimed length of a stretch of calls, s (microbench)")
    ] = None


class Device(_Part):
    """The device; on CUDA with clocks, driver, power limit and temperature as `nvidia-smi` prints them."""

    kind: Literal["cpu", "cuda"]
    name: Annotated[str, Meta(pattern=r"\w", description="as it calls itself")]
    bf16: Annotated[str | None, Meta(description="of a CPU: `amx`, `avx512` or `emulated`")] = None
    last_level_cache_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=2**50)] | None, Meta(description="as the system reports it")
    ] = None


class Environment(_Part):
    """Everything that a time may depend on. No host name, no user, no path."""

    device: Device
    system: Annotated[str, Meta(description="operating system and architecture")]
    libraries: Annotated[dict[str, str], Meta(description="library -> version")]
    threads: Annotated[Size, Meta(description="of torch")]
    memory_bytes: Annotated[int, Meta(ge=1, le=2**60, description="of the host")]
    world_size: Annotated[Size, Meta(description="processes that share the model")]


class _Record(_Part):
    crc32: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{8}\Z")] | None,
        Meta(description="of the rest of the file; the first member"),
    ] = None
    schema_version: Annotated[int, Meta(description=f"{SCHEMA_VERSION}; another is refused")]
    machine: Annotated[str, Meta(description="label of the machine: the folder under `results/`")]
    hardware: Annotated[
        str, Meta(description="device that predictions are for: a name, or a file beside the record")
    ]
    calibration: Annotated[
        str | None,
        Meta(
            description="calibration that it was predicted with, where not the device's own: a name, or a "
            "file beside it"
        ),
    ] = None
    commit: Annotated[
        str, Meta(pattern=r"^([0-9a-f]{8,40}|unknown)\Z", description="of the code that ran, or `unknown`")
    ]
    dirty: Annotated[bool, Meta(description="whether the tree differed from it")]
    commit_from: Annotated[
        str | None, Meta(description="what said so: `git`, `PERFMODEL_COMMIT` or the version")
    ] = None
    source_sha256: Annotated[
        str | None, Meta(description="of the code and data files that a run can depend on")
    ] = None
    plan_sha256: Annotated[
        str | None, Meta(description="of the plan with its shapes: what `--resume` goes by")
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
    missing = [name for name in SAMPLES[kind] if name not in row.samples]
    if row.status == "ok" and missing:
        raise ValueError(f"samples: must hold {', '.join(missing)} where status is ok")


def _check_keys(rows: Iterable[PointRow | KernelRow]) -> None:
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if row.key in seen:
            raise ValueError(f"points.{number}.key: must be given once, given {row.key!r} again")
        seen.add(row.key)
