"""Experts: ``t0 + touched bytes / (f BW) + flops / (g F)``."""

import numpy as np

from perfmodel.costs.gemms import touched
from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec, weight_format
from perfmodel.validate.fit.kernel_tables import gemms
from perfmodel.validate.fit.kernel_tables.fits import (
    RooflineConstants,
    TableFit,
    is_credible,
    peak_of,
    table_fit,
)
from perfmodel.validate.fit.tables import Table, Tables, most_frequent, where
from perfmodel.validate.solving import Values

FORMATS = gemms.FORMATS | {"int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4-a8"}
POPULARITY = 1.2
"""Popularity of experts in the tables' rows "power_law_1.01"; with it their times agree with those of
balanced routing.
"""
FEWEST_CALLS = 60
MOST_TOKENS = 1024
MOST_RANKS = 16
FIRST = {"fixed_s": 3e-5, "bandwidth_fraction": 0.8, "flops_fraction": 0.3}


def expert_fits(
    tables: Tables, gpu: GPUSpec, engine: str, version: str
) -> dict[str, TableFit[RooflineConstants]]:
    """The fit of each format, from the newest table up to a version; none without a table."""
    if not tables.versions("moe", engine, "moe_perf"):
        return {}
    version, table = tables.read_version("moe", engine, version, "moe_perf")
    gated = np.char.find(table["kernel_source"].astype(str), "nongated") < 0
    usual = (
        (table["distribution"] == "power_law_1.01")
        & (table["num_tokens"] <= MOST_TOKENS)
        & (table["moe_ep_size"] <= MOST_RANKS)
    )
    table = where(table, usual & gated)
    fits = {}
    for word, name in FORMATS.items():
        calls = where(table, table["moe_dtype"] == word)
        peak = peak_of(gpu, name)
        if peak is None or len(calls["topk"]) < FEWEST_CALLS:
            continue
        fitted = _fit(_main_kernel(calls), gpu, name, peak, f"{engine} {version}")
        if is_credible(fitted):
            fits[name] = fitted
    return fits


def _fit(calls: Table, gpu: GPUSpec, name: str, peak: float, source: str) -> TableFit[RooflineConstants]:
    columns = ("num_tokens", "num_experts", "topk", "moe_ep_size")
    tokens, experts, topk, degree = (calls[c].astype(float) for c in columns)
    matrices = 3 * calls["hidden_size"] * calls["inter_size"] / calls["moe_tp_size"]
    form = WEIGHT_FORMATS[name] if name != "int4" else weight_format("int4-g32-sym").base
    routed = zip(experts, topk, tokens, strict=True)
    loaded = np.array([touched(*call, POPULARITY) for call in routed])
    loaded_s = loaded / degree * matrices * form.bytes_per_value / gpu.memory_bandwidth_bytes_per_s
    computed_s = tokens * topk / degree * 2 * matrices / peak

    def predict(values: Values) -> Array:
        load_s = loaded_s / values["bandwidth_fraction"]
        return np.asarray(values["fixed_s"] + load_s + computed_s / values["flops_fraction"])

    return table_fit(predict, calls["seconds"], FIRST, RooflineConstants, source)


def _main_kernel(calls: Table) -> Table:
    """The rows of the most frequent kernel. If another kernel ran the same call faster, its time replaces the
    row's.
    """
    keys = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    stacked = np.stack([calls[c] for c in keys])
    numbers = np.unique(stacked, axis=1, return_inverse=True)[1].ravel()
    best_s = np.full(len(numbers), np.inf)
    np.minimum.at(best_s, numbers, calls["seconds"])
    return most_frequent(calls | {"seconds": best_s[numbers]})
