"""Fits all kernel constants of a calibration to the tables of one device and engine."""

from dataclasses import dataclass, field
from typing import TypeVar

from perfmodel.errors import InputError
from perfmodel.specs import GPUSpec
from perfmodel.validate.fit.kernel_tables.allreduce import allreduce_knots
from perfmodel.validate.fit.kernel_tables.attention import attention_fits
from perfmodel.validate.fit.kernel_tables.experts import ExpertFit, expert_fits
from perfmodel.validate.fit.kernel_tables.fits import MemoryConstants, RooflineConstants, TableFit
from perfmodel.validate.fit.kernel_tables.gemms import GemmConstants, gemm_fits
from perfmodel.validate.fit.kernel_tables.latent import latent_fits
from perfmodel.validate.fit.tables import ENGINES, Tables

Fit = TypeVar("Fit")


@dataclass(frozen=True)
class IndexConstants:
    """Constants of an indexer of sparse attention.

    - bandwidth_fraction: the share of the memory bandwidth that it reaches.
    - layer_s, token_s: the fixed seconds per layer, and the seconds per token in a layer.
    """

    bandwidth_fraction: float
    layer_s: float
    token_s: float


@dataclass(frozen=True)
class Kernels:
    """All kernel constants from the tables of one device and engine.

    - source: a description of the tables.
    - gemm, experts: format of the weights -> fit.
    - attention, latent: format of the cache -> fit.
    - allreduce: number of devices -> pairs of message size (bytes) and seconds.
    - index: the fit of an indexer; None if the tables do not determine it.
    """

    source: str
    gemm: dict[str, TableFit[GemmConstants]]
    experts: dict[str, ExpertFit]
    attention: dict[str, TableFit[MemoryConstants]]
    latent: dict[str, TableFit[RooflineConstants]]
    allreduce: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    index: TableFit[IndexConstants] | None = None


def distil(tables: Tables, gpu: GPUSpec, engine: str, version: str | None = None) -> Kernels:
    """Fits all kernel constants except those of an indexer. Formats that the engine's tables do not have come
    from the tables of other engines.

    - version: the version of the engine; by default the newest.

    Raises InputError if the engine has no GEMM table of this version.
    """
    known = tables.versions("gemm", engine, "gemm_perf")
    if version is None and known:
        version = known[-1]
    if version not in known:
        allowed = ", ".join(known) or "none"
        raise InputError(f"--version: must be one of {allowed} for {engine} on {gpu.name}, given {version}")
    gemm = gemm_fits(tables, gpu, engine, version)
    experts = expert_fits(tables, gpu, engine, version)
    for other in ("sglang", *ENGINES):
        if other == engine:
            continue
        for newest in tables.versions("gemm", other, "gemm_perf")[-1:]:
            gemm = _completed(gemm, gemm_fits(tables, gpu, other, newest))
        for newest in tables.versions("moe", other, "moe_perf")[-1:]:
            experts = _completed(experts, expert_fits(tables, gpu, other, newest))
    return Kernels(
        source=f"{tables.package}, {engine} {version}",
        gemm=gemm,
        experts=experts,
        attention=attention_fits(tables, gpu, engine, version),
        latent=latent_fits(tables, gpu, engine, version),
        allreduce=allreduce_knots(tables),
    )


def _completed(fits: dict[str, Fit], others: dict[str, Fit]) -> dict[str, Fit]:
    """The fits, followed by the fits of `others` for formats that `fits` does not have."""
    return fits | {form: fitted for form, fitted in others.items() if form not in fits}
