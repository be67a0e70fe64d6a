"""Fits the time of attention over a latent cache (MLA) in a decode step, ``t0 + max(bytes / (f BW), flops /
(g F))``. BW and F are the peak bandwidth and FLOP/s.
"""

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import GPUSpec
from perfmodel.validate.fit.kernel_tables.attention import LARGE_CACHE_BYTES, MOST_SEQUENCES, VALUE_BYTES
from perfmodel.validate.fit.kernel_tables.fits import RooflineConstants, TableFit, is_credible, table_fit
from perfmodel.validate.fit.tables import Tables, fastest, where
from perfmodel.validate.solving import Values

LATENT_WIDTH = 576
"""Cached values per token: 512 of the latent vector and 64 of the rotated key."""
VALUE_WIDTH = 512
"""Values of the latent vector that attention sums."""
FIRST = {"fixed_s": 1e-5, "bandwidth_fraction": 0.7, "flops_fraction": 0.5}
"""The values at which the search begins."""


def latent_fits(
    tables: Tables, gpu: GPUSpec, engine: str, version: str
) -> dict[str, TableFit[RooflineConstants]]:
    """Format of the cache -> its fit. Fits that are not credible are left out. If the engine has no table,
    the table of SGLang is used, or else that of TensorRT-LLM. The mapping is empty without a table.
    """
    engines = (engine, "sglang", "trtllm")
    with_table = [name for name in engines if tables.versions("mla", name, "generation_mla_perf")]
    if not with_table:
        return {}
    name = with_table[0]
    version, table = tables.read_version("mla", name, version, "generation_mla_perf")
    table = where(table, table["batch_size"] <= MOST_SEQUENCES)
    widths = LATENT_WIDTH + VALUE_WIDTH
    fits = {}
    for word, value_bytes in VALUE_BYTES.items():
        calls = where(table, table["kv_cache_dtype"] == word)
        if not len(calls["step"]):
            continue
        calls = fastest(calls, ("num_heads", "batch_size", "isl", "step"))
        batch = calls["batch_size"].astype(float)
        heads = calls["num_heads"].astype(float)
        tokens = batch * (calls["isl"] + calls["step"])
        cache_bytes = tokens * LATENT_WIDTH * value_bytes
        pairs = tokens * heads
        moved_s = (cache_bytes + 2 * batch * heads * widths) / gpu.memory_bandwidth_bytes_per_s
        computed_s = 2 * pairs * widths / gpu.peak_flops("bf16")
        keep = cache_bytes > LARGE_CACHE_BYTES
        fitted = _fit(moved_s[keep], computed_s[keep], calls["seconds"][keep], f"{name} {version}")
        if is_credible(fitted):
            fits[word] = fitted
    return fits


def _fit(moved_s: Array, computed_s: Array, seconds: Array, source: str) -> TableFit[RooflineConstants]:
    def predict(values: Values) -> Array:
        load_s = moved_s / values["bandwidth_fraction"]
        compute_s = computed_s / values["flops_fraction"]
        return np.asarray(values["fixed_s"] + np.maximum(load_s, compute_s))

    return table_fit(predict, seconds, FIRST, RooflineConstants, source)
