"""The text of a calibration of kind ``kernels``: what `kernels.distil` found, with sources and fit errors."""

import datetime
from collections.abc import Iterator

from perfmodel.specs.gpu import GPUSpec
from perfmodel.validate.fit.kernels import POPULARITY, Kernels, TableFit
from perfmodel.validate.solving import yaml_number

HEADER = "# Written by `perfmodel calibrations import aiconfigurator` from public kernel tables (Apache-2.0)."
COPY = "device copy, ai-dynamo/aiconfigurator@095f58a5 kernel tables, as on H100: no figure of this device"
ENGINES_FILE = "hardware/engines.yaml states it"
INDEX = ("index_bandwidth_fraction", "index_layer_s", "index_token_s")


def render(kernels: Kernels, gpu: GPUSpec, engine: str, date: datetime.date | None = None) -> str:
    """A calibration file, of today if no date is given."""
    return "\n".join(_lines(kernels, gpu, engine, date or datetime.date.today())) + "\n"


def _lines(k: Kernels, gpu: GPUSpec, engine: str, date: datetime.date) -> Iterator[str]:
    yield HEADER
    yield f"name: {gpu.name}.{engine}"
    yield f"gpu: {gpu.name}"
    yield f"stack: {engine}"
    yield "kind: kernels"
    yield f"date: {date}"
    yield "notes: >-"
    yield f"  Kernels alone, from {k.source}; what the engine costs beyond"
    yield "  them is in hardware/engines.yaml, which is put onto these constants when the file is read."
    curve = dict(zip(k.gemm["bf16"].values[2::2], k.gemm["bf16"].values[3::2], strict=True))
    yield _constant("gemm_bandwidth_fraction", curve[16.0], f"16-bit GEMMs at 16 tokens, {k.source}")
    yield _constant("gemm_flops_fraction", curve[4096.0], f"16-bit GEMMs at 4096 tokens, {k.source}")
    yield _constant("gemm_fixed_s", k.gemm_fixed_s, f"start of 16-bit GEMMs of 16 MB and more, {k.source}")
    yield _constant("gemm_blend_power", 3, "not used beside gemm_efficiency")
    yield from _curves(k)
    yield _constant("quantise_s", k.start_s, f"shortest GEMM in a CUDA graph, {k.source}")
    yield from _experts(k)
    yield from _attention(k)
    yield _constant("small_kernel_s", k.start_s, f"shortest GEMM in a CUDA graph, {k.source}")
    yield _constant("small_bandwidth_fraction", 0.867, COPY)
    yield _constant("allreduce_multiplier", 1, "the table as it is")
    if k.allreduce:
        yield "allreduce:"
        if gpu.over_host(2):
            yield "  link: host"
        package = k.source.partition(",")[0]
        yield f'  source: "fastest of the custom kernels of all engines and NCCL at each size, {package}"'
        yield "  knots:  # message bytes, seconds"
        for devices, knots in k.allreduce.items():
            yield f"    {devices}: [{', '.join(f'[{size:.0f}, {yaml_number(seconds, 4)}]' for size, seconds in knots)}]"
    for name in ("kv_reread_per_query", "pass_fixed_s", "token_s", "iteration_fixed_s"):
        yield _constant(name, 0, ENGINES_FILE)
    yield "shards_lm_head: true"


def _curves(k: Kernels) -> Iterator[str]:
    yield "gemm_efficiency:"
    yield f'  source: "GEMMs of 16 MB and more, {_sources(k.gemm)}; median error {_errors(k.gemm)}"'
    yield "  knots:  # tokens, share of the ideal roofline"
    for form, fitted in k.gemm.items():
        pairs = zip(fitted.values[2::2], fitted.values[3::2], strict=True)
        yield f"    {form}: [{', '.join(f'[{tokens:.0f}, {share:.3f}]' for tokens, share in pairs)}]"


def _experts(k: Kernels) -> Iterator[str]:
    if not k.experts:
        return
    yield "expert_kernels:"
    where = f"up to 1024 tokens on up to 16 ranks, experts of popularity {POPULARITY:g}"
    yield f'  source: "{where}, {_sources(k.experts)}"'
    yield "  kernels:"
    for form, fitted in k.experts.items():
        start, bandwidth, flops = fitted.values
        yield (
            f"    {form}: {{fixed_s: {yaml_number(start, 4)}, bandwidth_fraction: {bandwidth:.3f}, "
            f"flops_fraction: {min(flops, 2.0):.3f}, median_error: {fitted.median_error:.3f}}}"
        )


def _attention(k: Kernels) -> Iterator[str]:
    wide, narrow = k.attention["bfloat16"], k.attention.get("fp8")
    yield _constant("attention_bandwidth_fraction", wide.values[1], _kernel(wide))
    if narrow:
        yield _constant("attention_bandwidth_fraction_fp8", narrow.values[1], _kernel(narrow))
    if latent := k.latent.get("bfloat16"):
        yield _constant("latent_bandwidth_fraction", latent.values[1], _kernel(latent))
    if latent := k.latent.get("fp8"):
        yield _constant("latent_bandwidth_fraction_fp8", latent.values[1], _kernel(latent))
    if latent := k.latent.get("bfloat16"):
        yield _constant("attention_flops_fraction", latent.values[2], f"of a latent cache: {_kernel(latent)}")
    else:
        yield _constant("attention_flops_fraction", k.gemm["bf16"].values[-1], "no figure for attention: the GEMM one")
    if k.index:
        source = f"sparse-attention modules less the GEMMs and attention priced here: {_kernel(k.index)}"
        yield from (_constant(name, value, source) for name, value in zip(INDEX, k.index.values, strict=True) if value)
    yield _constant("attention_fixed_s", wide.values[0], _kernel(wide))


def _kernel(fitted: TableFit) -> str:
    return f"{fitted.rows} calls, median error {fitted.median_error:.1%}, {fitted.source}"


def _sources(fits: dict[str, TableFit]) -> str:
    return "; ".join(f"{form} {fitted.source}" for form, fitted in fits.items())


def _errors(fits: dict[str, TableFit]) -> str:
    return ", ".join(f"{fitted.median_error:.1%} ({form})" for form, fitted in fits.items())


def _constant(name: str, value: float, source: str) -> str:
    return f'{name}: {{value: {yaml_number(value, 4)}, source: "{source}"}}'
