"""Fits the constants of matrix products and attention to the times of their kernels.

The formula is a roofline: bytes over bandwidth and FLOPs over peak, each with an efficiency, and a fixed time
per call. The fit minimises the squares of log errors. Log errors above `SOFT_RESIDUAL` count linearly.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.harness.micro.jobs import linear_shapes
from perfmodel.validate.harness.micro.timed_kernels import (
    TimedKernels,
    WithErrors,
    most_rows,
    seconds_of,
    sizes,
)
from perfmodel.validate.records import KernelRow
from perfmodel.validate.solving import Parameter, Values, estimate

LARGE_WEIGHT = 0.25
"""Weight of GEMMs with more rows than any pass of the plan. They determine the FLOP fraction and little
else.
"""
COLUMN_S = 1e-8
"""Scale of the time per output column in the fit, in seconds."""
SOFT_RESIDUAL = 1.0
"""Log error above which a residual counts linearly."""
KINK = 1.02
"""Ratio above which a call counts as limited by FLOPs. Without such calls, the fit ends where one call just
reaches the FLOP limit.
"""
GEMM = (
    Parameter("gemm_bandwidth_fraction", 0.8, 0.01, 1.0, log=True),
    Parameter("gemm_flops_fraction", 0.6, 0.01, 1.0, log=True),
    Parameter("gemm_fixed_s", 1e-6, 1e-9, 1e-2, log=True),
    Parameter("gemm_blend_power", 3.0, 1.0, 16.0),
    Parameter("gemm_column_s", 0.1 * COLUMN_S, 0.0, 1e3 * COLUMN_S, unit=COLUMN_S),
)
"""The fitted constants of matrix products: start of the search, lower bound and upper bound."""
ATTENTION = (
    Parameter("attention_bandwidth_fraction", 0.5, 0.005, 1.0, log=True),
    Parameter("attention_flops_fraction", 0.3, 0.002, 1.0, log=True),
    Parameter("attention_fixed_s", 2e-5, 1e-8, 1e-2, log=True),
    Parameter("kv_reread_per_query", 0.05, 0.0, 1.0),
)
"""The fitted constants of attention, in the same order."""


@dataclass(frozen=True)
class Fitted:
    """The fitted constants of one kind of kernel.

    - rms: the weighted root mean square of log(predicted / measured).
    - sources: the source of each constant that the kernels did not determine.
    """

    constants: WithErrors
    rms: float
    sources: dict[str, str] = field(default_factory=dict)


def linear_ops(kernels: TimedKernels) -> Fitted:
    """Fits the constants of matrix products: bandwidth and FLOP fractions, time per call, blend power and
    time per output column.
    """
    rows = kernels.by_kind["gemm"]
    n = sizes(rows, "n")
    k = sizes(rows, "k")
    m = sizes(rows, "m")
    weight_bytes = n * k * kernels.precision.weights.base.bytes_per_value
    activation_bytes = m * (n + k) * kernels.precision.activation_bytes
    load_s = (weight_bytes + activation_bytes) / kernels.bandwidth
    compute_s = 2 * m * n * k / kernels.peak
    in_passes = np.where(m <= most_rows(kernels.plan), 1.0, LARGE_WEIGHT)

    def model(values: Values) -> Array:
        memory_s = load_s / values["gemm_bandwidth_fraction"] + n * values["gemm_column_s"]
        flops_s = compute_s / values["gemm_flops_fraction"]
        power = values["gemm_blend_power"]
        blended_s = (memory_s**power + flops_s**power) ** (1 / power)
        return np.asarray(values["gemm_fixed_s"] + blended_s)

    return _fitted(rows, model, GEMM, in_passes * _shares_of_a_pass(kernels, rows, m))


def _shares_of_a_pass(kernels: TimedKernels, rows: Sequence[KernelRow], m: Array) -> Array:
    """The weight of each product's error: the share of its shape in the time of all products of a pass with m
    rows.
    """
    launches = Counter[tuple[int, int]]()
    for spec in kernels.plan.shapes.values():
        *layered, head = linear_shapes(spec, kernels.plan.tensor_parallel)
        launches.update([*layered * spec.num_hidden_layers, head])
    spent_s = np.array([launches[row.at["n"], row.at["k"]] * row.call_s for row in rows])
    shares = []
    for shape_s, tokens in zip(spent_s, m, strict=True):
        same_m = m == tokens
        shares.append(shape_s * np.count_nonzero(same_m) / spent_s[same_m].sum())
    return np.array(shares)


def attention(kernels: TimedKernels, gemm_flops: tuple[float, float]) -> Fitted:
    """Fits the constants of attention over a cache: bandwidth and FLOP fractions, time per call, and the
    share of the cache that each further query reads again.
    """
    rows = kernels.by_kind["attention"]
    heads = sizes(rows, "heads")
    head_dim = sizes(rows, "head_dim")
    batch = sizes(rows, "batch")
    context = sizes(rows, "context")
    query = sizes(rows, "query")
    token_bytes = 2 * sizes(rows, "kv_heads") * head_dim * kernels.precision.kv.bytes_per_value
    query_bytes = 2 * heads * head_dim * kernels.precision.activation_bytes
    read_s = batch * context * token_bytes / kernels.bandwidth
    new_s = batch * query * (query_bytes + token_bytes) / kernels.bandwidth
    pairs = query * context + query * (query + 1) / 2
    peak = kernels.gpu.peak_flops(kernels.precision.attention_compute)
    at_peak_s = 4 * heads * head_dim * batch * pairs / peak

    def memory_s(values: Values) -> Array:
        reads = 1 + values["kv_reread_per_query"] * (query - 1)
        return np.asarray((read_s * reads + new_s) / values["attention_bandwidth_fraction"])

    def model(values: Values) -> Array:
        compute_s = at_peak_s / values["attention_flops_fraction"]
        return values["attention_fixed_s"] + np.maximum(memory_s(values), compute_s)

    fitted = _fitted(rows, model, ATTENTION, np.ones(len(rows)))
    values = {name: value for name, (value, _) in fitted.constants.items()}
    name = "attention_flops_fraction"
    is_limited = at_peak_s / values[name] > KINK * memory_s(values)
    if is_limited.any():
        return fitted
    return Fitted(
        fitted.constants | {name: gemm_flops},
        fitted.rms,
        {name: "not determined, no attention call was limited by FLOPs: the GEMM one"},
    )


def _fitted(
    rows: Sequence[KernelRow],
    model: Callable[[Values], Array],
    parameters: Sequence[Parameter],
    weight: Array,
) -> Fitted:
    """Fits parameters to the logarithms of the times of calls.

    - model: a function that returns the seconds of each call, ``[kernel]``.
    - weight: the weight of each call's squared error, ``[kernel]``.
    """
    measured = np.log(seconds_of(rows))
    root = np.sqrt(weight)

    def residuals(values: Values) -> Array:
        return np.asarray(root * (np.log(model(values)) - measured))

    solved = estimate(parameters, residuals, soft=SOFT_RESIDUAL)
    log_errors = np.log(model(solved.values)) - measured
    freedom = max(1, len(rows) - len(parameters))
    variance = float(np.sum(weight * log_errors**2) / freedom)
    stderr = solved.scaled(math.sqrt(variance)).stderr
    constants = {name: (value, stderr[name]) for name, value in solved.values.items()}
    return Fitted(constants, float(np.sqrt(np.average(log_errors**2, weights=weight))))
