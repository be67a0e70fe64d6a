"""The memory accounts of serving engines: how each engine divides the memory of a device. Each engine has one
class, which uses the numbers of ``hardware/memory/<engine>.yaml``.
"""

from perfmodel.speculation.accounts.base import DEFAULT_MEMORY_FRACTION, Account, Drafts, ServerSettings
from perfmodel.speculation.accounts.of_engine import account_of

__all__ = ["DEFAULT_MEMORY_FRACTION", "Account", "Drafts", "ServerSettings", "account_of"]
