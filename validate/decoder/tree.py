"""Token trees: a draft model grows a tree, one pass of the target verifies all nodes, and the accepted path
is kept.

Each pass of the draft runs one level of the tree and proposes the children of the nodes in this level. In
greedy decoding, the children are the most likely tokens. Otherwise, they are drawn without replacement. A
mask lets each node attend only to the committed tokens, its ancestors and itself. The position of a node is
its level. Accepted nodes are not contiguous in the cache, so they are moved together before they are
committed.
"""

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
    """Drafts a tree. The draft runs one pass for every level of the tree except the last. The scratch slots
    contain the nodes. For a separate model, the token before the root precedes them.
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
        """The tokens of all nodes except the root, [batch, size - 1].

        The distributions are those from which the children of each node were drawn, [batch, nodes of all
        levels except the last, vocab]. They are None in greedy decoding.
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
    """A `Decoder` that verifies trees.

    - gamma: the number of levels below the root.
    - queries: the number of nodes.
    """

    def __init__(self, target: Runner, draft: TreeDrafter, *rules: Any) -> None:
        """rules: the other arguments of `Decoder`, from `sampling` on."""
        super().__init__(target, draft, *rules)
        self.lead = draft.lead
        self.queries = draft.tree.size
        self.tree = draft.tree
        self._sees = self.tree.sees[None]

    def verify(self, state: State, draft_tokens: Tensor) -> Tensor:
        """The logits [batch, size, vocab] of the target after every node."""
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
        """Moves the nodes of the accepted path together in the caches, and then commits them like a chain."""
        assert isinstance(accepted, AcceptedPath)
        below = accepted.path[:, 1:]
        for cache, nodes in zip(self.caches, (below, self.lead + accepted.path), strict=False):
            move(cache, nodes)
        super().commit(state, self._nodes(state, draft_tokens).gather(1, below), accepted)

    def _nodes(self, state: State, draft_tokens: Tensor) -> Tensor:
        return torch.cat((state.newest(1), draft_tokens), dim=1)


def move(cache: KVCache, path: Tensor) -> None:
    """Moves uncommitted tokens together. They follow the root, which is in the first uncommitted slot.

    - path [batch, n]: the offsets of these tokens from the first uncommitted slot.
    """
    tokens = cache.read(cache.lengths[:, None] + path)
    slots = cache.slot(cache.positions(cache.lengths + 1, path.shape[1]))
    write_tokens(cache.kv.flatten(0, 1), cache.rows, slots, tokens)
