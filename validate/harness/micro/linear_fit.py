"""Fits constants on which the times of kernels depend linearly: the constants of element-wise kernels, of the
host and of searches.

The fit is non-negative least squares on relative errors.
"""

import math
from collections import defaultdict

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.harness.micro.jobs import SMALL, shell_smalls, small_bytes
from perfmodel.validate.harness.micro.timed_kernels import TimedKernels, WithErrors, seconds_of, sizes
from perfmodel.validate.solving import nonnegative

LEAST_LENGTHS = 2
"""Smallest number of different search lengths. The times of one length cannot separate both constants."""


def small_kernels(kernels: TimedKernels) -> WithErrors:
    """Fits the bandwidth fraction of element-wise kernels. For each kind of kernel, a line is fitted to time
    over bytes. Its slope gives the bandwidth of the kind; the result is the median of the kinds.
    """
    activation_bytes = kernels.precision.activation_bytes
    slopes = []
    for kind in (*SMALL, "norm", "residual"):
        rows = kernels.by_kind.get(kind)
        if rows is None:
            continue
        token_bytes = [small_bytes(kind, row.at, activation_bytes) for row in rows]
        moved_bytes = np.array(token_bytes) * sizes(rows, "tokens")
        seconds = seconds_of(rows)
        slope, _ = np.polyfit(moved_bytes, seconds, 1, w=np.reciprocal(seconds))
        slopes.append(slope)
    fractions = 1 / np.maximum(np.array(slopes) * kernels.bandwidth, 1.0)
    spread = float(fractions.std() / math.sqrt(len(fractions)))
    return {"small_bandwidth_fraction": (float(np.median(fractions)), spread)}


def host_times(kernels: TimedKernels) -> WithErrors:
    """Fits the time of a nearly empty pass outside its matrix products and attention, and the time of drawing
    a draft token.
    """
    rows = kernels.by_kind["shell"]
    layer_s = defaultdict[tuple[int, int], float](float)
    for row in kernels.by_kind["bare"]:
        layer_s[row.at["batch"], row.at["query"]] += row.call_s
    layers = sizes(rows, "layers")
    seconds = seconds_of(rows)
    in_layers_s = layers * [layer_s[row.at["batch"], row.at["query"]] for row in rows]
    columns = {
        "small_kernel_s": np.array([shell_smalls(row.at["layers"], kernels.plan) for row in rows]),
        "pass_fixed_s": np.ones(len(rows)),
        "token_s": sizes(rows, "batch") * sizes(rows, "query"),
    }
    constants = _nonnegative(columns, seconds - in_layers_s, seconds)
    draws = kernels.by_kind["sampling"]
    drawn_s = seconds_of(draws) / (sizes(draws, "batch") * layers.max())
    constants["sparse_cache_sequence_s"] = float(np.median(drawn_s)), float(np.std(drawn_s))
    return constants


def iteration_times(kernels: TimedKernels) -> WithErrors:
    """Fits the times of accepting and committing tokens, per iteration and per sequence."""
    rows = kernels.by_kind["loop"]
    seconds = seconds_of(rows)
    columns = {"iteration_fixed_s": np.ones(len(rows)), "iteration_sequence_s": sizes(rows, "batch")}
    return _nonnegative(columns, seconds, seconds)


def search_times(kernels: TimedKernels, launch_s: float) -> WithErrors:
    """Fits the time of a search and the time per searched unit, without the launch that a pass already
    counts.

    - launch_s: the seconds of this launch.

    Searches of more sequences and KV heads than multiprocessors take several rounds.
    """
    rows = kernels.by_kind.get("search", [])
    units = sizes(rows, "units")
    if len(np.unique(units)) < LEAST_LENGTHS:
        return {}
    processors = kernels.gpu.multiprocessors.value if kernels.gpu.multiprocessors else math.inf
    rounds = np.ceil(sizes(rows, "batch") * sizes(rows, "kv_heads") / processors)
    seconds = seconds_of(rows)
    columns = {"search_s": rounds, "searched_unit_s": rounds * units}
    return _nonnegative(columns, np.maximum(seconds - launch_s, 0.0), seconds)


def _nonnegative(columns: dict[str, Array], seconds: Array, scale: Array) -> WithErrors:
    """Non-negative least squares on relative errors, with one constant per column."""
    matrix = np.stack([*columns.values()], 1) / scale[:, None]
    values, errors = nonnegative(matrix, seconds / scale)
    return dict(zip(columns, zip(values, errors, strict=True), strict=True))
