"""The shape of a token tree (`perfmodel.speculation.tree_shape`) as tables on the device.

One tree serves all sequences and iterations.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from perfmodel.speculation.tree_shape import check_parents, depths, widths


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
        self.size, self.widths = len(parents), widths(parents)
        rank, num_children = [0], [0] * self.size
        children = torch.zeros(self.size, max(map(parents.count, range(self.size))), dtype=torch.int64)
        sees = torch.eye(self.size, dtype=torch.bool)
        for node, parent in enumerate(parents[1:], 1):
            children[parent, num_children[parent]] = node
            rank.append(num_children[parent])
            num_children[parent] += 1
            sees[node] |= sees[parent]
        self.levels, self.starts = len(self.widths), tuple(accumulate(self.widths, initial=0))
        self.max_children = tuple(max(num_children[start:stop]) for start, stop in pairwise(self.starts[:-1]))
        made = (torch.tensor(depths(parents)), torch.tensor(rank), torch.tensor(num_children), sees, children)
        self.depth, self.rank, self.num_children, self.sees, self.children = (
            table.to(device) for table in made
        )
        self.picks = [
            (torch.tensor(parents[first:stop], device=device) - start) * most + self.rank[first:stop]
            for (start, first), stop, most in zip(
                pairwise(self.starts), self.starts[2:], self.max_children, strict=False
            )
        ]
