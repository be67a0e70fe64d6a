"""The time of experts: ``t0 + touched bytes / (f BW) + flops / (g F)``, and for prompts also ``+ p routed
bytes / BW``. BW and F are the peak bandwidth and FLOP/s.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from perfmodel.costs.experts import touched
from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec, weight_format
from perfmodel.validate.fit.kernel_tables import gemms
from perfmodel.validate.fit.kernel_tables.fits import (
    Constants,
    RooflineConstants,
    TableFit,
    is_credible,
    peak_of,
    table_fit,
)
from perfmodel.validate.fit.tables import Table, Tables, most_frequent, where
from perfmodel.validate.solving import Values

FORMATS = gemms.FORMATS | {"int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4-a8"}
ACTIVATION_BYTES = 2
POPULARITY = 1.2
"""Popularity of experts that is assumed for rows "power_law_1.01" of the tables. With this value, their times
agree with those of balanced routing.
"""
FEWEST_CALLS = 60
DECODED_TOKENS = 1024
"""Largest number of tokens in the calls of a decoding pass."""
PROMPT_TOKENS = 16_384
"""Largest number of tokens in the calls of a pass over prompts."""
MOST_RANKS = 16
CONTRADICTED = {("vllm", "mxfp4")}
"""Engines and formats whose prompts took longer on a server than in the tables. gpt-oss-120b on H200 took 2.0
times as long (inferencex-profiling@237385bf). SGLang's and TensorRT-LLM's kernels take 1.8 and 1.4 times as
long.
"""
FIRST = {"fixed_s": 3e-5, "bandwidth_fraction": 0.8, "flops_fraction": 0.3}
FIRST_OF_PROMPTS = {**FIRST, "routed_passes": 4.0}


@dataclass(frozen=True)
class PromptConstants(RooflineConstants):
    """Constants of the kernels of experts in prompts.

    - routed_passes: see `ExpertKernel`.
    """

    routed_passes: float


@dataclass(frozen=True)
class ExpertFit:
    """The fits of one weight format.

    - prompts: the fit for passes over prompts; None if a server contradicts the table (`CONTRADICTED`).
    """

    decoding: TableFit[RooflineConstants]
    prompts: TableFit[PromptConstants] | None = None


def expert_fits(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, ExpertFit]:
    """Weight format -> its fit, from the newest table up to a version; empty without a table.

    Calls in prompts also move the hidden vectors of their tokens, once for each expert of a token.
    """
    fits = {}
    for name, calls, source in _calls_by_format(tables, gpu, engine, version):
        decoded = where(calls, calls["num_tokens"] <= DECODED_TOKENS)
        if len(decoded["topk"]) < FEWEST_CALLS:
            continue
        decoding = _fit(_main_kernel(decoded), gpu, name, FIRST, RooflineConstants, source)
        if is_credible(decoding):
            prompts = None
            if (engine, name) not in CONTRADICTED:
                prompts = _fit(_main_kernel(calls), gpu, name, FIRST_OF_PROMPTS, PromptConstants, source)
            fits[name] = ExpertFit(decoding, prompts)
    return fits


def _calls_by_format(
    tables: Tables, gpu: GPUSpec, engine: str, version: str
) -> Iterator[tuple[str, Table, str]]:
    """Format, the usual calls in it, and their source, of each format with a published peak."""
    if not tables.versions("moe", engine, "moe_perf"):
        return
    version, table = tables.read_version("moe", engine, version, "moe_perf")
    gated = np.char.find(table["kernel_source"].astype(str), "nongated") < 0
    usual = (
        (table["distribution"] == "power_law_1.01")
        & (table["num_tokens"] <= PROMPT_TOKENS)
        & (table["moe_ep_size"] <= MOST_RANKS)
    )
    table = where(table, usual & gated)
    for word, name in FORMATS.items():
        if peak_of(gpu, name) is not None:
            yield name, where(table, table["moe_dtype"] == word), f"{engine} {version}"


def _fit(
    calls: Table,
    gpu: GPUSpec,
    name: str,
    first: Mapping[str, float],
    build: Callable[..., Constants],
    source: str,
) -> TableFit[Constants]:
    columns = ("num_tokens", "num_experts", "topk", "moe_ep_size", "hidden_size")
    tokens, experts, topk, degree, hidden = (calls[c].astype(float) for c in columns)
    peak = peak_of(gpu, name)
    assert peak is not None
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    matrices = 3 * calls["hidden_size"] * calls["inter_size"] / calls["moe_tp_size"]
    form = WEIGHT_FORMATS[name] if name != "int4" else weight_format("int4-g32-sym").base
    routed = zip(experts, topk, tokens, strict=True)
    loaded = np.array([touched(*call, POPULARITY) for call in routed])
    loaded_s = loaded / degree * matrices * form.bytes_per_value / bandwidth
    computed_s = tokens * topk / degree * 2 * matrices / peak
    routed_s = tokens * topk * hidden * ACTIVATION_BYTES / bandwidth

    def predict(values: Values) -> Array:
        load_s = loaded_s / values["bandwidth_fraction"]
        compute_s = computed_s / values["flops_fraction"]
        move_s = routed_s * values.get("routed_passes", 0.0)
        return np.asarray(values["fixed_s"] + load_s + compute_s + move_s)

    return table_fit(predict, calls["seconds"], first, build, source)


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
