"""Reads the arguments of a question about several nodes."""

import re

from perfmodel.errors import refuse
from perfmodel.parse import parse_text

OVERLAPS = ("auto", "none", "two-batch")
"""Ways to overlap computation and communication. The default of every engine is ``none``."""
ALL_TO_ALLS = ("auto", "gather", "dispatch")
"""Ways to bring tokens to their experts: every rank gathers the tokens of all ranks, or each token is only
sent to the experts that it needs.
"""


def parse_nodes(given: object, flag: str) -> str:
    """Checks a text such as ``2x8``, which means 2 nodes of 8 devices each. Raises InputError for another
    text.
    """
    text = parse_text(given, flag).lower()
    if not re.fullmatch(r"[1-9]\d{0,3}x[1-9]\d{0,3}", text):
        raise refuse(flag, None, "NODESxDEVICES, such as 2x8", text)
    return text


def devices_of_nodes(nodes: str) -> int:
    """The number of devices of all nodes: 16 for ``2x8``."""
    count, _, each = nodes.partition("x")
    return int(count) * int(each)
