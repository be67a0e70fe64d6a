"""Fits the time of experts, ``t0 + touched bytes / (f BW) + flops / (g F)``, and for prompts also ``+ p
routed bytes / BW``. BW and F are the peak bandwidth and FLOP/s.
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
from perfmodel.validate.fit.tables import Table, Tables, of_most_frequent_kernel, where
from perfmodel.validate.solving import Values

FORMATS = gemms.FORMATS | {"int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4-a8"}
"""Name of a weight format in the tables -> perfmodel's name."""
ACTIVATION_BYTES = 2
"""Bytes per value of the hidden vectors that are moved."""
POPULARITY = 1.2
"""Assumed popularity of experts (see `touched`) for rows of the tables with the distribution
"power_law_1.01". With this value, the fit agrees with that to rows of balanced routing.
"""
FEWEST_CALLS = 60
"""Smallest number of calls for a fit."""
DECODED_TOKENS = 1024
"""Largest number of tokens of a call that counts as decoding."""
PROMPT_TOKENS = 16_384
"""Largest number of tokens of a call that counts as prefill."""
MOST_RANKS = 16
"""Largest number of expert-parallel ranks in the used calls."""
CONTRADICTED = {("vllm", "mxfp4")}
"""(engine, format) of kernels whose prefill took longer on a server than in the tables. gpt-oss-120b on H200
took 2.0 times as long (inferencex-profiling@237385bf). In the tables, the kernels of SGLang and TensorRT-LLM
take 1.8 and 1.4 times as long as those of vLLM.
"""
FIRST = {"fixed_s": 3e-5, "bandwidth_fraction": 0.8, "flops_fraction": 0.3}
FIRST_OF_PROMPTS = {**FIRST, "routed_passes": 4.0}
"""The values at which the searches for decoding and for prefill begin."""


@dataclass(frozen=True)
class PromptConstants(RooflineConstants):
    """Constants of the kernels of experts in prefill.

    - routed_passes: the factor p in the formula of this module (see `ExpertKernel`).
    """

    routed_passes: float


@dataclass(frozen=True)
class ExpertFit:
    """The fits of one weight format.

    - decoding, prompts: the fits for decoding and for prefill. The latter is None if a server contradicts the
      table (`CONTRADICTED`).
    """

    decoding: TableFit[RooflineConstants]
    prompts: TableFit[PromptConstants] | None = None


def expert_fits(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, ExpertFit]:
    """Weight format -> its fit. The mapping is empty if the engine has no table of experts.

    In prefill, a call also moves the hidden vector of each token once for each expert of the token.

    - version: the version of the engine; if it has no table, the newest version is used.
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
    """The format, the usual calls and the source, for each format with a published peak."""
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
    """The calls of the most frequent kernel. If another kernel ran the same call faster, its time is used."""
    keys = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    stacked = np.stack([calls[c] for c in keys])
    numbers = np.unique(stacked, axis=1, return_inverse=True)[1].ravel()
    best_s = np.full(len(numbers), np.inf)
    np.minimum.at(best_s, numbers, calls["seconds"])
    return of_most_frequent_kernel(calls | {"seconds": best_s[numbers]})
