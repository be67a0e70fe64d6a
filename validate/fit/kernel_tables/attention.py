"""Fits the time of attention in a decode step, ``t0 + bytes / (f BW)``. Here f is the reached share of the
memory bandwidth BW.
"""

from dataclasses import replace

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import GPUSpec
from perfmodel.validate.fit.kernel_tables.fits import MemoryConstants, TableFit, table_fit
from perfmodel.validate.fit.tables import Tables, of_most_frequent_kernel, where
from perfmodel.validate.solving import Values

VALUE_BYTES = {"bfloat16": 2.0, "fp8": 1.0}
"""Name of a cache format in the tables -> bytes per value."""
ACTIVATION_BYTES = 2.0
"""Bytes per value of queries and outputs, which the calls of these tables have in bfloat16."""
FEWEST_CALLS = 100
"""Smallest number of calls for a fit."""
MOST_SEQUENCES = 256
"""Largest batch of the used calls."""
MOST_GROUPED = 16
"""Largest number of query heads per KV head in the used calls."""
LARGE_CACHE_BYTES = 1e6
"""Bytes of keys and values above which a call determines the bandwidth."""
HIDDEN_S = 5e-5
"""Seconds to read the whole last-level cache above which it hides the memory reads of repeated calls."""
FIRST = {"fixed_s": 1e-5, "bandwidth_fraction": 0.8}
"""The values at which the search begins."""


def attention_fits(
    tables: Tables, gpu: GPUSpec, engine: str, version: str
) -> dict[str, TableFit[MemoryConstants]]:
    """Format of the cache -> its fit, for the formats that the table has."""
    version, table = tables.read_version("attention", engine, version, "generation_attention_perf")
    window = table.get("window_size", np.zeros(len(table["step"])))
    usual_heads = np.isin(table["head_dim"], (64, 128))
    table = where(table, usual_heads & (window == 0) & (table["batch_size"] <= MOST_SEQUENCES))
    fits = {}
    for cache_format, value_bytes in VALUE_BYTES.items():
        calls = where(table, table["kv_cache_dtype"] == cache_format)
        if len(calls["step"]) < FEWEST_CALLS:
            continue
        calls = of_most_frequent_kernel(calls)
        batch, heads, width = (calls[c].astype(float) for c in ("batch_size", "num_heads", "head_dim"))
        kv_heads = np.where(calls["num_key_value_heads"] == 0, heads, calls["num_key_value_heads"])
        context = calls["isl"] + calls["step"]
        keys_and_values = 2 * width
        cache_bytes = batch * kv_heads * context * keys_and_values * value_bytes
        queries_and_outputs_bytes = 2 * batch * heads * width * ACTIVATION_BYTES
        moved_s = (cache_bytes + queries_and_outputs_bytes) / gpu.memory_bandwidth_bytes_per_s
        grouped = heads / kv_heads <= MOST_GROUPED
        keep = (cache_bytes > _uncached_bytes(gpu)) & grouped
        fitted = _fit(moved_s[keep], calls["seconds"][keep], f"{engine} {version}")
        if _uncached_bytes(gpu) > LARGE_CACHE_BYTES:  # such large calls do not determine the fixed time
            short = (cache_bytes <= LARGE_CACHE_BYTES) & grouped
            shortest_s = float(np.median(calls["seconds"][short]))
            start_s = max(shortest_s, fitted.constants.fixed_s)
            fitted = replace(fitted, constants=replace(fitted.constants, fixed_s=start_s))
        fits[cache_format] = fitted
    return fits


def _fit(moved_s: Array, seconds: Array, source: str) -> TableFit[MemoryConstants]:
    def predict(values: Values) -> Array:
        return np.asarray(values["fixed_s"] + moved_s / values["bandwidth_fraction"])

    return table_fit(predict, seconds, FIRST, MemoryConstants, source)


def _uncached_bytes(gpu: GPUSpec) -> float:
    """The bytes of keys and values above which repeated calls read them from memory."""
    cached = gpu.last_level_cache
    if cached and cached.si / gpu.memory_bandwidth_bytes_per_s > HIDDEN_S:
        return cached.si
    return LARGE_CACHE_BYTES
