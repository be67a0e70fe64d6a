"""The loop with a token tree: grow it, verify all its nodes in one pass, keep the path that stands and one token more.

The target's pass has a mask that shows each node the committed tokens and its ancestors, and positions that count
levels. Accepted nodes do not lie together in the cache: they are moved there before the length advances over them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import Sampling, Verdict
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.tree_draft import TreeDraft
from perfmodel.validate.decoder.tree_sampling import TreeVerdict, walk_greedy, walk_sampled


@dataclass(frozen=True)
class TreeCounts:
    """How often, over all unfinished sequences, a k-th child was there to be tried at a node of the accepted path, and
    how often it was accepted.
    """

    tried: tuple[int, ...]
    taken: tuple[int, ...]

    @property
    def rates(self) -> list[float]:
        """P(k-th child is accepted | its parent was reached), for `perfmodel.speculation.tree.TreeAcceptance`."""
        return [taken / tried if tried else 0.0 for taken, tried in zip(self.taken, self.tried, strict=True)]


class TreeDecoder(Decoder):
    """As `Decoder`; `gamma` is the levels below the root, `queries` all nodes."""

    def __init__(
        self, target: Runner, draft: TreeDraft, sampling: Sampling | None = None, eos: tuple[int, ...] = ()
    ) -> None:
        super().__init__(target, draft, sampling, None, eos)
        self.grower, self.tree = draft, draft.tree
        self.queries = self.tree.size
        self._sees = self.tree.sees[None]
        self._tried, self._taken = (torch.zeros_like(self.tree.children[0]) for _ in "tt")

    def start(self, prompts: list[list[int]], new_tokens: int, seed: int = 0) -> State:
        """As `Decoder.start`; what was counted is forgotten."""
        self._tried.zero_()
        self._taken.zero_()
        return super().start(prompts, new_tokens, seed)

    def verify(self, state: State, drafted: Tensor) -> Tensor:
        """Scores [batch, size, vocab] after every node."""
        hidden = self.target.extend(self._nodes(state, drafted), self.tree.depth, self._sees)
        return self.target.model.logits(hidden)

    def decide(self, state: State, drafted: Tensor, proposed: Tensor | None, logits: Tensor) -> TreeVerdict:
        """The path that stands."""
        nodes = self._nodes(state, drafted)
        if proposed is None:
            return walk_greedy(self.tree, nodes, logits)
        return walk_sampled(self.tree, nodes, proposed, self.sampling.probabilities(logits), state.generator)

    def commit(self, state: State, drafted: Tensor, verdict: Verdict) -> None:
        """Count, bring the path together in the caches, and commit it as a chain."""
        assert isinstance(verdict, TreeVerdict)
        self._count(state, verdict)
        below, cache = verdict.path[:, 1:], self.target.cache
        cache.move(cache.lengths[:, None] + below, cache.positions(cache.lengths + 1, self.gamma))
        self.grower.keep(verdict.path)
        super().commit(state, self._nodes(state, drafted).gather(1, below), verdict)

    def _nodes(self, state: State, drafted: Tensor) -> Tensor:
        return torch.cat((state.newest(1), drafted), dim=1)

    def _count(self, state: State, verdict: TreeVerdict) -> None:
        on = torch.arange(self.tree.levels, device=verdict.path.device) <= verdict.accepted[:, None]
        on &= ~state.finished[:, None]
        rank = torch.arange(len(self._tried), device=on.device)
        self._tried += (on[..., None] & (self.tree.born[verdict.path][..., None] > rank)).sum((0, 1))
        self._taken += (on[:, 1:, None] & (self.tree.rank[verdict.path[:, 1:]][..., None] == rank)).sum((0, 1))

    def counts(self) -> TreeCounts:
        """What was counted since `start`; waits for the device."""
        return TreeCounts(tuple(self._tried.tolist()), tuple(self._taken.tolist()))
