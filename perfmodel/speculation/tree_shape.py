"""Reads and checks shapes of trees, which are given as the parents of their nodes, level by level.

Nodes are numbered level by level. The root has number 0 and the parent -1. Siblings are in order of rank, as
in `Tree.parents`.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from perfmodel.errors import InputError, refuse
from perfmodel.speculation.tree import MAX_LEVELS, MAX_SIZE, Growth, TreeAcceptance


def check_parents(parents: Sequence[int]) -> None:
    """Raises InputError if the parents are not a tree in level order, or if the tree has no drafted token."""
    ordered = all(a <= b for a, b in pairwise(parents))
    good = ordered and all(0 <= parent < node for node, parent in enumerate(parents[1:], 1))
    if not (2 <= len(parents) <= MAX_SIZE and parents[0] == -1 and good):
        raise InputError(
            f"tree: must be the parents of 2 to {MAX_SIZE} nodes, level by level, the root's -1 first, "
            f"given {tuple(parents)[:16]}"
        )


def depths(parents: Sequence[int]) -> list[int]:
    """The level of each node. The root is at level 0."""
    depth = [0]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    return depth


def widths(parents: Sequence[int]) -> tuple[int, ...]:
    """The number of nodes at each level, beginning with the root."""
    depth = depths(parents)
    return tuple(depth.count(level) for level in range(depth[-1] + 1))


def sequoia_nodes(text: str, flag: str = "--tree") -> int | None:
    """The number N in ``sequoia:N``. The result is None for other text. Raises InputError if N is below 2 or
    above `MAX_SIZE`.
    """
    kind, _, nodes = text.partition(":")
    if kind != "sequoia":
        return None
    if not 2 <= _count(nodes) <= MAX_SIZE:
        raise refuse(flag, None, f"sequoia:NODES with 2 to {MAX_SIZE} nodes, the root included", text)
    return _count(nodes)


def sequoia(nodes: int, levels: int, rates: TreeAcceptance, flag: str = "--tree") -> tuple[int, ...]:
    """The parents of the best tree for `rates`, with at most `nodes` nodes and `levels` levels. Both include
    the root.

    Raises InputError if no drafted token can be accepted, and as `perfmodel.speculation.tree.Growth` does.
    """
    levels = min(levels, nodes, MAX_LEVELS)
    parents = Growth(rates, nodes, levels).best(nodes, levels).parents
    if len(parents) < 2:
        raise refuse(flag, None, "a tree with an accepted child", f"rates {rates.rates}")
    return parents


def branching(text: str, flag: str = "--tree", others: str = "") -> tuple[int, ...]:
    """The parents of a tree in which all nodes of a level have the same number of children. In ``4x2x1``, the
    root has 4 children, each of these has 2, and each of those has 1.

    - others: text about the other values that a flag allows, for error messages.

    Raises InputError for other text, for more than `MAX_LEVELS` levels, and for more than `MAX_SIZE` nodes.
    """
    counts = [_count(part) for part in text.split("x")]
    sizes = list(accumulate(counts, lambda width, count: width * count, initial=1))
    if not all(counts) or len(sizes) > MAX_LEVELS or sum(sizes) > MAX_SIZE:
        raise refuse(
            flag,
            None,
            f"{others}children by level as in 4x2x1, {MAX_SIZE} nodes and {MAX_LEVELS} levels at most",
            text,
        )
    parents = [-1]
    level = [0]
    for count in counts:
        first = len(parents)
        parents += [node for node in level for _ in range(count)]
        level = list(range(first, len(parents)))
    return tuple(parents)


def _count(text: str) -> int:
    """Converts a text of at most four digits to a number. The result is 0 for other text."""
    return int(text) if re.fullmatch(r"\d{1,4}", text) else 0
