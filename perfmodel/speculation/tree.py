"""Finds the best tree of drafted tokens for a size and a number of levels, by the dynamic programme of
Sequoia.

A node's k-th child is accepted with probability p_k, given that the node was reached. The tokens per
iteration are F(T), the sum over all nodes of the product of p along the path to the node. The root is the
token that verification adds, and counts 1. Sizes and levels include the root. A chain of gamma drafted tokens
is a tree in which every node has one child: size = levels = gamma + 1. Source: Chen et al. 2024, arXiv
2402.12374, section 3. `perfmodel.speculation.tree_cost` computes the cost of a tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perfmodel.errors import refuse
from perfmodel.operations import Array, Ints

MAX_SIZE = 1024
MAX_LEVELS = 64
MAX_CHILDREN = 256
"""Largest number of nodes of a tree, of its levels and of a node's children."""


@dataclass(frozen=True, slots=True)
class TreeAcceptance:
    """The probability that the k-th child of a node is accepted if the node was reached, for each k. It is
    the same at every level (positional acceptance).
    """

    rates: tuple[float, ...]
    source: str = "given rates"

    @classmethod
    def of(cls, rates: ArrayLike, source: str = "given rates") -> "TreeAcceptance":
        """Creates an acceptance from the rates of the first, second, ... child. Raises InputError unless the
        rates are 0 or more and sum to at most 1.
        """
        try:
            given = np.asarray(rates, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise refuse("tree rates", None, "numbers", str(rates)) from None
        if given.ndim != 1 or not 1 <= given.size <= MAX_CHILDREN:
            raise refuse("tree rates", None, f"of 1 to {MAX_CHILDREN} children", given.shape)
        if not (np.all(given >= 0) and given.sum() <= 1 + 1e-9):
            raise refuse("tree rates", None, "0 or more and at most 1 in sum", rates)
        return cls(tuple(given.tolist()), source)


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree. `parents` has the parent of each node, level by level. The root comes first (its parent is
    -1), and siblings are in order of rank.

    `widths` has the number of nodes of each level. `tokens_per_iteration` is F(T). Nodes that gain nothing
    are left out.
    """

    parents: tuple[int, ...]
    widths: tuple[int, ...]
    tokens_per_iteration: float

    @property
    def size(self) -> int:
        """Number of nodes including the root. It equals the number of query tokens of a verification pass."""
        return len(self.parents)

    @property
    def levels(self) -> int:
        """Number of levels including that of the root. It is one more than the number of draft passes."""
        return len(self.widths)


class Growth:
    """The best trees for every size up to `size` and every number of levels up to `levels`.

    `tokens[d - 1, n - 1]` is G(n, d): the tokens per iteration of the best tree with at most n nodes and d
    levels. `widths[d - 1, n - 1]` has the number of nodes on each level of this tree. Raises InputError if
    the size is outside 1 ... 1024, or the number of levels outside 1 ... 64.
    """

    def __init__(self, acceptance: TreeAcceptance, size: int, levels: int) -> None:
        if not 1 <= size <= MAX_SIZE:
            raise refuse("--size", None, f"a tree size from 1 to {MAX_SIZE}, the root included", size)
        if not 1 <= levels <= MAX_LEVELS:
            raise refuse(
                "--levels", None, f"a number of tree levels from 1 to {MAX_LEVELS}, the root included", levels
            )
        self.acceptance = acceptance
        self.size = size
        self.levels = levels
        self.tokens: Array = np.ones((levels, size))
        self.widths: Ints = np.zeros((levels, size, levels), np.int64)
        self.widths[:, :, 0] = 1
        self._choice: list[Ints] = []
        rates = np.trim_zeros(np.asarray(acceptance.rates), "b")[: size - 1]
        for row in range(1, levels):
            self._level(row, rates)

    def best(self, size: int, levels: int) -> Tree:
        """The best tree with at most `size` nodes on at most `levels` levels. Both numbers must be at most
        those of this object.
        """
        if not (1 <= size <= self.size and 1 <= levels <= self.levels):
            raise refuse(
                "tree", None, f"at most {self.size} nodes on at most {self.levels} levels", (size, levels)
            )
        parents = [-1]
        widths = []
        level = [(0, size)]
        remaining = levels
        while level:
            widths.append(len(level))
            below = []
            for node, nodes in level:
                for child in self._children(remaining, nodes):
                    below.append((len(parents), child))
                    parents.append(node)
            level = below
            remaining = remaining - 1
        return Tree(tuple(parents), tuple(widths), float(self.tokens[levels - 1, size - 1]))

    def _level(self, row: int, rates: Array) -> None:
        """Computes the best trees with one more level. The children are added from the last to the first,
        each with its best share of the nodes.
        """
        size = self.size
        later = np.zeros(size)
        later_widths = np.zeros((size, self.levels), np.int64)
        choice = np.zeros((len(rates), size), np.int64)
        below = self.tokens[row - 1]
        below_widths = self.widths[row - 1]
        for k in range(len(rates) - 1, -1, -1):
            best, share = _best_split(rates[k] * below[: size - 1], later[: size - 1])
            rest = np.arange(size - 1) - share
            choice[k, 1:] = share + 1
            widths = np.zeros_like(later_widths)
            widths[1:] = later_widths[rest]
            widths[1:, 1:] += below_widths[share, :-1]
            later = np.concatenate(([0.0], best))
            later_widths = widths
        self.tokens[row] = 1.0 + later
        self.widths[row] = later_widths
        self.widths[row, :, 0] = 1
        self._choice.append(choice)

    def _children(self, remaining: int, nodes: int) -> list[int]:
        """Sizes of the subtrees of a node with `remaining` levels and `nodes` nodes, including itself."""
        if remaining < 2:
            return []
        left = nodes - 1
        sizes = []
        for row in self._choice[remaining - 2]:
            if left == 0:
                break
            sizes.append(int(row[left]))
            left -= sizes[-1]
        return sizes


def _best_split(a: Array, b: Array) -> tuple[Array, Ints]:
    """For each total m: the largest a[i] + b[m - i], and the smallest i that reaches it."""
    # row m of the window below contains b[m], b[m - 1], ... and then -inf
    padded = np.concatenate((np.full(a.size - 1, -np.inf), b))
    sums = a + np.lib.stride_tricks.sliding_window_view(padded, a.size)[:, ::-1]
    return sums.max(axis=1), sums.argmax(axis=1)


def expected_tokens(parents: Sequence[int], acceptance: TreeAcceptance) -> float:
    """The tokens per iteration F(T) of any tree, computed node by node from the definition."""
    reach = [1.0]
    children = [0] * len(parents)
    for parent in parents[1:]:
        rate = acceptance.rates[children[parent]] if children[parent] < len(acceptance.rates) else 0.0
        children[parent] += 1
        reach.append(reach[parent] * rate)
    return float(sum(reach))
