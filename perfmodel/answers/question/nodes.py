"""Reads the arguments of a question about several nodes."""

import re

from perfmodel.errors import refuse
from perfmodel.parse import parse_text

OVERLAPS = ("auto", "none", "two-batch")
"""Ways to overlap computing and communicating. Every engine starts with none."""
ALL_TO_ALLS = ("auto", "gather", "dispatch")
"""Ways to bring tokens to their experts: gather the tokens of all ranks, or send each token to the experts
that it needs.
"""


def parse_nodes(given: object, flag: str) -> str:
    """Checks text such as ``2x8``: 2 nodes of 8 devices. Raises InputError for other text."""
    text = parse_text(given, flag).lower()
    if not re.fullmatch(r"[1-9]\d{0,3}x[1-9]\d{0,3}", text):
        raise refuse(flag, None, "NODESxDEVICES, such as 2x8", text)
    return text


def devices_of_nodes(nodes: str) -> int:
    """The number of devices of all nodes: 16 for ``2x8``."""
    count, _, each = nodes.partition("x")
    return int(count) * int(each)
