"""The shapes of trees of drafted tokens: the best for a size and a number of levels, by Sequoia's dynamic programme.

A node's k-th child is accepted with probability p_k, given that the node was reached; the tokens an iteration gains are
F(T) = sum over nodes of the product of p along the path, the root (the token that verification adds) counting 1. Sizes
and levels count the root. A chain of gamma drafts is the tree with one child everywhere: size = levels = gamma + 1.
Chen et al. 2024, arXiv 2402.12374, section 3. What a tree costs is `perfmodel.speculation.tree_cost`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perfmodel.errors import refuse
from perfmodel.operations import Array

MAX_SIZE = 1024
MAX_LEVELS = 64
MAX_CHILDREN = 256


@dataclass(frozen=True, slots=True)
class TreeAcceptance:
    """P(k-th child is accepted | its parent was reached), in `rates[level][k]`.

    One row holds at every level (positional acceptance). Several rows hold for the children of level 1 (the root's),
    2, ...; nothing is known of deeper ones, so that trees end there.
    """

    rates: tuple[tuple[float, ...], ...]
    source: str = "given rates"

    @classmethod
    def of(cls, rates: ArrayLike, source: str = "given rates") -> "TreeAcceptance":
        """From ``[children]`` or ``[levels, children]``.

        Raises InputError unless each level's rates are 0 or more and at most 1 in sum.
        """
        try:
            table = np.atleast_2d(np.asarray(rates, np.float64))
        except (TypeError, ValueError, OverflowError):
            raise refuse("tree rates", None, "numbers, as many at each level", str(rates)) from None
        if table.ndim != 2 or not 1 <= table.shape[1] <= MAX_CHILDREN or not 1 <= table.shape[0] < MAX_LEVELS:
            raise refuse(
                "tree rates", None, f"1 to {MAX_CHILDREN} children at 1 to {MAX_LEVELS - 1} levels", table.shape
            )
        if not (np.all(table >= 0) and np.all(table.sum(1) <= 1 + 1e-9)):
            raise refuse("tree rates", None, "0 or more and at most 1 in sum at each level", rates)
        return cls(tuple(tuple(map(float, row)) for row in table), source)

    @property
    def positional(self) -> bool:
        """Whether the rates are the same at every level."""
        return len(self.rates) == 1

    @property
    def max_levels(self) -> int:
        """Most levels a tree may have, the root's included."""
        return MAX_LEVELS if self.positional else len(self.rates) + 1

    def row(self, level: int) -> tuple[float, ...]:
        """Rates of the children of a node at `level` (root 1)."""
        return self.rates[0 if self.positional else level - 1]


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree. `parents` lists the nodes level by level, the root first (parent -1), siblings in order of rank.

    `widths` are the nodes of each level. `tokens_per_iteration` is F(T). Nodes that gain nothing are left out.
    """

    parents: tuple[int, ...]
    widths: tuple[int, ...]
    tokens_per_iteration: float

    @property
    def size(self) -> int:
        """Nodes, the root included: the query tokens of a verification pass."""
        return len(self.parents)

    @property
    def levels(self) -> int:
        """Levels, the root's included: one more than draft passes."""
        return len(self.widths)


class Growth:
    """The best trees of every size up to `size` and number of levels up to `levels`.

    `tokens[d - 1, n - 1]` is G(n, d), `widths[d - 1, n - 1]` the nodes at each of the levels ``[levels]`` of that tree.
    Raises InputError for a size outside 1 ... 1024, or levels beyond 64 or beyond what the rates know.
    """

    def __init__(self, acceptance: TreeAcceptance, size: int, levels: int) -> None:
        deepest = acceptance.max_levels
        if not 1 <= size <= MAX_SIZE:
            raise refuse("--size", None, f"a tree size from 1 to {MAX_SIZE}, the root included", size)
        if not 1 <= levels <= deepest:
            raise refuse("--levels", None, f"a number of tree levels from 1 to {deepest}, the root included", levels)
        self.acceptance, self.size, self.levels = acceptance, size, levels
        if acceptance.positional:  # one sweep tells of all numbers of levels
            self._sweeps = [_Sweep(acceptance, size, levels)] * levels
        else:
            self._sweeps = [_Sweep(acceptance, size, d) for d in range(1, levels + 1)]
        self.tokens: Array = np.stack([sweep.value[row] for row, sweep in enumerate(self._sweeps)])
        self.widths: NDArray[np.int64] = np.zeros((levels, size, levels), np.int64)
        for row, sweep in enumerate(self._sweeps):
            self.widths[row, :, : sweep.widths.shape[2]] = sweep.widths[row]

    def best(self, size: int, levels: int) -> Tree:
        """The best tree of at most `size` nodes on at most `levels` levels, which must be within this growth."""
        if not (1 <= size <= self.size and 1 <= levels <= self.levels):
            raise refuse("tree", None, f"at most {self.size} nodes on at most {self.levels} levels", (size, levels))
        parents, widths, level, remaining = [-1], [], [(0, size)], levels
        while level:
            widths.append(len(level))
            below = []
            for node, nodes in level:
                for child in self._sweeps[levels - 1].children(remaining, nodes):
                    below.append((len(parents), child))
                    parents.append(node)
            level, remaining = below, remaining - 1
        return Tree(tuple(parents), tuple(widths), float(self.tokens[levels - 1, size - 1]))


class _Sweep:
    """One run of the programme from the deepest level up; row r of a table has r + 1 levels left, its own included."""

    def __init__(self, acceptance: TreeAcceptance, size: int, levels: int) -> None:
        self.value = np.ones((levels, size))
        self.widths = np.zeros((levels, size, levels), np.int64)
        self.widths[:, :, 0] = 1
        self.choice: list[NDArray[np.int64]] = []
        for row in range(1, levels):
            rates = np.asarray(acceptance.row(levels - row))
            used = int(np.flatnonzero(rates).max(initial=-1)) + 1
            self._level(row, rates[: min(used, size - 1)], size)

    def _level(self, row: int, rates: Array, size: int) -> None:
        """All subtrees with one more level: children from the last to the first, each given its share of the nodes."""
        later, later_widths = np.zeros(size), np.zeros((size, self.widths.shape[2]), np.int64)
        choice = np.zeros((len(rates), size), np.int64)
        below, below_widths = self.value[row - 1], self.widths[row - 1]
        for k in range(len(rates) - 1, -1, -1):
            best, share = _best_split(rates[k] * below[: size - 1], later[: size - 1])
            rest = np.arange(size - 1) - share
            choice[k, 1:] = share + 1
            widths = np.zeros_like(later_widths)
            widths[1:] = later_widths[rest]
            widths[1:, 1:] += below_widths[share, :-1]
            later, later_widths = np.concatenate(([0.0], best)), widths
        self.value[row] = 1.0 + later
        self.widths[row] = later_widths
        self.widths[row, :, 0] = 1
        self.choice.append(choice)

    def children(self, remaining: int, nodes: int) -> list[int]:
        """Sizes of the subtrees of a node that has `remaining` levels and `nodes` nodes, itself included in both."""
        if remaining < 2:
            return []
        left, sizes = nodes - 1, []
        for row in self.choice[remaining - 2]:
            if left == 0:
                break
            sizes.append(int(row[left]))
            left -= sizes[-1]
        return sizes


def _best_split(a: Array, b: Array) -> tuple[Array, NDArray[np.int64]]:
    """For each total m the largest a[i] + b[m - i] and the smallest such i."""
    padded = np.concatenate((np.full(a.size - 1, -np.inf), b))  # row m below holds b[m], b[m - 1], ... and then -inf
    sums = a + np.lib.stride_tricks.sliding_window_view(padded, a.size)[:, ::-1]
    return sums.max(axis=1), sums.argmax(axis=1)


def expected_tokens(parents: Sequence[int], acceptance: TreeAcceptance) -> float:
    """F(T) of any tree, node by node: the definition, for checks and for trees that somebody else drew."""
    reach, level, children = [1.0], [1], [0] * len(parents)
    for parent in parents[1:]:
        row = acceptance.row(level[parent])
        rate = row[children[parent]] if children[parent] < len(row) else 0.0
        children[parent] += 1
        reach.append(reach[parent] * rate)
        level.append(level[parent] + 1)
    return float(sum(reach))
