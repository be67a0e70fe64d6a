"""Token trees: grow one with a draft model, verify all its nodes in one pass, keep the accepted path.

The draft runs one level per pass and proposes the children of its nodes: the best tokens in greedy decoding,
or else draws without replacement. Masks show each node only the committed tokens and its ancestors, and
positions count levels. Accepted nodes are not contiguous in the cache, so they are moved together before the
length advances over them.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.cache import KVCache, write_tokens
from perfmodel.validate.decoder.drafts import ModelDrafter, ViewRunner
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import AcceptedTokens, DraftedTokens, Sampling, race
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.tree_sampling import (
    AcceptedPath,
    Topology,
    accept_tree_greedy,
    accept_tree_sampled,
)


class TreeDrafter(ModelDrafter):
    """levels - 1 passes, as wide as levels 1 ... levels - 1 of the tree. The draft never runs the last level.

    The scratch holds, for a separate model, the token before the root, then the nodes.
    """

    def __init__(self, passes: ViewRunner, tree: Topology, sampling: Sampling) -> None:
        vocab = passes.runner.model.spec.vocab_size
        self.lead = passes.behind
        if max(tree.max_children) > vocab:
            raise InputError(
                f"--tree: a node must have at most the {vocab} tokens of the vocabulary as children"
            )
        super().__init__(passes, tree.levels - 1, sampling)
        self.tree = tree
        self._ahead = F.pad(tree.depth + self.lead, (self.lead, 0))
        behind_lead = F.pad(tree.sees, (self.lead, 0), value=True)
        self._sees = F.pad(behind_lead, (0, 0, self.lead, 0))
        self._sees[0, 0] = True

    def propose(self, state: State) -> DraftedTokens:
        """Tokens of all nodes but the root [batch, size - 1].

        With sampling also the distributions of each node's children, [batch, all but the last level, vocab].
        """
        self.view.begin()
        tokens = state.newest(1 + self.lead)
        used = 0
        draft_tokens = []
        draft_probs = []
        for level, picks in enumerate(self.tree.picks):
            end = used + tokens.shape[1]
            sees = self._sees[None, used:end, :end]
            hidden = self.passes.run(tokens, used, self._ahead[used:end], sees)
            scores = self.runner.model.logits(hidden[:, -self.tree.widths[level] :])
            if not self.sampling.greedy:
                draft_probs.append(self.sampling.probabilities(scores))
                scores = race(draft_probs[-1], state.generator)
            candidates = scores.topk(self.tree.max_children[level], dim=-1).indices
            tokens = candidates.flatten(1).index_select(1, picks)
            used = end
            draft_tokens.append(tokens)
        probs = torch.cat(draft_probs, 1) if draft_probs else None
        return DraftedTokens(torch.cat(draft_tokens, 1), probs)


class TreeDecoder(Decoder):
    """As `Decoder`. `gamma` is the number of levels below the root, `queries` that of all nodes."""

    def __init__(self, target: Runner, draft: TreeDrafter, *rules: Any) -> None:
        """rules: as in `Decoder`."""
        super().__init__(target, draft, *rules)
        self.lead = draft.lead
        self.queries = draft.tree.size
        self.tree = draft.tree
        self._sees = self.tree.sees[None]

    def verify(self, state: State, draft_tokens: Tensor) -> Tensor:
        """logits [batch, size, vocab] after every node."""
        hidden = self.target.extend(self._nodes(state, draft_tokens), self.tree.depth, self._sees)
        return self.target.model.logits(hidden)

    def judge(
        self, state: State, draft_tokens: Tensor, draft_probs: Tensor | None, logits: Tensor
    ) -> AcceptedPath:
        nodes = self._nodes(state, draft_tokens)
        if draft_probs is None:
            return accept_tree_greedy(self.tree, nodes, logits)
        return accept_tree_sampled(
            self.tree, nodes, draft_probs, self.sampling.probabilities(logits), state.generator
        )

    def commit(self, state: State, draft_tokens: Tensor, accepted: AcceptedTokens) -> None:
        """Moves the path together in the caches, and commits it as a chain."""
        assert isinstance(accepted, AcceptedPath)
        below = accepted.path[:, 1:]
        for cache, nodes in zip(self.caches, (below, self.lead + accepted.path), strict=False):
            move(cache, nodes)
        super().commit(state, self._nodes(state, draft_tokens).gather(1, below), accepted)

    def _nodes(self, state: State, draft_tokens: Tensor) -> Tensor:
        return torch.cat((state.newest(1), draft_tokens), dim=1)


def move(cache: KVCache, path: Tensor) -> None:
    """Moves the tokens at offsets path [batch, n] after the committed ones together, to the first places
    after them.
    """
    tokens = cache.read(cache.lengths[:, None] + path)
    slots = cache.slot(cache.positions(cache.lengths + 1, path.shape[1]))
    write_tokens(cache.kv.flatten(0, 1), cache.rows, slots, tokens)


@dataclass(frozen=True)
class TreeCounts:
    """Over all unfinished sequences: how often a k-th child was tried at a node of the accepted path, and how
    often it was accepted.
    """

    tried: tuple[int, ...]
    taken: tuple[int, ...]

    @property
    def rates(self) -> list[float]:
        """P(k-th child is accepted | its parent was reached), for
        `perfmodel.speculation.tree.TreeAcceptance`.
        """
        return [taken / tried if tried else 0.0 for taken, tried in zip(self.taken, self.tried, strict=True)]


class TreeCounter:
    """Counts the children of accepted paths."""

    def __init__(self, tree: Topology) -> None:
        self.tree = tree
        self._tried, self._taken = (torch.zeros_like(tree.children[0]) for _ in "tt")

    def __call__(self, state: State, accepted: AcceptedTokens) -> None:
        """Counts: every child of a node on the path was tried up to the accepted one."""
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
        """The counts so far. It waits for the device."""
        return TreeCounts(tuple(self._tried.tolist()), tuple(self._taken.tolist()))
