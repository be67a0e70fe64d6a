"""Reads the times of all-reduces by message size and number of devices."""

import numpy as np
from numpy.typing import NDArray

from perfmodel.validate.fit.tables import ENGINES, Table, Tables, where

MESSAGES = tuple(4**n for n in range(7, 14))
"""Message sizes, in bytes, at which the times are interpolated."""


def allreduce_knots(tables: Tables) -> dict[int, list[tuple[float, float]]]:
    """Number of devices -> pairs of message size (bytes) and seconds. Each time is that of the fastest kernel
    of all engines and versions.

    Over PCIe, the times of versions differ by up to a factor of ten, because they were measured on different
    servers. The fastest server has peer access between its devices.
    """
    fastest: dict[int, dict[float, float]] = {}
    sources = [(engine, "custom_allreduce_perf") for engine in ENGINES]
    for engine, name in (*sources, ("nccl", "nccl_perf")):
        for version in tables.versions("comm", engine, name):
            calls = _allreduce_calls(tables.read("comm", engine, version, name))
            sizes = calls["message_size"] * _bytes_per_value(calls)
            columns = (calls["num_gpus"].tolist(), sizes.tolist(), calls["seconds"].tolist())
            for devices, size, seconds in zip(*columns, strict=True):
                by_size = fastest.setdefault(int(devices), {})
                by_size[size] = min(seconds, by_size.get(size, seconds))
    return {devices: _message_knots(by_size) for devices, by_size in sorted(fastest.items())}


def _allreduce_calls(table: Table) -> Table:
    """The all-reduces in a table of communication, except those that were run without CUDA graphs."""
    operations = np.char.replace(table["op_name"].astype(str), "_", "")
    keep = np.char.find(operations, "allreduce") >= 0
    if "kernel_source" in table:
        keep &= np.char.find(table["kernel_source"].astype(str), "eager") < 0
    return where(table, keep)


def _bytes_per_value(calls: Table) -> NDArray[np.float64]:
    """The bytes of the values of each message. Values have 16 bits, except some of 8 bits in the tables of
    NCCL.
    """
    if "nccl_dtype" not in calls:
        return np.full(len(calls["seconds"]), 2.0)
    return np.where(calls["nccl_dtype"] == "int8", 1.0, 2.0)


def _message_knots(by_size: dict[float, float]) -> list[tuple[float, float]]:
    """Pairs of message size (bytes) and seconds, for each of `MESSAGES` within the measured sizes. The times
    do not decrease with the size.

    - by_size: message size -> measured seconds.
    """
    sizes = sorted(by_size)
    log_sizes = np.log(sizes)
    log_times = np.maximum.accumulate(np.log([by_size[size] for size in sizes]))
    knots = []
    for message in MESSAGES:
        if sizes[0] <= message <= sizes[-1]:
            log_time = np.interp(np.log(message), log_sizes, log_times)
            knots.append((float(message), float(np.exp(log_time))))
    return knots
