"""Counts the children of nodes on accepted paths of token trees."""

from dataclasses import dataclass

import torch

from perfmodel.validate.decoder.sampling import AcceptedTokens
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.tree_sampling import AcceptedPath, Topology


@dataclass(frozen=True)
class TreeCounts:
    """Counts of the children of nodes on accepted paths, summed over all unfinished sequences.

    - tried: the number of nodes with a k-th child, for k = 1, 2, ...
    - taken: the number of nodes whose k-th child was accepted.
    """

    tried: tuple[int, ...]
    taken: tuple[int, ...]

    @property
    def rates(self) -> list[float]:
        """The share of nodes whose k-th child was accepted, for k = 1, 2, ... See
        `perfmodel.speculation.tree.TreeAcceptance`.
        """
        return [taken / tried if tried else 0.0 for taken, tried in zip(self.taken, self.tried, strict=True)]


class TreeCounter:
    """An observer of a decoder that counts the children of the nodes on accepted paths (`TreeCounts`)."""

    def __init__(self, tree: Topology) -> None:
        self.tree = tree
        self._tried = torch.zeros_like(tree.children[0])
        self._taken = torch.zeros_like(tree.children[0])

    def __call__(self, state: State, accepted: AcceptedTokens) -> None:
        """Adds the counts of one iteration."""
        assert isinstance(accepted, AcceptedPath)
        path = accepted.path
        on_path = torch.arange(self.tree.levels, device=path.device) <= accepted.count[:, None]
        on_path &= ~state.finished[:, None]
        rank = torch.arange(len(self._tried), device=path.device)
        tried = self.tree.num_children[path][..., None] > rank
        taken = self.tree.rank[path[:, 1:]][..., None] == rank
        self._tried += (on_path[..., None] & tried).sum((0, 1))
        self._taken += (on_path[:, 1:, None] & taken).sum((0, 1))

    @property
    def counts(self) -> TreeCounts:
        """The counts so far. Reading them waits for the device."""
        return TreeCounts(tuple(self._tried.tolist()), tuple(self._taken.tolist()))
