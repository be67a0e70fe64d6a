"""The engine's op-level constants from kernel times: a calibration fitted to single kernels only, not to
whole passes.

Every constant is one of `perfmodel.costs.roofline.Machine`, fitted to the kernels that it describes by least
squares on the logarithm of the time. Standard errors are those of the fit.
"""

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import CONSTANTS, Calibration, GPUSpec, files, load_gpu
from perfmodel.validate.harness.micro.jobs import SMALL, linear_shapes, shell_smalls, small_bytes
from perfmodel.validate.records import THREAD_TIME, KernelRow, Plan, Record
from perfmodel.validate.solving import Parameter, Values, estimate, grouped, nonnegative, significant

LARGE_WEIGHT = 0.25
"""Weight of GEMMs with more rows than any pass of the plan; they determine the FLOP fraction and little
else.
"""
COLUMN_S = 1e-8
"""Scale of the fit for the time of an output column."""
SOFT = 1.0
"""Logarithm above which a residual counts linearly."""
LOWER_QUARTILE = 0.25
Found = dict[str, tuple[float, float]]
"""Constant -> its value and standard error."""
GEMM = (
    Parameter("gemm_bandwidth_fraction", 0.8, 0.01, 1.0, log=True),
    Parameter("gemm_flops_fraction", 0.6, 0.01, 1.0, log=True),
    Parameter("gemm_fixed_s", 1e-6, 1e-9, 1e-2, log=True),
    Parameter("gemm_blend_power", 3.0, 1.0, 16.0),
    Parameter("gemm_column_s", 0.1 * COLUMN_S, 0.0, 1e3 * COLUMN_S, unit=COLUMN_S),
)
ATTENTION = (
    Parameter("attention_bandwidth_fraction", 0.5, 0.005, 1.0, log=True),
    Parameter("attention_flops_fraction", 0.3, 0.002, 1.0, log=True),
    Parameter("attention_fixed_s", 2e-5, 1e-8, 1e-2, log=True),
    Parameter("kv_reread_per_query", 0.05, 0.0, 1.0),
)
LEAST_KNOTS = 2
"""Least number of knots of a curve; fewer timed messages determine nothing."""
KINK = 1.02
"""A fit without FLOP-limited calls ends at the FLOP limit of one. Above this ratio a call is really
FLOP-limited.
"""
FAR, LEAST_FRACTION = 0.25, 0.0105
"""Log rms of kernels above which, and share of the bandwidth below which, the device is probably another
one.
"""


def calibration_from(record: Record, gpu: GPUSpec | None = None, name: str | None = None) -> Calibration:
    """The calibration of a microbenchmark record. Raises InputError if a kind of kernel is missing.

    gpu: the device (default: the one in the record). name: of the calibration (default ``<device>.micro``).
    """
    rows = pooled(record.kernels)
    if record.data.protocol.timer == THREAD_TIME:
        rows = [undisturbed(row) for row in rows]
    kinds = grouped(rows, lambda row: row.kind)
    missing = [
        kind
        for kind in ("gemm", "attention", "rope", "shell", "bare", "loop", "sampling")
        if kind not in kinds
    ]
    if missing:
        raise InputError(f"--from-microbench: {record.path} must hold kernels of kind {', '.join(missing)}")
    gpu = gpu or load_gpu(record.hardware)
    return KernelFit(record, gpu, kinds).calibration(name or f"{gpu.name}.micro")


def most_rows(plan: Plan) -> int:
    """Most rows of a product in any pass of a plan."""
    return max(point.batch * point.queries[-1] for point in plan.points())


def pooled(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """Each timed kernel once, with the samples of all sweeps."""
    timed = (row for row in rows if row.status == "ok")
    return [_one(sweeps) for sweeps in grouped(timed, lambda row: (row.kind, *row.at.items())).values()]


def _one(sweeps: Sequence[KernelRow]) -> KernelRow:
    samples = [seconds for row in sweeps for seconds in row.samples["call_s"]]
    return sweeps[0].replace(samples={"call_s": tuple(samples)})


def undisturbed(row: KernelRow) -> KernelRow:
    """The kernel with the lower quartile as its time: another process makes a thread's CPU time longer, never
    shorter, because it empties the caches.
    """
    lower = float(np.quantile(row.samples["call_s"], LOWER_QUARTILE))
    return row.replace(samples={"call_s": (lower,)})


class KernelFit:
    """The stages of a fit, each on the kernels of its own kind."""

    def __init__(self, record: Record, gpu: GPUSpec, kinds: dict[str, list[KernelRow]]) -> None:
        self.record = record
        self.gpu = gpu
        self.kinds = kinds
        self.plan = record.data.plan
        self.precision = self.plan.precisions()
        self.bandwidth = gpu.memory_bandwidth_bytes_per_s
        self.peak = gpu.peak_flops(self.precision.weights.base.compute)
        self.residuals = dict[str, float]()
        self.sources = dict[str, str]()

    def calibration(self, name: str) -> Calibration:
        """The calibration `name` from all stages of the fit; a stage uses the constants of earlier ones."""
        found = self.gemm()
        found |= self.attention(found["gemm_flops_fraction"])
        found |= self.small()
        found |= self.host()
        found |= self.loop()
        found |= self.search(found["attention_fixed_s"][0])
        timer = self.record.data.protocol.timer
        statistic = "lower quartiles" if timer == THREAD_TIME else "median samples"
        errors = ", ".join(f"{kind} {error:.1%}" for kind, error in self.residuals.items())
        notes = f"From kernels alone ({statistic}), no whole pass. Kernels: {errors} rms."
        libraries = self.record.data.environment.libraries
        day = self.record.path.name[:8]
        fields: dict[str, Any] = {
            "name": name,
            "gpu": self.gpu.name,
            "stack": f"perfmodel validate, torch {libraries.get('torch', '?')}",
            "kind": "fitted",
            "fitted_on": (self.record.name,),
            "date": datetime.datetime.strptime(day, "%Y%m%d").date(),
            "notes": notes + self._doubts(found),
            "allreduce_multiplier": {"value": 1.0, "source": "the curve as measured"},
        }
        curve = self.allreduce()
        if curve:
            fields["allreduce"] = curve
        for constant, (value, error) in found.items():
            fields[constant] = self._stated(constant, value, error)
        return files.parse(Calibration, fields, str(self.record.path))

    def _doubts(self, found: Found) -> str:
        """Warnings about kernels that no efficiency of this device explains."""
        ends = {kind: found[f"{kind}_bandwidth_fraction"][0] for kind in self.residuals}
        far = [
            k for k, error in self.residuals.items() if error > FAR and not LEAST_FRACTION < ends[k] < 0.999
        ]
        if far:
            return f" WARNING: no efficiency of {self.gpu.name} explains its {' and '.join(far)} times."
        return ""

    def gemm(self) -> Found:
        """Bandwidth and FLOP fraction, launch, blend and time per output column of the linear ops."""
        rows = self.kinds["gemm"]
        n, k, m = (np.array([row.at[key] for row in rows], float) for key in "nkm")
        size = self.precision.weights.base.bytes_per_value
        act = self.precision.activation_bytes
        load = (n * k * size + m * (n + k) * act) / self.bandwidth
        compute = 2 * m * n * k / self.peak
        weight = np.where(m <= most_rows(self.plan), 1.0, LARGE_WEIGHT) * self._shares(rows, m)

        def model(at: Values) -> Array:
            memory = load / at["gemm_bandwidth_fraction"] + n * at["gemm_column_s"]
            flops = compute / at["gemm_flops_fraction"]
            power = at["gemm_blend_power"]
            return np.asarray(at["gemm_fixed_s"] + (memory**power + flops**power) ** (1 / power))

        return self._fit("gemm", rows, model, GEMM, weight)

    def _shares(self, rows: Sequence[KernelRow], m: Array) -> Array:
        """Share of each shape in the linear time of a pass at its M, which is the weight of its error."""
        launches = Counter[tuple[int, int]]()
        for spec in self.plan.shapes.values():
            *layered, head = linear_shapes(spec, self.plan.tensor_parallel)
            launches.update([*layered * spec.num_hidden_layers, head])
        spent = np.array([launches[row.at["n"], row.at["k"]] * row.call_s for row in rows])
        shares = []
        for shape_s, tokens in zip(spent, m, strict=True):
            same = m == tokens
            shares.append(shape_s * np.count_nonzero(same) / spent[same].sum())
        return np.array(shares)

    def attention(self, gemm_flops: tuple[float, float]) -> Found:
        """Bandwidth and FLOP fraction, fixed time and re-read of attention over a cache."""
        rows = self.kinds["attention"]
        heads, kv, dim, batch, context, query = (
            np.array([row.at[key] for row in rows], float)
            for key in ("heads", "kv_heads", "head_dim", "batch", "context", "query")
        )
        token = 2 * kv * dim * self.precision.kv.bytes_per_value
        act = self.precision.activation_bytes
        read = batch * context * token / self.bandwidth
        fresh = batch * query * (2 * heads * dim * act + token) / self.bandwidth
        pairs = query * context + query * (query + 1) / 2
        compute = 4 * heads * dim * batch * pairs / self.gpu.peak_flops(self.precision.attention_compute)

        def memory_s(at: Values) -> Array:
            reads = 1 + at["kv_reread_per_query"] * (query - 1)
            return np.asarray((read * reads + fresh) / at["attention_bandwidth_fraction"])

        def model(at: Values) -> Array:
            compute_s = compute / at["attention_flops_fraction"]
            return at["attention_fixed_s"] + np.maximum(memory_s(at), compute_s)

        found = self._fit("attention", rows, model, ATTENTION, np.ones(len(rows)))
        fitted = {name: value for name, (value, _) in found.items()}
        computes = compute / fitted["attention_flops_fraction"] > KINK * memory_s(fitted)
        if not computes.any():
            name = "attention_flops_fraction"
            why = "not determined, no attention call was limited by FLOPs: the GEMM one"
            found[name], self.sources[name] = gemm_flops, why
        return found

    def small(self) -> Found:
        """Bandwidth fraction of element-wise kernels: the slope of time over bytes, with an intercept per
        kind.
        """
        slopes = []
        for kind in filter(self.kinds.__contains__, (*SMALL, "norm", "residual")):
            rows = self.kinds[kind]
            moved = np.array(
                [small_bytes(kind, r.at, self.precision.activation_bytes) * r.at["tokens"] for r in rows]
            )
            seconds = np.array([row.call_s for row in rows])
            slopes.append(np.polyfit(moved, seconds, 1, w=np.reciprocal(seconds))[0])
        fractions = 1 / np.maximum(np.array(slopes) * self.bandwidth, 1.0)
        spread = float(fractions.std() / math.sqrt(len(fractions)))
        return {"small_bandwidth_fraction": (float(np.median(fractions)), spread)}

    def host(self) -> Found:
        """Time of a nearly empty pass beyond its linear ops and attention, and of drawing a draft's token."""
        rows = self.kinds["shell"]
        bare = defaultdict[tuple[int, int], float](float)
        for row in self.kinds["bare"]:
            bare[row.at["batch"], row.at["query"]] += row.call_s
        seconds = np.array([row.call_s for row in rows])
        rest = seconds - [row.at["layers"] * bare[row.at["batch"], row.at["query"]] for row in rows]
        tokens = np.array([row.at["batch"] * row.at["query"] for row in rows], float)
        smalls = np.array([shell_smalls(row.at["layers"], self.plan) for row in rows])
        columns = {"small_kernel_s": smalls, "pass_fixed_s": np.ones(len(rows)), "token_s": tokens}
        layers = max(row.at["layers"] for row in rows)
        drawn = [row.call_s / (row.at["batch"] * layers) for row in self.kinds["sampling"]]
        return _nonnegative(columns, rest, seconds) | {
            "sparse_cache_sequence_s": (float(np.median(drawn)), float(np.std(drawn)))
        }

    def loop(self) -> Found:
        """Times of deciding and committing, per iteration and per sequence."""
        rows = self.kinds["loop"]
        batch = np.array([row.at["batch"] for row in rows], float)
        seconds = np.array([row.call_s for row in rows])
        return _nonnegative(
            {"iteration_fixed_s": np.ones(len(rows)), "iteration_sequence_s": batch}, seconds, seconds
        )

    def search(self, launch_s: float) -> Found:
        """Times of a search and of each unit among which it looks, beyond the launch that a pass counts.

        Searches of more sequences and KV heads than multiprocessors take several rounds.
        """
        rows = self.kinds.get("search", [])
        units = np.array([row.at["units"] for row in rows], float)
        if len(np.unique(units)) < LEAST_KNOTS:
            return {}
        processors = self.gpu.multiprocessors.value if self.gpu.multiprocessors else math.inf
        rounds = np.array([np.ceil(row.at["batch"] * row.at["kv_heads"] / processors) for row in rows])
        seconds = np.array([row.call_s for row in rows])
        columns = {"search_s": rounds, "searched_unit_s": rounds * units}
        return _nonnegative(columns, np.maximum(seconds - launch_s, 0.0), seconds)

    def allreduce(self) -> dict[str, Any] | None:
        """The measured curve, for the measured number of ranks."""
        rows = sorted(self.kinds.get("allreduce", []), key=lambda row: row.at["bytes"])
        if len(rows) < LEAST_KNOTS:
            return None
        ranks = self.record.data.environment.world_size
        return {"knots": {ranks: [(row.at["bytes"], row.call_s) for row in rows]}, "source": self._source()}

    def _fit(
        self,
        kind: str,
        rows: Sequence[KernelRow],
        model: Callable[[Values], Array],
        parameters: Sequence[Parameter],
        weight: Array,
    ) -> Found:
        """Fits the times of calls, weighted, by their logarithm."""
        measured = np.log([row.call_s for row in rows])
        root = np.sqrt(weight)
        end = estimate(parameters, lambda at: root * (np.log(model(at)) - measured), soft=SOFT)
        left = np.log(model(end.values)) - measured
        self.residuals[kind] = float(np.sqrt(np.average(left**2, weights=weight)))
        spread = float(np.sum(weight * left**2) / max(1, len(rows) - len(parameters)))
        stderr = end.scaled(math.sqrt(spread)).stderr
        return {name: (value, stderr[name]) for name, value in end.values.items()}

    def _stated(self, name: str, value: float, error: float) -> dict[str, Any]:
        """The constant with a standard error that a file may state; an undetermined one has the largest."""
        stderr = significant(error, 4) if error <= CONSTANTS[name].widest else CONSTANTS[name].widest
        return {
            "value": significant(value, 4),
            "stderr": stderr,
            "source": self.sources.get(name, self._source()),
        }

    def _source(self) -> str:
        return f"results/{self.record.data.machine}/{self.record.path.name}"


def _nonnegative(columns: dict[str, Array], seconds: Array, scale: Array) -> Found:
    """Non-negative least squares on relative errors, with one constant per column."""
    x, error = nonnegative(np.stack([*columns.values()], 1) / scale[:, None], seconds / scale)
    return dict(zip(columns, zip(x, error, strict=True), strict=True))


LARGE_BYTES = 2**27
"""Least bytes between two touches of the same data in a kernel that counts for the bandwidth."""
MOVING = ("copy", "read", "gemm")


def host_spec(record: Record, name: str, calibration: str | None = None) -> GPUSpec:
    """A device file for the CPU of a record. Raises InputError for another device.

    calibration: the one that the file names, by name or as a file next to it [``<name>.micro``].

    Bandwidth and peak are the best over all kernels, so no measured time is below its bound.
    """
    environment = record.data.environment
    plan = record.data.plan
    device = environment.device
    if device.kind != "cpu":
        raise InputError(
            f"{record.path}: must be of a CPU (data of a GPU come from its vendor), given {device.kind}"
        )
    rows = pooled(record.kernels)
    gemms = [row for row in rows if row.kind == "gemm"]
    large = [row for row in rows if row.kind in MOVING and row.working_set_bytes >= LARGE_BYTES]
    value_bytes = plan.precisions().weights.base.bytes_per_value
    bandwidth = max((_moved_bytes(row, value_bytes) / row.best_s for row in large), default=0.0)
    flops = max((_gemm_flops(row) / row.best_s for row in gemms), default=0.0)
    if not bandwidth or not flops:
        raise InputError(f"{record.path}: must hold copy, read and gemm kernels to describe a CPU")
    dtype = "bf16" if plan.precision.activations in ("bf16", "fp16") else "fp32"
    command = f"perfmodel validate microbench {plan.name} (results/{record.name}.json)"
    model_name = device.name.replace("(R)", "")
    maker = device.name.split("(")[0].split()[0]
    architecture = "x86" if "x86" in environment.system else environment.system
    memory = _quantity(environment.memory_bytes / 1e9, "GB", "what the system reports")
    bandwidth_gb = _quantity(bandwidth / 1e9, "GB/s", f"best copy, read or GEMM: {command}")
    peak = _quantity(flops / 1e9, "GFLOP/s", f"best GEMM: {command}")
    facts: dict[str, Any] = {
        "name": name,
        "title": f"{model_name}, {environment.threads} threads",
        "vendor": maker,
        "architecture": architecture,
        "kind": "cpu",
        "calibration": calibration or f"{name}.micro",
        "memory": memory,
        "memory_bandwidth": bandwidth_gb,
        "peak": {dtype: peak},
        "multiprocessors": _quantity(environment.threads, "count", "threads in use"),
        "notes": f"bf16: {device.bf16}. Measured in a guest that shares its socket; caches are the socket's.",
    }
    if device.last_level_cache_bytes:
        cache_mib = device.last_level_cache_bytes / 2**20
        source = "what the system reports; shared with other guests"
        facts["last_level_cache"] = _quantity(cache_mib, "MiB", source)
    return files.parse(GPUSpec, facts, str(record.path))


def _moved_bytes(row: KernelRow, value_bytes: float) -> float:
    """Least bytes that a copy, a read or a GEMM moves; of a GEMM those of its weights."""
    return row.at.get("bytes") or value_bytes * row.at["n"] * row.at["k"]


def _gemm_flops(row: KernelRow) -> float:
    return 2.0 * row.at["n"] * row.at["k"] * row.at["m"]


def _quantity(value: float, unit: str, source: str) -> dict[str, Any]:
    return {"value": significant(value, 4), "unit": unit, "source": source, "evidence": "measured"}
