"""The policies by which a server chooses its draft length. Each policy is one file of this folder and is
found by its name.

A policy has the name of its file (``auto``, ``table``). A fixed length has its number as its name.
"""

from functools import cache

from perfmodel.errors import refuse
from perfmodel.parse import items, parse_counts
from perfmodel.plugins import class_in, names_in
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.policies.fixed import Fixed

__all__ = ["Choice", "Fixed", "LengthPolicy", "Replica", "in_words", "parse_policies", "policies"]


@cache
def policies() -> dict[str, type[LengthPolicy]]:
    """All policies except fixed lengths, as a dictionary from name to class, sorted by name."""
    names = [name for name in names_in(__path__) if name != "fixed"]
    return {name: class_in(f"{__name__}.{name}", LengthPolicy) for name in names}  # type: ignore[type-abstract]


def parse_policies(given: object, flag: str) -> tuple[LengthPolicy, ...]:
    """Reads draft lengths (whole numbers from 0) and names of policies, from a list or from text such as
    ``1..4,auto``. Repetitions are dropped.

    Raises InputError, which names `flag`, if the list is empty. It also raises if an item is neither a draft
    length nor the name of a policy.
    """
    found: list[LengthPolicy] = []
    for part in given.split(",") if isinstance(given, str) else items(given):
        name = "auto" if part is None else str(part).strip().lower()
        if isinstance(part, LengthPolicy):
            found.append(part)
        elif name in policies():
            found.append(policies()[name]())
        else:
            found += map(Fixed, parse_counts(part, flag, least=0))
    if not found:
        raise refuse(flag, None, f"one draft length or more, or {', '.join(policies())}", "none")
    return tuple(dict.fromkeys(found))


def in_words(gamma: int | str) -> str:
    """A draft length in words: ``3 draft tokens``, or the noun of a policy, such as ``the table``."""
    length = f"{gamma} draft token{'' if gamma == 1 else 's'}"
    return policies()[gamma].noun if isinstance(gamma, str) else length
