"""A calibration of kind ``kernels``: the result of `kernels.distil`, with sources and fit errors."""

import datetime
from typing import Any

from perfmodel.specs import Calibration, GPUSpec
from perfmodel.validate.fit.kernels import POPULARITY, Kernels, TableFit
from perfmodel.validate.solving import significant

COMMENT = "Written by `perfmodel calibrations import aiconfigurator` from public kernel tables (Apache-2.0)."
INDEX = ("index_bandwidth_fraction", "index_layer_s", "index_token_s")


def calibration_of(k: Kernels, gpu: GPUSpec, engine: str, date: datetime.date | None = None) -> Calibration:
    """The calibration of these kernels, dated today by default."""
    curve, (start_s, fixed_s) = dict(_pairs(k.gemm["bf16"])), k.gemm["bf16"].values[:2]
    wide = k.attention["bfloat16"]
    narrow = k.attention.get("fp8")
    latent, latent_fp8 = k.latent.get("bfloat16"), k.latent.get("fp8")
    shortest = f"shortest GEMM in a CUDA graph, {k.source}"
    values: dict[str, tuple[float, str]] = {
        "gemm_bandwidth_fraction": (curve[16.0], f"16-bit GEMMs at 16 tokens, {k.source}"),
        "gemm_flops_fraction": (curve[4096.0], f"16-bit GEMMs at 4096 tokens, {k.source}"),
        "gemm_fixed_s": (fixed_s, f"start of 16-bit GEMMs of 16 MB and more, {k.source}"),
        "gemm_blend_power": (3, "not used beside gemm_efficiency"),
        "quantise_s": (start_s, shortest),
        "attention_bandwidth_fraction": (wide.values[1], _calls(wide)),
        "attention_flops_fraction": (curve[4096.0], "no figure for attention: the GEMM one"),
        "attention_fixed_s": (wide.values[0], _calls(wide)),
        "small_kernel_s": (start_s, shortest),
        "small_bandwidth_fraction": (
            0.867,
            "device copy, ai-dynamo/aiconfigurator@095f58a5 kernel tables, as on H100: no figure of this "
            "device",
        ),
        "allreduce_multiplier": (1, "the table as it is"),
    }
    if narrow:
        values["attention_bandwidth_fraction_fp8"] = narrow.values[1], _calls(narrow)
    if latent:
        values["latent_bandwidth_fraction"] = latent.values[1], _calls(latent)
        values["latent_flops_fraction"] = latent.values[2], _calls(latent)
    if latent_fp8:
        values["latent_bandwidth_fraction_fp8"] = latent_fp8.values[1], _calls(latent_fp8)
    if k.index:
        source = f"sparse-attention modules less the GEMMs and attention priced here: {_calls(k.index)}"
        values |= {name: (value, source) for name, value in zip(INDEX, k.index.values, strict=True) if value}
    values |= dict.fromkeys(
        ("kv_reread_per_query", "pass_fixed_s", "token_s", "iteration_fixed_s"),
        (0, "hardware/fitted/engines.yaml states it"),
    )
    fields: dict[str, Any] = {
        "name": f"{gpu.name}.{engine}",
        "gpu": gpu.name,
        "stack": engine,
        "kind": "kernels",
        "date": date or datetime.date.today(),
        "notes": f"Kernels alone, from {k.source}; what the engine costs beyond them is in "
        "hardware/fitted/engines.yaml, which is put onto these constants when the file is read.",
        "gemm_efficiency": _curves(k),
        **{
            name: {"value": significant(value, 4), "source": source}
            for name, (value, source) in values.items()
        },
    }
    if k.experts:
        fields["expert_kernels"] = _experts(k)
    if k.allreduce:
        fields["allreduce"] = _allreduce(k, gpu)
    return Calibration.model_validate(fields)


def _pairs(fitted: TableFit) -> list[tuple[float, float]]:
    """(tokens, share of the roofline) of a GEMM's curve."""
    return list(zip(fitted.values[2::2], fitted.values[3::2], strict=True))


def _curves(k: Kernels) -> dict[str, Any]:
    errors = ", ".join(f"{fitted.median_error:.1%} ({form})" for form, fitted in k.gemm.items())
    knots = {form: [(tokens, round(share, 3)) for tokens, share in _pairs(of)] for form, of in k.gemm.items()}
    return {"source": f"GEMMs of 16 MB and more, {_sources(k.gemm)}; median error {errors}", "knots": knots}


def _experts(k: Kernels) -> dict[str, Any]:
    return {
        "source": f"up to 1024 tokens on up to 16 ranks, experts of popularity {POPULARITY:g}, "
        f"{_sources(k.experts)}",
        "kernels": {
            form: {
                "fixed_s": significant(fitted.values[0], 4),
                "bandwidth_fraction": round(fitted.values[1], 3),
                "flops_fraction": round(min(fitted.values[2], 2.0), 3),
                "median_error": round(fitted.median_error, 3),
            }
            for form, fitted in k.experts.items()
        },
    }


def _allreduce(k: Kernels, gpu: GPUSpec) -> dict[str, Any]:
    package = k.source.partition(",")[0]
    source = f"fastest of the custom kernels of all engines and versions and NCCL at each size, {package}"
    knots = {n: [(size, significant(seconds, 4)) for size, seconds in of] for n, of in k.allreduce.items()}
    return {"source": source, "knots": knots} | ({"link": "host"} if gpu.over_host(2) else {})


def _calls(fitted: TableFit) -> str:
    return f"{fitted.rows} calls, median error {fitted.median_error:.1%}, {fitted.source}"


def _sources(fits: dict[str, TableFit]) -> str:
    return "; ".join(f"{form} {fitted.source}" for form, fitted in fits.items())
