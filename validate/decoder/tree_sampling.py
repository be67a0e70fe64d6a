"""A token tree as tables on the device, and its accepted path: greedy equality, or rejection sampling over
siblings drawn without replacement.

At a node the children are tried in order of rank. A refused one removes its distribution's mass from the
target's, and the next one is judged against the rest of both. The path continues from the first accepted one.
Miao et al. 2024 (SpecInfer), algorithm 2; Chen et al. 2024 (Sequoia, arXiv 2402.12374), algorithm 2. For a
chain this is `sampling.accept_sampled`, from the same random numbers.
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
    """Tables of one tree. The root is the newest token, which is not drafted.

    depth [size]: levels below the root. sees: bool [size, size], a node's ancestors and itself. children
    [size, most per node]: node numbers, 0 for none. num_children [size]. rank [size]: place among siblings.
    widths: nodes of each level. starts: first node of each level, and `size`. max_children: most per node, by
    level. picks: for each level but the last, places of the next level's tokens among `max_children`
    candidates per node, [next width].
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
    """path [batch, levels]: the accepted nodes, the root first. The last one repeats to the end."""

    path: Tensor


def accept_tree_greedy(tree: Topology, tokens: Tensor, logits: Tensor) -> AcceptedPath:
    """tokens [batch, size] of all nodes, logits [batch, size, vocab]: the target's argmax decides at each
    node.
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
    """Exact if siblings are the draws of `sampling.race`, in order.

    tokens [batch, size]; draft_probs [batch, all but the last level, vocab]: distributions of each node's
    children; target_probs [batch, size, vocab]. The output has the distribution of direct sampling from the
    target.
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
            stands = u[:, used, None] * left.gather(1, token) < rest.gather(1, token)
            taken = torch.where(tried & stands[:, 0], child, taken)
            refused = (tried & ~stands[:, 0])[:, None]
            rest = torch.where(refused, remainder(rest, left), rest)
            left = left.scatter(1, token, 0.0)
            used += 1
        walking = taken != node
        node = taken
        rest = torch.where(walking[:, None], _select(target_probs, node), rest)
        path.append(node)
    return AcceptedPath(tree.depth[node], draw(rest, generator), torch.stack(path, 1))


class TreeScript:
    """Paths drawn on the device, regardless of the models: P(a node's k-th child is accepted) is
    `rates[k]`.
    """

    def __init__(self, tree: Topology, rates: Sequence[float]) -> None:
        """rates: each 0 or more, with a sum of at most 1. Children beyond them are never accepted."""
        beyond = tree.children.shape[1] - len(rates)
        fitted = F.pad(torch.tensor(rates, dtype=torch.float64), (0, beyond))
        self._cumulative = fitted.cumsum(0).float().to(tree.rank.device)
        self.tree = tree

    def __call__(self, accepted: AcceptedTokens, generator: torch.Generator) -> AcceptedPath:
        """A drawn path, with the next tokens of `accepted`."""
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
    """`left` [batch, vocab] scaled to sum 1. Where nothing is left, `token` [batch, 1] was certain."""
    total = left.sum(1, keepdim=True)
    certain = torch.zeros_like(left).scatter(1, token, 1.0)
    return torch.where(total > 0, left / total, certain)


def remainder(rest: Tensor, left: Tensor) -> Tensor:
    """The part of `rest` [batch, vocab] that the refused draw from `left` did not cover, scaled to sum 1."""
    over = (rest - left).clamp(min=0)
    total = over.sum(1, keepdim=True)
    return torch.where(total > 0, over / total, rest)


def _select(values: Tensor, index: Tensor) -> Tensor:
    """values [batch, n, ...] at index [batch]."""
    return values[torch.arange(len(values), device=values.device), index]
