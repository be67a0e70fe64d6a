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
SOFT_RESIDUAL = 1.0
"""Logarithm above which a residual counts linearly."""
NEEDED_KINDS = ("gemm", "attention", "rope", "shell", "bare", "loop", "sampling")
"""Kinds of kernels without which there is no calibration."""
LOWER_QUARTILE = 0.25
WithErrors = dict[str, tuple[float, float]]
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
FAR_KERNELS = 0.25
"""Log rms of kernels above which the device is probably another one."""
LEAST_FRACTION = 0.0105
"""Share of the bandwidth below which it is."""


def calibration_from(record: Record, gpu: GPUSpec | None = None, name: str | None = None) -> Calibration:
    """The calibration of a microbenchmark record. Raises InputError if a kind of kernel is missing.

    gpu: the device (default: the one in the record). name: of the calibration (default ``<device>.micro``).
    """
    rows = pooled(record.kernels)
    if record.data.protocol.timer == THREAD_TIME:
        rows = [undisturbed(row) for row in rows]
    kinds = grouped(rows, lambda row: row.kind)
    missing = [kind for kind in NEEDED_KINDS if kind not in kinds]
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
    by_kernel = grouped(timed, lambda row: (row.kind, *row.at.items()))
    return [_of_all_sweeps(sweeps) for sweeps in by_kernel.values()]


def _of_all_sweeps(sweeps: Sequence[KernelRow]) -> KernelRow:
    """A kernel with the samples of all its rows."""
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
        constants = self.gemm()
        constants |= self.attention(constants["gemm_flops_fraction"])
        constants |= self.small()
        constants |= self.host()
        constants |= self.loop()
        launch_s, _ = constants["attention_fixed_s"]
        constants |= self.search(launch_s)
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
            "notes": notes + self.doubts(constants),
            "allreduce_multiplier": {"value": 1.0, "source": "the curve as measured"},
        }
        curve = self.allreduce()
        if curve:
            fields["allreduce"] = curve
        for constant, (value, error) in constants.items():
            fields[constant] = self._stated(constant, value, error)
        return files.parse(Calibration, fields, str(self.record.path))

    def doubts(self, constants: WithErrors) -> str:
        """Warnings about kernels that no efficiency of this device explains."""
        doubted = []
        for kind, error in self.residuals.items():
            fraction, _ = constants[f"{kind}_bandwidth_fraction"]
            is_at_end = not LEAST_FRACTION < fraction < 0.999
            if error > FAR_KERNELS and is_at_end:
                doubted.append(kind)
        if not doubted:
            return ""
        return f" WARNING: no efficiency of {self.gpu.name} explains its {' and '.join(doubted)} times."

    def gemm(self) -> WithErrors:
        """Bandwidth and FLOP fraction, launch, blend and time per output column of the linear ops."""
        rows = self.kinds["gemm"]
        n = _sizes(rows, "n")
        k = _sizes(rows, "k")
        m = _sizes(rows, "m")
        weight_bytes = n * k * self.precision.weights.base.bytes_per_value
        activation_bytes = m * (n + k) * self.precision.activation_bytes
        load_s = (weight_bytes + activation_bytes) / self.bandwidth
        compute_s = 2 * m * n * k / self.peak
        in_passes = np.where(m <= most_rows(self.plan), 1.0, LARGE_WEIGHT)

        def model(values: Values) -> Array:
            memory_s = load_s / values["gemm_bandwidth_fraction"] + n * values["gemm_column_s"]
            flops_s = compute_s / values["gemm_flops_fraction"]
            power = values["gemm_blend_power"]
            blended_s = (memory_s**power + flops_s**power) ** (1 / power)
            return np.asarray(values["gemm_fixed_s"] + blended_s)

        return self._fit("gemm", rows, model, GEMM, in_passes * self._shares(rows, m))

    def _shares(self, rows: Sequence[KernelRow], m: Array) -> Array:
        """Share of each shape in the linear time of a pass at its M, which is the weight of its error."""
        launches = Counter[tuple[int, int]]()
        for spec in self.plan.shapes.values():
            *layered, head = linear_shapes(spec, self.plan.tensor_parallel)
            launches.update([*layered * spec.num_hidden_layers, head])
        spent_s = np.array([launches[row.at["n"], row.at["k"]] * row.call_s for row in rows])
        shares = []
        for shape_s, tokens in zip(spent_s, m, strict=True):
            same_m = m == tokens
            shares.append(shape_s * np.count_nonzero(same_m) / spent_s[same_m].sum())
        return np.array(shares)

    def attention(self, gemm_flops: tuple[float, float]) -> WithErrors:
        """Bandwidth and FLOP fraction, fixed time and re-read of attention over a cache."""
        rows = self.kinds["attention"]
        heads = _sizes(rows, "heads")
        head_dim = _sizes(rows, "head_dim")
        batch = _sizes(rows, "batch")
        context = _sizes(rows, "context")
        query = _sizes(rows, "query")
        token_bytes = 2 * _sizes(rows, "kv_heads") * head_dim * self.precision.kv.bytes_per_value
        query_bytes = 2 * heads * head_dim * self.precision.activation_bytes
        read_s = batch * context * token_bytes / self.bandwidth
        new_s = batch * query * (query_bytes + token_bytes) / self.bandwidth
        pairs = query * context + query * (query + 1) / 2
        peak = self.gpu.peak_flops(self.precision.attention_compute)
        at_peak_s = 4 * heads * head_dim * batch * pairs / peak

        def memory_s(values: Values) -> Array:
            reads = 1 + values["kv_reread_per_query"] * (query - 1)
            return np.asarray((read_s * reads + new_s) / values["attention_bandwidth_fraction"])

        def model(values: Values) -> Array:
            compute_s = at_peak_s / values["attention_flops_fraction"]
            return values["attention_fixed_s"] + np.maximum(memory_s(values), compute_s)

        constants = self._fit("attention", rows, model, ATTENTION, np.ones(len(rows)))
        values = {name: value for name, (value, _) in constants.items()}
        name = "attention_flops_fraction"
        is_limited = at_peak_s / values[name] > KINK * memory_s(values)
        if not is_limited.any():
            constants[name] = gemm_flops
            self.sources[name] = "not determined, no attention call was limited by FLOPs: the GEMM one"
        return constants

    def small(self) -> WithErrors:
        """Bandwidth fraction of element-wise kernels: the slope of time over bytes, with an intercept per
        kind.
        """
        activation_bytes = self.precision.activation_bytes
        slopes = []
        for kind in (*SMALL, "norm", "residual"):
            rows = self.kinds.get(kind)
            if rows is None:
                continue
            token_bytes = [small_bytes(kind, row.at, activation_bytes) for row in rows]
            moved_bytes = np.array(token_bytes) * _sizes(rows, "tokens")
            seconds = _seconds(rows)
            slope, _ = np.polyfit(moved_bytes, seconds, 1, w=np.reciprocal(seconds))
            slopes.append(slope)
        fractions = 1 / np.maximum(np.array(slopes) * self.bandwidth, 1.0)
        spread = float(fractions.std() / math.sqrt(len(fractions)))
        return {"small_bandwidth_fraction": (float(np.median(fractions)), spread)}

    def host(self) -> WithErrors:
        """Time of a nearly empty pass beyond its linear ops and attention, and of drawing a draft's token."""
        rows = self.kinds["shell"]
        layer_s = defaultdict[tuple[int, int], float](float)
        for row in self.kinds["bare"]:
            layer_s[row.at["batch"], row.at["query"]] += row.call_s
        layers = _sizes(rows, "layers")
        seconds = _seconds(rows)
        in_layers_s = layers * [layer_s[row.at["batch"], row.at["query"]] for row in rows]
        columns = {
            "small_kernel_s": np.array([shell_smalls(row.at["layers"], self.plan) for row in rows]),
            "pass_fixed_s": np.ones(len(rows)),
            "token_s": _sizes(rows, "batch") * _sizes(rows, "query"),
        }
        constants = _nonnegative(columns, seconds - in_layers_s, seconds)
        draws = self.kinds["sampling"]
        drawn_s = _seconds(draws) / (_sizes(draws, "batch") * layers.max())
        constants["sparse_cache_sequence_s"] = float(np.median(drawn_s)), float(np.std(drawn_s))
        return constants

    def loop(self) -> WithErrors:
        """Times of deciding and committing, per iteration and per sequence."""
        rows = self.kinds["loop"]
        seconds = _seconds(rows)
        columns = {"iteration_fixed_s": np.ones(len(rows)), "iteration_sequence_s": _sizes(rows, "batch")}
        return _nonnegative(columns, seconds, seconds)

    def search(self, launch_s: float) -> WithErrors:
        """Times of a search and of each unit among which it looks, beyond the launch that a pass counts.

        Searches of more sequences and KV heads than multiprocessors take several rounds.
        """
        rows = self.kinds.get("search", [])
        units = _sizes(rows, "units")
        if len(np.unique(units)) < LEAST_KNOTS:
            return {}
        processors = self.gpu.multiprocessors.value if self.gpu.multiprocessors else math.inf
        rounds = np.ceil(_sizes(rows, "batch") * _sizes(rows, "kv_heads") / processors)
        seconds = _seconds(rows)
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
    ) -> WithErrors:
        """Fits the times of calls, weighted, by their logarithm."""
        measured = np.log(_seconds(rows))
        root = np.sqrt(weight)

        def residuals(values: Values) -> Array:
            return np.asarray(root * (np.log(model(values)) - measured))

        solved = estimate(parameters, residuals, soft=SOFT_RESIDUAL)
        off = np.log(model(solved.values)) - measured
        self.residuals[kind] = float(np.sqrt(np.average(off**2, weights=weight)))
        freedom = max(1, len(rows) - len(parameters))
        variance = float(np.sum(weight * off**2) / freedom)
        stderr = solved.scaled(math.sqrt(variance)).stderr
        return {name: (value, stderr[name]) for name, value in solved.values.items()}

    def _stated(self, name: str, value: float, error: float) -> dict[str, Any]:
        """The constant with a standard error that a file may state; an undetermined one has the largest."""
        widest = CONSTANTS[name].widest
        return {
            "value": significant(value, 4),
            "stderr": significant(error, 4) if error <= widest else widest,
            "source": self.sources.get(name, self._source()),
        }

    def _source(self) -> str:
        return f"results/{self.record.data.machine}/{self.record.path.name}"


def _sizes(rows: Sequence[KernelRow], name: str) -> Array:
    """One size of each kernel."""
    return np.array([row.at[name] for row in rows], float)


def _seconds(rows: Sequence[KernelRow]) -> Array:
    """Seconds of each kernel's call."""
    return np.array([row.call_s for row in rows])


def _nonnegative(columns: dict[str, Array], seconds: Array, scale: Array) -> WithErrors:
    """Non-negative least squares on relative errors, with one constant per column."""
    matrix = np.stack([*columns.values()], 1) / scale[:, None]
    values, errors = nonnegative(matrix, seconds / scale)
    return dict(zip(columns, zip(values, errors, strict=True), strict=True))
