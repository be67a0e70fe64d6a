"""The kernel constants of a calibration from kernel tables, each with the error of its fit.

GEMM: ``t0 + max(bytes/BW, flops/F) / efficiency(tokens)``. Attention: ``t0 + bytes / (f BW)``; for a latent
cache FLOPs bound it too. Experts: ``t0 + touched bytes / (f BW) + flops / (g F)``. All are robust least
squares on log times. Tables without CUDA graphs include the launch in t0, so all formats take the t0 of
16-bit GEMMs. A format whose curve would exceed 1 is left to another engine's table of the same device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

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
SMALL_WEIGHTS, LARGE_WEIGHTS = 1e6, 16e6
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
    version = known[-1] if version is None and known else version
    if version not in known:
        raise InputError(
            f"--version: must be one of {', '.join(known) or 'none'} for {engine} on {gpu.name}, given "
            f"{version}"
        )
    gemm = _gemms(tables, gpu, engine, version)
    experts = _experts(tables, gpu, engine, version)
    for other in (e for e in ("sglang", *ENGINES) if e != engine):
        for found, family, name, fits in (
            (gemm, "gemm", "gemm_perf", _gemms),
            (experts, "moe", "moe_perf", _experts),
        ):
            for newest in tables.versions(family, other, name)[-1:]:
                for form, fitted in fits(tables, gpu, other, newest).items():
                    found.setdefault(form, fitted)
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

    found = estimate(parameters, residuals, soft=0.1)
    median_error = float(np.median(np.abs(found.solution.residuals)))
    return TableFit(tuple(found.values.values()), median_error, len(seconds), source)


def _peak(gpu: GPUSpec, form: str) -> float | None:
    compute = WEIGHT_FORMATS[form].compute
    return gpu.peak_flops(compute) if compute in gpu.peak else None


def _gemms(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format: time of the smallest GEMM, fitted t0, and the efficiency at each knot."""
    table = tables.read("gemm", engine, version, "gemm_perf")
    found = {}
    for word, name in GEMM_FORMS.items():
        part = where(table, table["gemm_dtype"] == word)
        peak = _peak(gpu, name)
        if peak is None or len(part["m"]) < 500:
            continue
        part = _fastest(part, ("m", "n", "k"))
        form = WEIGHT_FORMATS[name]
        m, n, k, seconds = (part[c].astype(float) for c in ("m", "n", "k", "seconds"))
        weights = n * k * form.bytes_per_value
        moved = weights + m * (2 * n + (form.input_bytes or 2) * k)
        roof = np.maximum(moved / gpu.memory_bandwidth_bytes_per_s, 2 * m * n * k / peak)
        start = float(np.median(seconds[(weights <= SMALL_WEIGHTS) & (m <= 16)]))
        knots = [float(t) for t in KNOTS if t in m or t in (KNOTS[0], KNOTS[-1])]
        keep = (weights >= LARGE_WEIGHTS) & (m <= KNOTS[-1]) & (n >= 1024) & (k >= 1024)
        fitted = _gemm_fit(m[keep], roof[keep], seconds[keep], knots, f"{engine} {version}")
        if start <= GRAPHED_START_S and max(fitted.values[1:]) <= 1.1:
            shares = (x for pair in zip(knots, fitted.values[1:], strict=True) for x in pair)
            found[name] = replace(fitted, values=(start, fitted.values[0], *shares))
    return found


def _gemm_fit(m: Array, roof: Array, seconds: Array, knots: list[float], source: str) -> TableFit:
    """The fitted t0, and the efficiency at each knot."""
    at = np.log(m)
    places = np.log(knots)

    def predict(x: Array) -> Array:
        return x[0] + roof / np.exp(np.interp(at, places, np.log(x[1:])))

    return table_fit(predict, seconds, [GEMM_FIRST[0], *GEMM_FIRST[1:] * len(knots)], source)


def _experts(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format: t0, share of the bandwidth, share of the peak."""
    if not tables.versions("moe", engine, "moe_perf"):
        return {}
    version, table = tables.read_version("moe", engine, version, "moe_perf")
    found = {}
    gated = np.char.find(table["kernel_source"].astype(str), "nongated") < 0
    usual = (
        (table["distribution"] == "power_law_1.01")
        & (table["num_tokens"] <= 1024)
        & (table["moe_ep_size"] <= 16)
    )
    table = where(table, usual & gated)
    for word, name in EXPERT_FORMS.items():
        part = where(table, table["moe_dtype"] == word)
        peak = _peak(gpu, name)
        if peak is None or len(part["topk"]) < 60:
            continue
        fitted = _expert_fit(_main_source(part), gpu, name, peak, f"{engine} {version}")
        if fitted.median_error <= WORST_MEDIAN and fitted.values[1] >= LEAST_SHARE:
            found[name] = fitted
    return found


def _expert_fit(part: Table, gpu: GPUSpec, name: str, peak: float, source: str) -> TableFit:
    tokens, experts, topk, degree = (
        part[c].astype(float) for c in ("num_tokens", "num_experts", "topk", "moe_ep_size")
    )
    matrices = 3 * part["hidden_size"] * part["inter_size"] / part["moe_tp_size"]
    form = WEIGHT_FORMATS[name] if name != "int4" else weight_format("int4-g32-sym").base
    share = np.array([touched(*call, POPULARITY) for call in zip(experts, topk, tokens, strict=True)])
    loaded = share / degree * matrices * form.bytes_per_value / gpu.memory_bandwidth_bytes_per_s
    computed = tokens * topk / degree * 2 * matrices / peak
    return table_fit(lambda x: x[0] + loaded / x[1] + computed / x[2], part["seconds"], EXPERT_FIRST, source)


def _most_frequent(part: Table) -> Table:
    """The rows of the most frequent kernel."""
    names, counts = np.unique(part["kernel_source"], return_counts=True)
    return where(part, part["kernel_source"] == names[np.argmax(counts)])


def _main_source(part: Table) -> Table:
    """The rows of the most frequent kernel. If another kernel ran the same call faster, its time replaces the
    row's.
    """
    keys = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    calls = np.unique(np.stack([part[c] for c in keys]), axis=1, return_inverse=True)[1].ravel()
    best = np.full(len(calls), np.inf)
    np.minimum.at(best, calls, part["seconds"])
    return _most_frequent(part | {"seconds": best[calls]})


def _fastest(part: Table, keys: tuple[str, ...]) -> Table:
    """One row for each call: that of its fastest kernel."""
    order = np.lexsort((part["seconds"], *(part[c] for c in reversed(keys))))
    stacked = np.stack([part[c][order] for c in keys])
    first = np.append(True, np.any(stacked[:, 1:] != stacked[:, :-1], axis=0))
    return {name: values[order][first] for name, values in part.items()}


def _attention(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit]:
    """By format of the cache: t0, share of the bandwidth."""
    version, table = tables.read_version("attention", engine, version, "generation_attention_perf")
    found = {}
    window = table.get("window_size", np.zeros(len(table["step"])))
    table = where(table, np.isin(table["head_dim"], (64, 128)) & (window == 0) & (table["batch_size"] <= 256))
    for word, size in KV_BYTES.items():
        part = where(table, table["kv_cache_dtype"] == word)
        if len(part["step"]) < 100:
            continue
        part = _most_frequent(part)
        batch, heads, width = (part[c].astype(float) for c in ("batch_size", "num_heads", "head_dim"))
        kv_heads = np.where(part["num_key_value_heads"] == 0, heads, part["num_key_value_heads"])
        cache = batch * kv_heads * (part["isl"] + part["step"]) * 2 * width * size
        moved = (cache + 4 * batch * heads * width) / gpu.memory_bandwidth_bytes_per_s
        grouped = heads / kv_heads <= 16
        keep = (cache > _uncached(gpu)) & grouped
        fitted = _line(moved[keep], part["seconds"][keep], f"{engine} {version}")
        if _uncached(gpu) > LARGE_CACHE:  # so long calls do not determine the start
            shortest = float(np.median(part["seconds"][(cache <= LARGE_CACHE) & grouped]))
            fitted = replace(fitted, values=(max(shortest, fitted.values[0]), fitted.values[1]))
        found[word] = fitted
    return found


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
    names = (
        name for name in (engine, "sglang", "trtllm") if tables.versions("mla", name, "generation_mla_perf")
    )
    if (name := next(names, None)) is None:
        return {}
    version, table = tables.read_version("mla", name, version, "generation_mla_perf")
    table = where(table, table["batch_size"] <= 256)
    found = {}
    for word, size in KV_BYTES.items():
        part = where(table, table["kv_cache_dtype"] == word)
        if not len(part["step"]):
            continue
        part = _fastest(part, ("num_heads", "batch_size", "isl", "step"))
        batch = part["batch_size"].astype(float)
        heads = part["num_heads"].astype(float)
        tokens = batch * (part["isl"] + part["step"])
        cache = tokens * 576 * size
        pairs = tokens * heads
        moved = (cache + 2 * batch * heads * (576 + 512)) / gpu.memory_bandwidth_bytes_per_s
        computed = 2 * pairs * (576 + 512) / gpu.peak_flops("bf16")
        keep = cache > LARGE_CACHE
        fitted = _roof_fit(moved[keep], computed[keep], part["seconds"][keep], f"{name} {version}")
        if fitted.median_error <= WORST_MEDIAN and fitted.values[1] >= LEAST_SHARE:
            found[word] = fitted
    return found


def _roof_fit(moved_s: Array, computed_s: Array, seconds: Array, source: str) -> TableFit:
    return table_fit(
        lambda x: x[0] + np.maximum(moved_s / x[1], computed_s / x[2]), seconds, LATENT_FIRST, source
    )


def _allreduce(tables: Tables) -> dict[int, list[tuple[float, float]]]:
    """By number of devices: (message bytes, seconds) of the fastest kernel of any engine and version at each
    knot. Sizes are in values.

    Over PCIe the versions were measured on servers that differ up to tenfold; the fastest has peer access.
    """
    best: dict[int, dict[float, float]] = {}
    for engine, name in (*((e, "custom_allreduce_perf") for e in ENGINES), ("nccl", "nccl_perf")):
        for version in tables.versions("comm", engine, name):
            table = tables.read("comm", engine, version, name)
            keep = np.char.find(np.char.replace(table["op_name"].astype(str), "_", ""), "allreduce") >= 0
            if "kernel_source" in table:
                keep &= np.char.find(table["kernel_source"].astype(str), "eager") < 0
            for devices, values, seconds in zip(
                *(table[c][keep].tolist() for c in ("num_gpus", "message_size", "seconds")), strict=True
            ):
                sizes = best.setdefault(int(devices), {})
                sizes[2.0 * values] = min(seconds, sizes.get(2.0 * values, seconds))
    knots = {}
    for devices, sizes in sorted(best.items()):
        at = np.log(sorted(sizes))
        times = np.maximum.accumulate(np.log([sizes[s] for s in sorted(sizes)]))
        inside = [m for m in MESSAGES if min(sizes) <= m <= max(sizes)]
        knots[devices] = [(float(m), float(np.exp(np.interp(np.log(m), at, times)))) for m in inside]
    return knots
