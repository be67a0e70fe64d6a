"""The account of an engine."""

from perfmodel.speculation.accounts.base import Account, Server
from perfmodel.speculation.accounts.llamacpp import LlamaCppAccount
from perfmodel.speculation.accounts.mlx import MLXAccount
from perfmodel.speculation.accounts.sglang import SGLangAccount
from perfmodel.speculation.accounts.vllm import VLLMAccount

ACCOUNTS: dict[str, type[Account]] = {
    "vllm": VLLMAccount,
    "sglang": SGLangAccount,
    "llamacpp": LlamaCppAccount,
    "mlx": MLXAccount,
    "mlx-dspark": MLXAccount,
}
"""Word of ``--engine`` -> its account."""


def account_of(engine: str | None, server: Server) -> Account:
    """The account of an engine by its word; without a known one, a share of the device."""
    return ACCOUNTS.get(engine or "", Account)(server)
