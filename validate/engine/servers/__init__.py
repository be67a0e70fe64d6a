"""Engines for which ``validate engine --plan`` can print benchmark commands. Each is a module of this folder,
which the program finds by itself.
"""

from functools import cache

from perfmodel.plugins import class_in, names_in
from perfmodel.validate.engine.servers.base import OWN, BenchRequest, BenchServer

__all__ = ["OWN", "BenchRequest", "BenchServer", "bench_servers"]
FIRST = ("vllm", "sglang", "trtllm")
"""The engines that are listed first."""


@cache
def bench_servers() -> dict[str, BenchServer]:
    """Value of ``--engine`` with --plan -> the object that makes the commands of this engine."""
    names = names_in(__path__)
    first = [name for name in FIRST if name in names]
    others = [name for name in names if name not in FIRST]
    servers = {}
    for name in (*first, *others):
        server = class_in(f"{__name__}.{name}", BenchServer)()  # type: ignore[type-abstract]
        servers[server.word or name] = server
    return servers
