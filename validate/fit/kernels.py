"""The kernel constants of a calibration from kernel tables, each with the error of its fit.

GEMM: ``t0 + max(bytes/BW, flops/F) / efficiency(tokens)``. Attention: ``t0 + bytes / (f BW)``; for a latent
cache FLOPs bound it too. Experts: ``t0 + touched bytes / (f BW) + flops / (g F)``. All are robust least
squares on log times. Tables without CUDA graphs include the launch in t0, so all formats take the t0 of
16-bit GEMMs. A format whose curve would exceed 1 is left to another engine's table of the same device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from perfmodel.costs.gemms import touched
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec, weight_format
from perfmodel.validate.fit.tables import ENGINES, Table, Tables, where
from perfmodel.validate.solving import Parameter, Values, estimate

GEMM_FORMS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4"}
EXPERT_FORMS = GEMM_FORMS | {"int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4-a8"}
KV_BYTES = {"bfloat16": 2.0, "fp8": 1.0}
KNOTS = (1, 16, 17, 32, 64, 65, 128, 129, 256, 257, 512, 1024, 4096)
"""Tokens at which a GEMM's efficiency is taken. Kernels change their tiles beyond 16, 64, 128 and 256."""
POPULARITY = 1.2
"""Popularity of experts in the tables' rows "power_law_1.01"; with it their times agree with those of
balanced routing.
"""
SMALL_WEIGHTS = 1e6
LARGE_WEIGHTS = 16e6
LARGE_CACHE = 1e6
HIDDEN_S = 5e-5
"""Time to read a last-level cache above which the cache would hide repeated reads."""
GRAPHED_START_S = 30e-6
"""Time of a small GEMM above which it was not launched from a CUDA graph."""
WORST_MEDIAN, LEAST_SHARE = 0.25, 0.3
"""Largest median error of the fit, and least roofline share, of a kernel that an engine would choose."""
GEMM_FIRST, ATTENTION_FIRST = (4e-6, 0.7), (1e-5, 0.8)
EXPERT_FIRST, LATENT_FIRST = (3e-5, 0.8, 0.3), (1e-5, 0.7, 0.5)
"""Starting points of fits: seconds of t0, share of the bandwidth (of the roofline), share of the peak."""
MESSAGES = (16384, 65536, 262144, 1048576, 8388608, 67108864)


@dataclass(frozen=True)
class TableFit:
    """Constants of one kind of kernel in one format. median_error: of the logarithm of times."""

    values: tuple[float, ...]
    median_error: float
    rows: int
    source: str


@dataclass(frozen=True)
class Kernels:
    """All constants from the tables of one device and engine."""

    source: str
    gemm: dict[str, TableFit]
    experts: dict[str, TableFit]
    attention: dict[str, TableFit]
    latent: dict[str, TableFit]
    allreduce: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    index: TableFit | None = None


def distil(tables: Tables, gpu: GPUSpec, engine: str, version: str | None = None) -> Kernels:
    """All kernel constants, by default of the newest version.

    Raises InputError if the engine has no GEMM table of this version.
    """
    known = tables.versions("gemm", engine, "gemm_perf")
    if version is None and known:
        version = known[-1]
    if version not in known:
        allowed = ", ".join(known) or "none"
        raise InputError(f"--version: must be one of {allowed} for {engine} on {gpu.name}, given {version}")
    gemm = _gemms(tables, gpu, engine, version)
    experts = _experts(tables, gpu, engine, version)
    for other in ("sglang", *ENGINES):
        if other == engine:
            continue
        for newest in tables.versions("gemm", other, "gemm_perf")[-1:]:
            for form, fitted in _gemms(tables, gpu, other, newest).items():
                gemm.setdefault(form, fitted)
        for newest in tables.versions("moe", other, "moe_perf")[-1:]:
            for form, fitted in _experts(tables, gpu, other, newest).items():
                experts.setdefault(form, fitted)
    return Kernels(
        source=f"{tables.package}, {engine} {version}",
        gemm=gemm,
        experts=experts,
        attention=_attention(tables, gpu, engine, version),
        latent=_latent(tables, gpu, engine, version),
        allreduce=_allreduce(tables),
    )


def table_fit(
    predict: Callable[[Array], Array], seconds: Array, start: Sequence[float], source: str
) -> TableFit:
    """The constants for which `predict` is closest to `seconds`, both as logarithms."""
    parameters = [Parameter(str(i), first, log=True) for i, first in enumerate(start)]

    def residuals(values: Values) -> Array:
        return np.asarray(np.log(predict(np.array([*values.values()])) / seconds))

    optimum = estimate(parameters, residuals, soft=0.1)
    median_error = float(np.median(np.abs(optimum.solution.residuals)))
    return TableFit(tuple(optimum.values.values()), median_error, len(seconds), source)


def _peak(gpu: GPUSpec, form: str) -> float | None:
    compute = WEIGHT_FORMATS[form].compute
    return gpu.peak_flops(compute) if compute in gpu.peak else None


def _gemms(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format: time of the smallest GEMM, fitted t0, and the efficiency at each knot."""
    table = tables.read("gemm", engine, version, "gemm_perf")
    fits = {}
    for word, name in GEMM_FORMS.items():
        calls = where(table, table["gemm_dtype"] == word)
        peak = _peak(gpu, name)
        if peak is None or len(calls["m"]) < 500:
            continue
        calls = _fastest(calls, ("m", "n", "k"))
        form = WEIGHT_FORMATS[name]
        m, n, k, seconds = (calls[c].astype(float) for c in ("m", "n", "k", "seconds"))
        weights = n * k * form.bytes_per_value
        moved = weights + m * (2 * n + (form.input_bytes or 2) * k)
        moved_s = moved / gpu.memory_bandwidth_bytes_per_s
        computed_s = 2 * m * n * k / peak
        roof_s = np.maximum(moved_s, computed_s)
        shortest = (weights <= SMALL_WEIGHTS) & (m <= 16)
        start_s = float(np.median(seconds[shortest]))
        knots = [float(t) for t in KNOTS if t in m or t in (KNOTS[0], KNOTS[-1])]
        keep = (weights >= LARGE_WEIGHTS) & (m <= KNOTS[-1]) & (n >= 1024) & (k >= 1024)
        fitted = _gemm_fit(m[keep], roof_s[keep], seconds[keep], knots, f"{engine} {version}")
        fixed_s, *efficiencies = fitted.values
        if start_s <= GRAPHED_START_S and max(efficiencies) <= 1.1:
            curve = zip(knots, efficiencies, strict=True)
            fits[name] = replace(fitted, values=(start_s, fixed_s, *chain.from_iterable(curve)))
    return fits


def _gemm_fit(m: Array, roof_s: Array, seconds: Array, knots: list[float], source: str) -> TableFit:
    """The fitted t0, and the efficiency at each knot."""
    log_m = np.log(m)
    log_knots = np.log(knots)

    def predict(x: Array) -> Array:
        log_efficiency = np.interp(log_m, log_knots, np.log(x[1:]))
        return x[0] + roof_s / np.exp(log_efficiency)

    return table_fit(predict, seconds, [GEMM_FIRST[0], *GEMM_FIRST[1:] * len(knots)], source)


def _experts(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format: t0, share of the bandwidth, share of the peak."""
    if not tables.versions("moe", engine, "moe_perf"):
        return {}
    version, table = tables.read_version("moe", engine, version, "moe_perf")
    fits = {}
    gated = np.char.find(table["kernel_source"].astype(str), "nongated") < 0
    usual = (
        (table["distribution"] == "power_law_1.01")
        & (table["num_tokens"] <= 1024)
        & (table["moe_ep_size"] <= 16)
    )
    table = where(table, usual & gated)
    for word, name in EXPERT_FORMS.items():
        calls = where(table, table["moe_dtype"] == word)
        peak = _peak(gpu, name)
        if peak is None or len(calls["topk"]) < 60:
            continue
        fitted = _expert_fit(_main_source(calls), gpu, name, peak, f"{engine} {version}")
        if fitted.median_error <= WORST_MEDIAN and fitted.values[1] >= LEAST_SHARE:
            fits[name] = fitted
    return fits


def _expert_fit(calls: Table, gpu: GPUSpec, name: str, peak: float, source: str) -> TableFit:
    columns = ("num_tokens", "num_experts", "topk", "moe_ep_size")
    tokens, experts, topk, degree = (calls[c].astype(float) for c in columns)
    matrices = 3 * calls["hidden_size"] * calls["inter_size"] / calls["moe_tp_size"]
    form = WEIGHT_FORMATS[name] if name != "int4" else weight_format("int4-g32-sym").base
    routed = zip(experts, topk, tokens, strict=True)
    loaded = np.array([touched(*call, POPULARITY) for call in routed])
    loaded_s = loaded / degree * matrices * form.bytes_per_value / gpu.memory_bandwidth_bytes_per_s
    computed_s = tokens * topk / degree * 2 * matrices / peak

    def predict(x: Array) -> Array:
        return x[0] + loaded_s / x[1] + computed_s / x[2]

    return table_fit(predict, calls["seconds"], EXPERT_FIRST, source)


def _most_frequent(calls: Table) -> Table:
    """The rows of the most frequent kernel."""
    names, counts = np.unique(calls["kernel_source"], return_counts=True)
    return where(calls, calls["kernel_source"] == names[np.argmax(counts)])


def _main_source(calls: Table) -> Table:
    """The rows of the most frequent kernel. If another kernel ran the same call faster, its time replaces the
    row's.
    """
    keys = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    stacked = np.stack([calls[c] for c in keys])
    numbers = np.unique(stacked, axis=1, return_inverse=True)[1].ravel()
    best_s = np.full(len(numbers), np.inf)
    np.minimum.at(best_s, numbers, calls["seconds"])
    return _most_frequent(calls | {"seconds": best_s[numbers]})


def _fastest(calls: Table, keys: tuple[str, ...]) -> Table:
    """One row for each call: that of its fastest kernel."""
    by_key = [calls[c] for c in reversed(keys)]
    order = np.lexsort((calls["seconds"], *by_key))
    stacked = np.stack([calls[c][order] for c in keys])
    differs = np.any(stacked[:, 1:] != stacked[:, :-1], axis=0)
    first = np.append(True, differs)
    return {name: values[order][first] for name, values in calls.items()}


def _attention(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format of the cache: t0, share of the bandwidth."""
    version, table = tables.read_version("attention", engine, version, "generation_attention_perf")
    fits = {}
    window = table.get("window_size", np.zeros(len(table["step"])))
    usual_heads = np.isin(table["head_dim"], (64, 128))
    table = where(table, usual_heads & (window == 0) & (table["batch_size"] <= 256))
    for word, value_bytes in KV_BYTES.items():
        calls = where(table, table["kv_cache_dtype"] == word)
        if len(calls["step"]) < 100:
            continue
        calls = _most_frequent(calls)
        batch, heads, width = (calls[c].astype(float) for c in ("batch_size", "num_heads", "head_dim"))
        kv_heads = np.where(calls["num_key_value_heads"] == 0, heads, calls["num_key_value_heads"])
        context = calls["isl"] + calls["step"]
        cache_bytes = batch * kv_heads * context * 2 * width * value_bytes
        moved_s = (cache_bytes + 4 * batch * heads * width) / gpu.memory_bandwidth_bytes_per_s
        grouped = heads / kv_heads <= 16
        keep = (cache_bytes > _uncached(gpu)) & grouped
        fitted = _line(moved_s[keep], calls["seconds"][keep], f"{engine} {version}")
        if _uncached(gpu) > LARGE_CACHE:  # so long calls do not determine the start
            short = (cache_bytes <= LARGE_CACHE) & grouped
            shortest_s = float(np.median(calls["seconds"][short]))
            start_s, share = fitted.values
            fitted = replace(fitted, values=(max(shortest_s, start_s), share))
        fits[word] = fitted
    return fits


def _line(moved_s: Array, seconds: Array, source: str) -> TableFit:
    return table_fit(lambda x: x[0] + moved_s / x[1], seconds, ATTENTION_FIRST, source)


def _uncached(gpu: GPUSpec) -> float:
    """Bytes above which repeated calls do not find the cache in a large last-level cache."""
    cached = gpu.last_level_cache
    if cached and cached.si / gpu.memory_bandwidth_bytes_per_s > HIDDEN_S:
        return cached.si
    return LARGE_CACHE


def _latent(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """MLA decoding by format of the cache: t0, share of the bandwidth, share of the 16-bit peak."""
    engines = (engine, "sglang", "trtllm")
    with_table = [name for name in engines if tables.versions("mla", name, "generation_mla_perf")]
    if not with_table:
        return {}
    name = with_table[0]
    version, table = tables.read_version("mla", name, version, "generation_mla_perf")
    table = where(table, table["batch_size"] <= 256)
    fits = {}
    for word, value_bytes in KV_BYTES.items():
        calls = where(table, table["kv_cache_dtype"] == word)
        if not len(calls["step"]):
            continue
        calls = _fastest(calls, ("num_heads", "batch_size", "isl", "step"))
        batch = calls["batch_size"].astype(float)
        heads = calls["num_heads"].astype(float)
        tokens = batch * (calls["isl"] + calls["step"])
        cache_bytes = tokens * 576 * value_bytes
        pairs = tokens * heads
        moved_s = (cache_bytes + 2 * batch * heads * (576 + 512)) / gpu.memory_bandwidth_bytes_per_s
        computed_s = 2 * pairs * (576 + 512) / gpu.peak_flops("bf16")
        keep = cache_bytes > LARGE_CACHE
        fitted = _roof_fit(moved_s[keep], computed_s[keep], calls["seconds"][keep], f"{name} {version}")
        if fitted.median_error <= WORST_MEDIAN and fitted.values[1] >= LEAST_SHARE:
            fits[word] = fitted
    return fits


def _roof_fit(moved_s: Array, computed_s: Array, seconds: Array, source: str) -> TableFit:
    def predict(x: Array) -> Array:
        return np.asarray(x[0] + np.maximum(moved_s / x[1], computed_s / x[2]))

    return table_fit(predict, seconds, LATENT_FIRST, source)


def _allreduce(tables: Tables) -> dict[int, list[tuple[float, float]]]:
    """By number of devices: (message bytes, seconds) of the fastest kernel of any engine and version at each
    knot. Sizes are in values.

    Over PCIe the versions were measured on servers that differ up to tenfold; the fastest has peer access.
    """
    fastest: dict[int, dict[float, float]] = {}
    sources = [(engine, "custom_allreduce_perf") for engine in ENGINES]
    for engine, name in (*sources, ("nccl", "nccl_perf")):
        for version in tables.versions("comm", engine, name):
            calls = _allreduce_calls(tables.read("comm", engine, version, name))
            columns = (calls[c].tolist() for c in ("num_gpus", "message_size", "seconds"))
            for devices, values, seconds in zip(*columns, strict=True):
                size = 2.0 * values
                by_size = fastest.setdefault(int(devices), {})
                by_size[size] = min(seconds, by_size.get(size, seconds))
    return {devices: _message_knots(by_size) for devices, by_size in sorted(fastest.items())}


def _allreduce_calls(table: Table) -> Table:
    """The all-reduces of a table of communication that were not run eagerly."""
    operations = np.char.replace(table["op_name"].astype(str), "_", "")
    keep = np.char.find(operations, "allreduce") >= 0
    if "kernel_source" in table:
        keep &= np.char.find(table["kernel_source"].astype(str), "eager") < 0
    return where(table, keep)


def _message_knots(by_size: dict[float, float]) -> list[tuple[float, float]]:
    """(message bytes, seconds) at each of `MESSAGES` within the measured sizes. Times never fall."""
    sizes = sorted(by_size)
    log_sizes = np.log(sizes)
    log_times = np.maximum.accumulate(np.log([by_size[size] for size in sizes]))
    knots = []
    for message in MESSAGES:
        if sizes[0] <= message <= sizes[-1]:
            log_time = np.interp(np.log(message), log_sizes, log_times)
            knots.append((float(message), float(np.exp(log_time))))
    return knots
