"""A draft model that grows a token tree, level by level: a pass runs one level and proposes the children of its nodes.

Greedy decoding takes the best tokens as children, sampling draws them without replacement. The draft's own attention
sees a node's ancestors only, so that siblings are independent continuations.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.validate.decoder.drafts import ModelDraft
from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import Sampling, race
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.topology import Topology


class TreeDraft(ModelDraft):
    """levels - 1 passes, as wide as levels 1 ... levels - 1 of the tree; the last level is never run by the draft.

    The scratch holds, for a separate model, the token before the root, then the nodes.
    """

    def __init__(self, runner: Runner, view: View, tree: Topology, sampling: Sampling, own: bool) -> None:
        if max(tree.most) > runner.model.spec.vocab_size:
            vocab = runner.model.spec.vocab_size
            raise InputError(f"--tree: a node must have at most the {vocab} tokens of the vocabulary as children")
        self.lead = int(own)
        run = tree.starts[-2] + self.lead
        super().__init__(runner, view, tree.levels - 1, sampling, own, slots=run)
        self.tree = tree
        self._ahead = F.pad(tree.depth + self.lead, (self.lead, 0))
        self._sees = F.pad(F.pad(tree.sees, (self.lead, 0), value=True), (0, 0, self.lead, 0))
        self._sees[0, 0] = True

    def propose(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Tokens of all nodes but the root [batch, size - 1].

        With sampling also the distributions that each node's children were drawn from, [batch, all but the last
        level, vocab].
        """
        self.view.begin()
        tokens, used = state.newest(1 + self.lead), 0
        drafted, proposed = [], []
        for level, picks in enumerate(self.tree.picks):
            end = used + tokens.shape[1]
            hidden = self.run(tokens, used, self._ahead[used:end], self._sees[None, used:end, :end])
            scores = self.runner.model.logits(hidden[:, -self.tree.widths[level] :])
            if not self.sampling.greedy:
                proposed.append(self.sampling.probabilities(scores))
                scores = race(proposed[-1], state.generator)
            candidates = scores.topk(self.tree.most[level], dim=-1).indices
            tokens, used = candidates.flatten(1).index_select(1, picks), end
            drafted.append(tokens)
        return torch.cat(drafted, 1), torch.cat(proposed, 1) if proposed else None

    def keep(self, path: Tensor) -> None:
        """Move the nodes of path [batch, levels] together in the own cache, before `commit` says how many count."""
        if self.own:
            cache = self.runner.cache
            cache.move(cache.lengths[:, None] + self.lead + path, cache.positions(cache.lengths + 1, path.shape[1]))
