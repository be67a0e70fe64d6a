"""Makes a calibration of the kind ``kernels`` from the result of `kernels.distil`. The calibration states
sources and fit errors.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from perfmodel.specs import Calibration, GPUSpec
from perfmodel.validate.fit.kernel_tables.experts import (
    DECODED_TOKENS,
    MOST_RANKS,
    POPULARITY,
    PROMPT_TOKENS,
    PromptConstants,
)
from perfmodel.validate.fit.kernel_tables.fits import RooflineConstants, TableFit
from perfmodel.validate.fit.kernels import IndexConstants, Kernels
from perfmodel.validate.solving import significant

COMMENT = "Written by `perfmodel calibrations import aiconfigurator` from public kernel tables (Apache-2.0)."
MOST_PEAK_SHARE = 2.0
"""Largest share of the peak that a file states. A larger share would mean that the peak is wrong."""


def index_constants(index: IndexConstants) -> dict[str, float]:
    """Name in a calibration -> value, for the constants of an indexer."""
    return {
        "index_bandwidth_fraction": index.bandwidth_fraction,
        "index_layer_s": index.layer_s,
        "index_token_s": index.token_s,
    }


def calibration_of(k: Kernels, gpu: GPUSpec, engine: str, date: datetime.date | None = None) -> Calibration:
    """The calibration with these kernel constants.

    - date: the date of the file; by default today.
    """
    values: dict[str, tuple[float, str]] = {
        **_dense_constants(k),
        **_attention_constants(k),
        **_latent_constants(k),
        **_index_constants(k),
    }
    for name in ("kv_reread_per_query", "pass_fixed_s", "token_s", "iteration_fixed_s"):
        values[name] = 0, "hardware/fitted/engines.yaml states it"
    fields: dict[str, Any] = {
        "name": f"{gpu.name}.{engine}",
        "gpu": gpu.name,
        "stack": engine,
        "kind": "kernels",
        "date": date or datetime.date.today(),
        "notes": f"Constants of kernels only, from {k.source}. The other costs of the engine are in "
        "hardware/fitted/engines.yaml and are added to these constants when this file is read.",
        "gemm_efficiency": _curves(k),
    }
    for name, (value, source) in values.items():
        fields[name] = {"value": significant(value, 4), "source": source}
    if k.experts:
        fields["expert_kernels"] = _experts(k)
    if k.allreduce:
        fields["allreduce"] = _allreduce(k, gpu)
    return Calibration.of_mapping(fields)


def _dense_constants(k: Kernels) -> dict[str, tuple[float, str]]:
    """Constant of GEMMs and small kernels -> value and source."""
    gemm = k.gemm["bf16"]
    start_s = gemm.constants.start_s
    efficiency = dict(gemm.constants.curve)
    shortest = f"shortest GEMM in a CUDA graph, {k.source}"
    copied = (
        "device copy, ai-dynamo/aiconfigurator@095f58a5 kernel tables, as on H100: no figure of this device"
    )
    return {
        "gemm_bandwidth_fraction": (efficiency[16.0], f"16-bit GEMMs at 16 tokens, {k.source}"),
        "gemm_flops_fraction": (efficiency[4096.0], f"16-bit GEMMs at 4096 tokens, {k.source}"),
        "gemm_fixed_s": (gemm.constants.fixed_s, f"start of 16-bit GEMMs of 16 MB and more, {k.source}"),
        "gemm_blend_power": (3, "not used beside gemm_efficiency"),
        "quantise_s": (start_s, shortest),
        "small_kernel_s": (start_s, shortest),
        "small_bandwidth_fraction": (0.867, copied),
        "allreduce_multiplier": (1, "the table as it is"),
    }


def _attention_constants(k: Kernels) -> dict[str, tuple[float, str]]:
    """Constant of attention over a cache of keys and values -> value and source."""
    bf16 = k.attention["bfloat16"]
    gemm_efficiency = dict(k.gemm["bf16"].constants.curve)
    constants = {
        "attention_bandwidth_fraction": (bf16.constants.bandwidth_fraction, _calls(bf16)),
        "attention_flops_fraction": (gemm_efficiency[4096.0], "no figure for attention: the GEMM one"),
        "attention_fixed_s": (bf16.constants.fixed_s, _calls(bf16)),
    }
    fp8 = k.attention.get("fp8")
    if fp8:
        constants["attention_bandwidth_fraction_fp8"] = fp8.constants.bandwidth_fraction, _calls(fp8)
    return constants


def _latent_constants(k: Kernels) -> dict[str, tuple[float, str]]:
    """Constant of attention over a latent cache -> value and source, for the cache formats with tables."""
    constants = {}
    bf16 = k.latent.get("bfloat16")
    if bf16:
        constants["latent_bandwidth_fraction"] = bf16.constants.bandwidth_fraction, _calls(bf16)
        constants["latent_flops_fraction"] = bf16.constants.flops_fraction, _calls(bf16)
    fp8 = k.latent.get("fp8")
    if fp8:
        constants["latent_bandwidth_fraction_fp8"] = fp8.constants.bandwidth_fraction, _calls(fp8)
    return constants


def _index_constants(k: Kernels) -> dict[str, tuple[float, str]]:
    """Constant of an indexer that is not 0 -> value and source."""
    if k.index is None:
        return {}
    source = f"sparse-attention modules less the GEMMs and attention priced here: {_calls(k.index)}"
    constants = index_constants(k.index.constants)
    return {name: (value, source) for name, value in constants.items() if value}


def _curves(k: Kernels) -> dict[str, Any]:
    errors = ", ".join(f"{fitted.median_error:.1%} ({form})" for form, fitted in k.gemm.items())
    source = f"GEMMs of 16 MB and more, {_sources(k.gemm)}; median error {errors}"
    knots = {}
    for form, fitted in k.gemm.items():
        knots[form] = [(tokens, round(share, 3)) for tokens, share in fitted.constants.curve]
    return {"source": source, "knots": knots}


def _experts(k: Kernels) -> dict[str, Any]:
    tokens = f"up to {DECODED_TOKENS} tokens, prompts up to {PROMPT_TOKENS}"
    calls = f"{tokens}, on up to {MOST_RANKS} ranks, experts of popularity {POPULARITY:g}"
    decoding = {form: fitted.decoding for form, fitted in k.experts.items()}
    prompts = {form: fitted.prompts for form, fitted in k.experts.items() if fitted.prompts}
    return {
        "source": f"{calls}, {_sources(decoding)}",
        "kernels": {form: _expert_kernel(fitted) for form, fitted in decoding.items()},
        "prompts": {form: _expert_kernel(fitted) for form, fitted in prompts.items()},
    }


def _expert_kernel(fitted: TableFit[RooflineConstants] | TableFit[PromptConstants]) -> dict[str, float]:
    constants = fitted.constants
    kernel = {
        "fixed_s": significant(constants.fixed_s, 4),
        "bandwidth_fraction": round(constants.bandwidth_fraction, 3),
        "flops_fraction": round(min(constants.flops_fraction, MOST_PEAK_SHARE), 3),
    }
    if isinstance(constants, PromptConstants):
        kernel["routed_passes"] = significant(constants.routed_passes, 3)
    return kernel | {"median_error": round(fitted.median_error, 3)}


def _allreduce(k: Kernels, gpu: GPUSpec) -> dict[str, Any]:
    package = k.source.partition(",")[0]
    source = f"fastest of the custom kernels of all engines and versions and NCCL at each size, {package}"
    knots = {}
    for devices, curve in k.allreduce.items():
        knots[devices] = [(size, significant(seconds, 4)) for size, seconds in curve]
    table: dict[str, Any] = {"source": source, "knots": knots}
    if gpu.over_host(2):
        table["link"] = "host"
    return table


def _calls(fitted: TableFit[Any]) -> str:
    return f"{fitted.rows} calls, median error {fitted.median_error:.1%}, {fitted.source}"


def _sources(fits: Mapping[str, TableFit[Any]]) -> str:
    return "; ".join(f"{form} {fitted.source}" for form, fitted in fits.items())
