"""Reads the acceptance rates of several drafts. A key may also name a KV method, as in
``self@quest:1k=0.8``.
"""

from collections.abc import Mapping
from typing import Any

from perfmodel.answers.question.tree_rates import parse_tree_rates
from perfmodel.errors import InputError, refuse
from perfmodel.kv import KVMethod, parse_kv
from perfmodel.parse import items


def read_rates(given: Any, flag: str) -> dict[str, str]:
    """Reads rates from a mapping or from texts ``DRAFT=RATE``. Raises InputError for a text that does not
    have this form.
    """
    if isinstance(given, Mapping):
        return {str(key): str(rate) for key, rate in given.items()}
    rates: dict[str, str] = {}
    for text in items(given):
        key, _, rate = str(text).rpartition("=")
        if not key:
            raise refuse(flag, None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", text)
        if key in rates:
            raise InputError(f"{flag}: {key} is given twice")
        rates[key] = rate
    return rates


def draft_and_method(key: str) -> tuple[str, KVMethod]:
    """The draft and the KV method of a key such as ``self@quest:1k``. The default method is ``full``. Raises
    InputError for a wrong key.
    """
    name, at, method = key.partition("@")
    if not name.strip():
        raise refuse("--rate", None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", key)
    return name.strip(), parse_kv(method, "--rate") if at else parse_kv("full")


def read_tree_rates(given: Any, flag: str) -> dict[str, str]:
    """Reads the rates of tree children from a mapping or from texts ``DRAFT=RATES``. Raises InputError for a
    text that is not a list of rates.
    """
    if isinstance(given, Mapping):
        rates = {str(k): v if isinstance(v, str) else ",".join(map(str, items(v))) for k, v in given.items()}
    else:
        rates = read_rates(given, flag)
    for key, by_rank in rates.items():
        parse_tree_rates(by_rank, f"{flag} {key}")
    return rates


def key_of(name: str, kv: KVMethod) -> tuple[str, str]:
    """A key for a draft and its KV method. Upper and lower case of the name are the same."""
    return name.lower(), kv.label()


def rates_by_key(rates: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The stated rates by the key of their draft (`key_of`)."""
    return {key_of(*draft_and_method(text)): rate for text, rate in rates.items()}
