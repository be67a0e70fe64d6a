"""Finds the memory account of an engine."""

from perfmodel.plugins import class_in
from perfmodel.speculation.accounts.base import Account, ServerSettings

MODULES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "mlx": "mlx",
    "mlx-dspark": "mlx",
}
"""The module of each engine's account, by its word in ``--engine``. A module is imported on first use."""


def account_of(engine: str | None, server: ServerSettings) -> Account:
    """The memory account of an engine, given its word of ``--engine``. An engine without its own account gets
    the base class, which uses a fixed share of the device.
    """
    module = MODULES.get(engine or "")
    if module is None:
        return Account(server)
    return class_in(f"perfmodel.speculation.accounts.{module}", Account)(server)
