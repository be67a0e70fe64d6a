"""The shape of a token tree (`perfmodel.speculation.tree_shape`) as tables on the device.

One tree serves all sequences and iterations.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from perfmodel.speculation.tree_shape import check_parents, depths, widths


class Topology:
    """Tables of one tree. The root is the newest token, which is not drafted.

    depth [size]: levels below the root. sees: bool [size, size], a node's ancestors and itself.
    children [size, most of a node]: node numbers, 0 where there is none. num_children [size]. rank [size]: place among
    siblings. widths: nodes of each level. starts: first node of each level, and `size`. max_children: of a node, by
    level. picks: for each level but the last, where the next level's tokens stand among `max_children` candidates for
    each node, [next width].
    """

    def __init__(self, parents: Sequence[int], device: torch.device) -> None:
        check_parents(parents)
        self.parents, self.size = tuple(parents), len(parents)
        depth, rank, num_children = depths(parents), [0], [0] * self.size
        sees = torch.eye(self.size, dtype=torch.bool)
        for node, parent in enumerate(parents[1:], 1):
            rank.append(num_children[parent])
            num_children[parent] += 1
            sees[node] |= sees[parent]
        self.levels = depth[-1] + 1
        self.widths = widths(parents)
        self.starts = tuple(accumulate(self.widths, initial=0))
        levels = [num_children[start:stop] for start, stop in pairwise(self.starts)]
        self.max_children = tuple(map(max, levels[:-1]))
        children = torch.zeros(self.size, max(num_children), dtype=torch.int64)
        for node, parent in enumerate(parents[1:], 1):
            children[parent, rank[node]] = node
        self.picks = [
            torch.tensor(
                [
                    (parents[node] - self.starts[level]) * self.max_children[level] + rank[node]
                    for node in range(self.starts[level + 1], self.starts[level + 2])
                ],
                device=device,
            )
            for level in range(self.levels - 1)
        ]
        self.depth, self.rank = torch.tensor(depth, device=device), torch.tensor(rank, device=device)
        self.num_children = torch.tensor(num_children, device=device)
        self.sees, self.children = sees.to(device), children.to(device)
