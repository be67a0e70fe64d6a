"""How serving engines divide the memory of a device: one class for each engine, with the numbers of
``hardware/memory/<engine>.yaml``.
"""

from perfmodel.speculation.accounts.base import DEFAULT_MEMORY_FRACTION, Account, Drafts, ServerSettings
from perfmodel.speculation.accounts.of_engine import account_of

__all__ = ["DEFAULT_MEMORY_FRACTION", "Account", "Drafts", "ServerSettings", "account_of"]
