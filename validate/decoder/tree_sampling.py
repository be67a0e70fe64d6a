"""A token tree as tables on the device, and the choice of its accepted path, in greedy decoding or by
rejection sampling. The siblings must have been drawn without replacement.

At a node, the children are tried in order of rank. If a child is rejected, the draft's distribution is
subtracted from the target's, and the rejected token is removed from the draft's distribution. The next child
is tried with these two distributions. The path continues from the first accepted child.

Sources: Miao et al. 2024 (SpecInfer), algorithm 2; Chen et al. 2024 (Sequoia, arXiv 2402.12374), algorithm 2.
For a chain, the result is that of `sampling.accept_sampled` with the same random numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.speculation.tree_shape import check_parents, depths, widths
from perfmodel.validate.decoder.sampling import AcceptedTokens, draw


class Topology:
    """The tables of one tree. The root is the newest token, which is not drafted.

    - size: the number of nodes.
    - depth [size]: the level of each node. The root has the level 0.
    - sees: bool [size, size]. Row i is true for node i and its ancestors.
    - children [size, most children of a node]: the numbers of the children of each node; 0 for none.
    - num_children [size]: the number of children of each node.
    - rank [size]: the number of each node among its siblings, from 0.
    - widths: the number of nodes of each level.
    - starts: the first node of each level, and `size`.
    - max_children: the largest number of children of a node in each level.
    - picks: for each level except the last, the indices of the next level's tokens among the candidates,
      [width of the next level]. Each node has `max_children` candidates.
    """

    def __init__(self, parents: Sequence[int], device: torch.device) -> None:
        check_parents(parents)
        self.size = len(parents)
        self.widths = widths(parents)
        rank = [0]
        num_children = [0] * self.size
        children = torch.zeros(self.size, max(map(parents.count, range(self.size))), dtype=torch.int64)
        sees = torch.eye(self.size, dtype=torch.bool)
        for node, parent in enumerate(parents[1:], 1):
            children[parent, num_children[parent]] = node
            rank.append(num_children[parent])
            num_children[parent] += 1
            sees[node] |= sees[parent]
        self.levels = len(self.widths)
        self.starts = tuple(accumulate(self.widths, initial=0))
        self.max_children = tuple(max(num_children[start:stop]) for start, stop in pairwise(self.starts[:-1]))
        self.depth = torch.tensor(depths(parents)).to(device)
        self.rank = torch.tensor(rank).to(device)
        self.num_children = torch.tensor(num_children).to(device)
        self.sees = sees.to(device)
        self.children = children.to(device)
        self.picks = []
        for level, most in enumerate(self.max_children):
            start, first, stop = self.starts[level : level + 3]
            slots = torch.tensor(parents[first:stop], device=device) - start
            self.picks.append(slots * most + self.rank[first:stop])


@dataclass(frozen=True)
class AcceptedPath(AcceptedTokens):
    """The accepted path of a tree.

    - path [batch, levels]: the accepted nodes, beginning with the root. The last node is repeated after the
      end of the path.
    """

    path: Tensor


def accept_tree_greedy(tree: Topology, tokens: Tensor, logits: Tensor) -> AcceptedPath:
    """The accepted path in greedy decoding. At each node, the child whose token is the target's argmax is
    accepted.

    - tokens [batch, size], logits [batch, size, vocab]: the tokens and logits of all nodes.
    """
    best = logits.argmax(-1)
    node = torch.zeros_like(tokens[:, 0])
    path = [node]
    for _ in range(tree.levels - 1):
        children = tree.children[node]
        wanted = best.gather(1, node[:, None])
        match = (tokens.gather(1, children) == wanted) & (children > 0)
        node = torch.where(match.any(1), _select(children, match.long().argmax(1)), node)
        path.append(node)
    return AcceptedPath(tree.depth[node], _select(best, node), torch.stack(path, 1))


def accept_tree_sampled(
    tree: Topology, tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, generator: torch.Generator
) -> AcceptedPath:
    """The accepted path by rejection sampling. If siblings are the draws of `sampling.race`, in order, the
    output has the same distribution as sampling from the target alone.

    - tokens [batch, size]: the tokens of all nodes.
    - draft_probs [batch, nodes of all levels except the last, vocab]: the distributions from which the
      children of each node were drawn.
    - target_probs [batch, size, vocab]: the target's distributions.
    """
    u = target_probs.new_empty(len(tokens), sum(tree.max_children)).uniform_(generator=generator)
    node = torch.zeros_like(tokens[:, 0])
    path = [node]
    used = 0
    rest = target_probs[:, 0]
    walking = torch.ones_like(node, dtype=torch.bool)
    for children in tree.max_children:
        left = _select(draft_probs, torch.where(walking, node, 0))
        taken = node
        for rank in range(children):
            child = tree.children[node, rank]
            tried = walking & (taken == node) & (child > 0)
            token = tokens.gather(1, child[:, None])
            left = as_distribution(left, token)
            is_accepted = u[:, used, None] * left.gather(1, token) < rest.gather(1, token)
            taken = torch.where(tried & is_accepted[:, 0], child, taken)
            refused = (tried & ~is_accepted[:, 0])[:, None]
            rest = torch.where(refused, remainder(rest, left), rest)
            left = left.scatter(1, token, 0.0)
            used += 1
        walking = taken != node
        node = taken
        rest = torch.where(walking[:, None], _select(target_probs, node), rest)
        path.append(node)
    return AcceptedPath(tree.depth[node], draw(rest, generator), torch.stack(path, 1))


class TreeScript:
    """Draws accepted paths on the device, regardless of the models. The k-th child of a node is accepted with
    probability `rates[k]`.
    """

    def __init__(self, tree: Topology, rates: Sequence[float]) -> None:
        """rates: the probabilities, whose sum is at most 1. Children without a rate are never accepted."""
        beyond = tree.children.shape[1] - len(rates)
        fitted = F.pad(torch.tensor(rates, dtype=torch.float64), (0, beyond))
        self._cumulative = fitted.cumsum(0).float().to(tree.rank.device)
        self.tree = tree

    def __call__(self, accepted: AcceptedTokens, generator: torch.Generator) -> AcceptedPath:
        """A random path, with the next tokens of `accepted`."""
        tree = self.tree
        batch = len(accepted.count)
        u = torch.empty(batch, tree.levels - 1, 1, device=tree.rank.device).uniform_(generator=generator)
        node = torch.zeros_like(accepted.count)
        walking = torch.ones_like(accepted.count, dtype=torch.bool)
        path = [node]
        for rank in (u >= self._cumulative).sum(2).unbind(1):
            walking = walking & (rank < tree.num_children[node])
            child = tree.children[node, rank.clamp(max=tree.children.shape[1] - 1)]
            node = torch.where(walking, child, node)
            path.append(node)
        return AcceptedPath(tree.depth[node], accepted.next_token, torch.stack(path, 1))


def as_distribution(left: Tensor, token: Tensor) -> Tensor:
    """`left` [batch, vocab], scaled to the sum 1. A row of zeros becomes the distribution that always gives
    the token in `token` [batch, 1].
    """
    total = left.sum(1, keepdim=True)
    certain = torch.zeros_like(left).scatter(1, token, 1.0)
    return torch.where(total > 0, left / total, certain)


def remainder(rest: Tensor, left: Tensor) -> Tensor:
    """The target's distribution after a draw from `left` was rejected: the positive part of rest - left
    [batch, vocab], scaled to the sum 1.
    """
    over = (rest - left).clamp(min=0)
    total = over.sum(1, keepdim=True)
    return torch.where(total > 0, over / total, rest)


def _select(values: Tensor, index: Tensor) -> Tensor:
    """The elements of values [batch, n, ...] at index [batch]."""
    return values[torch.arange(len(values), device=values.device), index]
