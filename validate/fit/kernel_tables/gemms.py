"""Fits the time of a GEMM, ``t0 + max(bytes/BW, flops/F) / efficiency(tokens)``. BW and F are the peak
bandwidth and FLOP/s.

In tables that were measured without CUDA graphs, t0 includes the launch. Calibrations therefore use the t0 of
16-bit GEMMs for all formats. A format whose efficiency would be too far above 1 is left out. `kernels.distil`
then uses another engine's table of the same device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import WEIGHT_FORMATS, GPUSpec
from perfmodel.specs.models.formats import Format
from perfmodel.validate.fit.kernel_tables.fits import TableFit, peak_of, table_fit
from perfmodel.validate.fit.tables import Table, Tables, fastest, where
from perfmodel.validate.solving import Values

FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4"}
"""Name of a weight format in the tables -> perfmodel's name."""
KNOTS = (1, 16, 17, 32, 64, 65, 128, 129, 256, 257, 512, 1024, 4096)
"""Numbers of tokens at which the efficiency of GEMMs is fitted. Kernels change their tiles above 16, 64, 128
and 256 tokens.
"""
FEWEST_CALLS = 500
"""Smallest number of calls for a fit."""
SMALL_WEIGHTS_BYTES = 1e6
SMALL_TOKENS = 16
"""Largest weights, in bytes, and largest number of tokens of a GEMM that counts as shortest."""
LARGE_WEIGHTS_BYTES = 16e6
LARGE_WIDTH = 1024
"""Smallest weights, in bytes, and smallest width and depth of a matrix in the fit of the efficiency."""
GRAPHED_START_S = 30e-6
"""A small GEMM that takes longer than this was not launched from a CUDA graph."""
BEST_EFFICIENCY = 1.1
"""Largest plausible efficiency, as a share of the roofline."""
FIRST_FIXED_S = 4e-6
FIRST_EFFICIENCY = 0.7
"""The values at which the search begins."""


@dataclass(frozen=True)
class GemmConstants:
    """The constants of GEMMs in one format.

    - start_s: the median time of the shortest GEMMs.
    - fixed_s: the fitted t0.
    - curve: pairs of a number of tokens and the efficiency, which is a share of the roofline.
    """

    start_s: float
    fixed_s: float
    curve: tuple[tuple[float, float], ...]


def gemm_fits(tables: Tables, gpu: GPUSpec, engine: str, version: str) -> dict[str, TableFit[GemmConstants]]:
    """Weight format -> its fit, for the formats that the table has and whose fit is plausible."""
    table = tables.read("gemm", engine, version, "gemm_perf")
    fits = {}
    for word, name in FORMATS.items():
        calls = where(table, table["gemm_dtype"] == word)
        peak = peak_of(gpu, name)
        if peak is None or len(calls["m"]) < FEWEST_CALLS:
            continue
        calls = fastest(calls, ("m", "n", "k"))
        fitted = _fit(calls, WEIGHT_FORMATS[name], gpu, peak, f"{engine} {version}")
        if _is_plausible(fitted.constants):
            fits[name] = fitted
    return fits


def _fit(calls: Table, form: Format, gpu: GPUSpec, peak: float, source: str) -> TableFit[GemmConstants]:
    """The constants of GEMMs in one format.

    - calls: one row for each GEMM of m tokens and a matrix of n outputs and k inputs.
    - peak: the peak FLOP/s of the format.
    """
    m, n, k, seconds = (calls[c].astype(float) for c in ("m", "n", "k", "seconds"))
    weights_bytes = n * k * form.bytes_per_value
    moved_bytes = weights_bytes + m * (2 * n + (form.input_bytes or 2) * k)
    moved_s = moved_bytes / gpu.memory_bandwidth_bytes_per_s
    computed_s = 2 * m * n * k / peak
    roof_s = np.maximum(moved_s, computed_s)
    knots = [float(t) for t in KNOTS if t in m or t in (KNOTS[0], KNOTS[-1])]
    is_large = (weights_bytes >= LARGE_WEIGHTS_BYTES) & (n >= LARGE_WIDTH) & (k >= LARGE_WIDTH)
    keep = is_large & (m <= KNOTS[-1])
    fitted = _curve_fit(m[keep], roof_s[keep], seconds[keep], knots, source)
    shortest = (weights_bytes <= SMALL_WEIGHTS_BYTES) & (m <= SMALL_TOKENS)
    start_s = float(np.median(seconds[shortest]))
    return replace(fitted, constants=replace(fitted.constants, start_s=start_s))


def _is_plausible(constants: GemmConstants) -> bool:
    """Whether the GEMMs ran in CUDA graphs and no faster than the device allows."""
    best = max(share for _, share in constants.curve)
    return constants.start_s <= GRAPHED_START_S and best <= BEST_EFFICIENCY


def _curve_fit(
    m: Array, roof_s: Array, seconds: Array, knots: Sequence[float], source: str
) -> TableFit[GemmConstants]:
    """The fitted t0 and the efficiency at each knot. `start_s` is not fitted here, so it is also t0."""
    log_m = np.log(m)
    log_knots = np.log(knots)
    names = [f"efficiency_{knot:g}" for knot in knots]

    def predict(values: Values) -> Array:
        log_shares = np.log([values[name] for name in names])
        return np.asarray(values["fixed_s"] + roof_s / np.exp(np.interp(log_m, log_knots, log_shares)))

    def build(fixed_s: float, **shares: float) -> GemmConstants:
        return GemmConstants(fixed_s, fixed_s, tuple(zip(knots, shares.values(), strict=True)))

    first = {"fixed_s": FIRST_FIXED_S} | dict.fromkeys(names, FIRST_EFFICIENCY)
    return table_fit(predict, seconds, first, build, source)
