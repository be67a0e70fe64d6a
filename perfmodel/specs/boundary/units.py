"""Unit names to SI factors. GB is 10^9 bytes and GiB is 2^30, here and everywhere else."""

from typing import Literal

Unit = Literal[
    "B",
    "MB",
    "MiB",
    "GB",
    "GiB",
    "GB/s",
    "TB/s",
    "GFLOP/s",
    "TFLOP/s",
    "TOP/s",
    "MHz",
    "GHz",
    "W",
    "s",
    "us",
    "count",
]
FACTORS: dict[Unit, float] = {
    "B": 1.0,
    "MB": 1e6,
    "MiB": 2.0**20,
    "GB": 1e9,
    "GiB": 2.0**30,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "GFLOP/s": 1e9,
    "TFLOP/s": 1e12,
    "TOP/s": 1e12,
    "MHz": 1e6,
    "GHz": 1e9,
    "W": 1.0,
    "s": 1.0,
    "us": 1e-6,
    "count": 1.0,
}

BYTES = ("B", "MB", "MiB", "GB", "GiB")
BYTES_PER_S = ("GB/s", "TB/s")
FLOPS = ("GFLOP/s", "TFLOP/s", "TOP/s")
