"""Engines that a plan of runs can measure. Each is one file, found by name in this folder."""

from functools import cache

from perfmodel.plugins import class_in, names_in
from perfmodel.validate.engine.servers.base import OWN, BenchRequest, BenchServer

__all__ = ["OWN", "BenchRequest", "BenchServer", "bench_servers"]
ORDER = ("vllm", "sglang", "trtllm")
"""Those that are listed first."""


@cache
def bench_servers() -> dict[str, BenchServer]:
    """Word of ``--engine`` in a plan -> the class that measures it."""
    names = names_in(__path__)
    listed = [*(name for name in ORDER if name in names), *(name for name in names if name not in ORDER)]
    found = {}
    for name in listed:
        made = class_in(f"{__name__}.{name}", BenchServer)()  # type: ignore[type-abstract]
        found[made.word or name] = made
    return found
