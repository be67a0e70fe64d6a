"""The grid of a plan: its blocks, and the points of each block."""

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Annotated, cast

from msgspec import Meta

from perfmodel.kv import parse_kv
from perfmodel.specs import Frozen
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import branching, depths, sequoia, sequoia_nodes, widths

Size = Annotated[int, Meta(ge=1, le=10**9)]
Counts = Annotated[tuple[Size, ...], Meta(min_length=1)]
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Spread = Annotated[float, Meta(gt=0, lt=1)]
Rate = Annotated[float, Meta(ge=0, le=1)]
RANDOM = r"^random:\d+\Z"
"""Pattern of the source of random weights, with their seed."""
CHAIN = ("gamma", "alpha")
"""Keys of a block of chains."""
TREE = ("tree", "rates")
"""Keys of a block of trees. Sequoia trees also need `gamma`."""


class PlannedDraft(Frozen, forbid_unknown_fields=False):
    """The models of a block or a point, and its acceptance."""

    target: Annotated[str, Meta(description="name of a model, or of a file in `validate/plans/shapes`")]
    weights: Annotated[str, Meta(pattern=RANDOM, description="`random:SEED`")] = "random:0"
    draft: Annotated[str, Meta(description="model of the draft; `self` is the target")] = "self"
    draft_weights: Annotated[str, Meta(pattern=RANDOM, description="weights of a separate draft")] = (
        "random:1"
    )
    alpha: Annotated[
        Rate | None, Meta(description="scripted acceptance of a chain; trees use `rates` instead")
    ] = None
    rates: Annotated[
        tuple[float, ...] | None,
        Meta(description="for trees: scripted acceptance of the 1st, 2nd, ... child of a node"),
    ] = None
    spread: Annotated[
        Spread | None,
        Meta(
            description="the contexts of a batch are evenly spaced from context x (1 - spread) to context "
            "x (1 + spread)"
        ),
    ] = None


class GridBlock(PlannedDraft, forbid_unknown_fields=True):
    """One block of the grid: every combination of batch, context, draft length (or tree) and KV method.

    The points of a block measure chains of drafted tokens, or trees if the block has a `tree`.
    """

    draft_kv: Annotated[Names, Meta(description="KV methods of the draft, `NAME[:BUDGET]`")] = ("full",)
    batch: Annotated[Counts, Meta(description="batch size")]
    context: Annotated[Counts, Meta(description="cached tokens per sequence at the start of a sample")]
    gamma: Annotated[
        Counts | None,
        Meta(
            description="number of drafted tokens per iteration, or of levels below the root of `sequoia` "
            "trees"
        ),
    ] = None
    tree: Annotated[
        Names | None,
        Meta(
            description="draft trees: numbers of children by level, such as `4x2x1`, or the best tree of a "
            "size (`sequoia:NODES`)"
        ),
    ] = None

    def __post_init__(self) -> None:
        for text in self.draft_kv:
            parse_kv(text, "draft_kv")
        sequoias = {text.startswith("sequoia") for text in self.tree or ()}
        if len(sequoias) > 1:
            raise ValueError("tree: must be trees as drawn or sequoia trees, not both in one block")
        if self.tree is None:
            kind = "chains"
            needs = {*CHAIN}
        elif True in sequoias:
            kind = "sequoia trees"
            needs = {*TREE, "gamma"}
        else:
            kind = "trees as drawn"
            needs = {*TREE}
        for key in (*CHAIN, *TREE):
            if key in needs and getattr(self, key) is None:
                raise ValueError(f"{key}: must be given with {kind}")
            if key not in needs and getattr(self, key) is not None:
                raise ValueError(f"{key}: must not be given with {kind}")
        for text, gamma in product(self.tree or (), self.gamma or (None,)):
            _parents(text, gamma, self.rates or ())

    @property
    def count(self) -> int:
        """Number of points."""
        lists = self.context, self.batch, self.draft_kv, self.gamma, self.tree
        return math.prod(len(values) for values in lists if values is not None)

    def points(self) -> Iterator["PlanPoint"]:
        """All points of the block. The context is the outermost loop, so caches change as rarely as
        possible.
        """
        draft = {name: getattr(self, name) for name in PlannedDraft.__struct_fields__}
        trees = self.tree or (None,)
        gammas = self.gamma or (None,)
        for context, batch, kv, tree, gamma in product(
            self.context, self.batch, self.draft_kv, trees, gammas
        ):
            parents = None if tree is None else _parents(tree, gamma, self.rates or ())
            levels = cast(int, gamma) if parents is None else depths(parents)[-1]
            yield PlanPoint(
                **draft,
                draft_kv=kv,
                batch=batch,
                context=context,
                gamma=levels,
                tree=tree,
                parents=parents,
            )


@cache
def _parents(text: str, gamma: int | None, rates: tuple[float, ...]) -> tuple[int, ...]:
    """The parents of the nodes of a tree.

    - text: the children by level, or ``sequoia:NODES`` for the best tree with `gamma` levels below its root.
    - rates: the acceptance of the 1st, 2nd, ... child of a node.
    """
    nodes = sequoia_nodes(text, "tree")
    accepted = TreeAcceptance.of(rates)
    if nodes is None or gamma is None:
        return branching(text, "tree", "sequoia:NODES or ")
    return sequoia(nodes, gamma + 1, accepted, "tree")


class PlanPoint(PlannedDraft):
    """One point to measure: a chain of gamma tokens, or a tree (its `parents`) of gamma levels below the
    root.
    """

    draft_kv: Annotated[str, Meta(description="KV method of the draft")]
    batch: Annotated[Size, Meta(description="batch size")]
    context: Annotated[Size, Meta(description="cached tokens per sequence at the start of a sample")]
    gamma: Annotated[
        int,
        Meta(
            ge=1,
            le=4096,
            description="number of drafted tokens per iteration, or of a tree's levels below the root",
        ),
    ]
    tree: Annotated[str | None, Meta(description="tree as written in the plan")] = None
    parents: Annotated[
        tuple[int, ...] | None,
        Meta(description="parent of each node of the tree, level by level; the root, which is first, has -1"),
    ] = None

    @property
    def name(self) -> str:
        """Name of the point within its plan."""
        words = [self.target, self.draft, self.draft_kv, f"b{self.batch}", f"s{self.context}"]
        words.append(f"g{self.gamma}")
        if self.tree is not None:
            rates = ",".join(f"{rate:g}" for rate in self.rates or ())
            words += [f"t{self.tree}", f"r{rates}"]
        else:
            words.append(f"a{self.alpha:g}")
        if self.spread is not None:
            words.append(f"ragged{self.spread:g}")
        return "/".join(words)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of cached tokens of each sequence when a sample starts. Their mean is `context`."""
        step = 2 * (self.spread or 0.0) * self.context / max(1, self.batch - 1)
        middle = (self.batch - 1) / 2
        return tuple(round(self.context + step * (i - middle)) for i in range(self.batch))

    @property
    def queries(self) -> tuple[int, ...]:
        """The numbers of tokens per sequence in the passes of an iteration. The last number is the
        largest.
        """
        if self.parents is not None:
            return (*widths(self.parents)[:-1], len(self.parents))
        return 1, self.gamma + 1
