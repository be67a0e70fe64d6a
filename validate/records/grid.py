"""The grid of a plan: blocks as they are written, and the points that they spell out."""

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Annotated, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from perfmodel.kv import parse_kv
from perfmodel.specs.boundary.strict import Strict
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import branching, depths, sequoia, sequoia_nodes, widths

Size = Annotated[int, Field(ge=1, le=10**9)]
Counts = Annotated[tuple[Size, ...], Field(min_length=1)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
Rate = Annotated[float, Field(ge=0, le=1)]
CHAIN, TREE = ("gamma", "alpha"), ("tree", "rates")
LEVELS = ("middle_kv", "inner_gamma", "inner_alpha")


class GridBlock(Strict):
    """One rectangle of the grid: every batch with every context, draft length or tree, and KV method.

    Chains are drafted, unless it has a `tree`, or a `middle_kv`.
    """

    target: str = Field(description="a model's name, or that of a file in `validate/plans/shapes`")
    weights: str = Field(default="random:0", pattern=r"^random:\d+$", description="`random:SEED`")
    draft: str = Field(default="self", description="the same of the draft; `self` is the target itself")
    draft_weights: str = Field(default="random:1", pattern=r"^random:\d+$", description="of a separate draft")
    draft_kv: Names = Field(default=("full",), description="the draft's KV methods, `NAME[:BUDGET]`")
    batch: Counts = Field(description="sequences")
    context: Counts = Field(description="cached tokens per sequence when a sample starts")
    gamma: Counts | None = Field(
        default=None, description="drafted tokens per iteration; levels below the root of `sequoia` trees"
    )
    alpha: Rate | None = Field(
        default=None, description="scripted acceptance, at which speculation advances; trees have rates"
    )
    tree: Names | None = Field(
        default=None,
        description="token trees: children by level as in `4x2x1`, or `sequoia:NODES`, best for the rates",
    )
    rates: tuple[float, ...] | None = Field(
        default=None, description="scripted acceptance of a tree: of a node's 1st, 2nd, ... child"
    )
    middle_kv: Names | None = Field(
        default=None,
        description="two levels: KV methods over which the target drafts gamma tokens, from rounds of "
        "the draft's",
    )
    inner_gamma: Counts | None = Field(default=None, description="two levels: the draft's tokens in a round")
    inner_alpha: Rate | None = Field(
        default=None, description="two levels: scripted acceptance of the draft's tokens in a round"
    )

    @field_validator("draft_kv", "middle_kv")
    @classmethod
    def _known(cls, methods: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        for text in methods or ():
            parse_kv(text, info.field_name or "")
        return methods

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        sequoias = {text.startswith("sequoia") for text in self.tree or ()}
        if len(sequoias) > 1:
            raise ValueError("tree: must be trees as drawn or sequoia trees, not both in one block")
        kind, needs = "chains", set(CHAIN)
        if self.tree is not None:
            kind, needs = (
                ("sequoia trees", {*TREE, "gamma"}) if True in sequoias else ("trees as drawn", set(TREE))
            )
        elif self.middle_kv is not None:
            kind, needs = "two levels", {*CHAIN, *LEVELS}
        for key in (*CHAIN, *TREE, *LEVELS):
            if (getattr(self, key) is None) == (key in needs):
                raise ValueError(f"{key}: must {'' if key in needs else 'not '}be given with {kind}")
        if self.middle_kv is not None and (self.draft == "self" or min(self.context) < 2):
            raise ValueError(
                "middle_kv: must stand over a draft of another model, and contexts of 2 tokens or more"
            )
        for text, gamma in product(self.tree or (), self.gamma or (None,)):
            _parents(text, gamma, self.rates or ())
        return self

    @property
    def count(self) -> int:
        """How many points there are."""
        lists = (
            self.context,
            self.batch,
            self.draft_kv,
            self.gamma,
            self.tree,
            self.middle_kv,
            self.inner_gamma,
        )
        return math.prod(len(values) for values in lists if values is not None)

    def points(self) -> Iterator["PlanPoint"]:
        """Target and context outermost, so that models and caches change as seldom as possible."""
        shapes = product(self.tree or (None,), self.middle_kv or (None,), self.inner_gamma or (None,))
        for context, batch, kv, (tree, middle, inner), gamma in product(
            self.context, self.batch, self.draft_kv, list(shapes), self.gamma or (None,)
        ):
            parents = None if tree is None else _parents(tree, gamma, self.rates or ())
            deep = cast(int, gamma) if parents is None else depths(parents)[-1]
            yield PlanPoint.model_construct(
                target=self.target,
                weights=self.weights,
                draft=self.draft,
                draft_weights=self.draft_weights,
                draft_kv=kv,
                batch=batch,
                context=context,
                gamma=deep,
                alpha=self.alpha,
                tree=tree,
                parents=parents,
                rates=self.rates,
                middle_kv=middle,
                inner_gamma=inner,
                inner_alpha=self.inner_alpha,
            )


@cache
def _parents(text: str, gamma: int | None, rates: tuple[float, ...]) -> tuple[int, ...]:
    """Of a tree as drawn (gamma None), or the best of gamma levels below the root."""
    nodes, accepted = sequoia_nodes(text, "tree"), TreeAcceptance.of(rates)
    if nodes is None or gamma is None:
        return branching(text, "tree")
    return sequoia(nodes, gamma + 1, accepted, "tree")


class PlanPoint(BaseModel):
    """One point to measure: a chain of gamma tokens; a tree (its `parents`) of gamma levels below the root;
    or two levels, of gamma tokens or more from rounds of inner_gamma.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    target: str = Field(description="model, or a shape of `validate/plans/shapes`")
    weights: str = Field("random:0", description="`random:SEED`")
    draft: str = Field(description="the same of the draft; `self` is the target")
    draft_weights: str = Field("random:1", description="of a separate draft")
    draft_kv: str = Field(description="the draft's KV method")
    batch: Size = Field(description="sequences")
    context: Size = Field(description="cached tokens per sequence when a sample starts")
    gamma: int = Field(
        ge=1,
        le=4096,
        description="drafted tokens per iteration: a tree's levels below the root, two levels' fewest",
    )
    alpha: Rate | None = Field(None, description="scripted acceptance; trees have rates")
    tree: str | None = Field(None, description="the tree as the plan asked for it")
    parents: tuple[int, ...] | None = Field(
        None, description="of the tree's nodes, level by level, the root's -1 first"
    )
    rates: tuple[float, ...] | None = Field(
        None, description="scripted acceptance of a node's 1st, 2nd, ... child"
    )
    middle_kv: str | None = Field(
        None, description="two levels: KV method over which the target itself drafts"
    )
    inner_gamma: int | None = Field(
        None, ge=1, le=4096, description="two levels: the draft's tokens in a round"
    )
    inner_alpha: Rate | None = Field(None, description="two levels: their scripted acceptance")

    @property
    def name(self) -> str:
        """Of the point within its plan."""
        kv = self.draft_kv if self.middle_kv is None else f"{self.middle_kv}<{self.draft_kv}"
        parts = [f"{self.target}/{self.draft}/{kv}/b{self.batch}/s{self.context}", f"g{self.gamma}"]
        if self.tree is not None:
            parts += [f"t{self.tree}", "r" + ",".join(f"{rate:g}" for rate in self.rates or ())]
        else:
            parts.append(f"a{self.alpha:g}")
        if self.middle_kv is not None:
            parts.append(f"i{self.inner_gamma}/a{self.inner_alpha:g}")
        return "/".join(parts)

    @property
    def max_accepted(self) -> int:
        """Most draft tokens that one iteration can accept."""
        return self.gamma + (self.inner_gamma or 0)

    @property
    def queries(self) -> tuple[int, ...]:
        """Tokens of a sequence in the passes of an iteration, the largest last; two levels verify from gamma
        + 1 on.
        """
        if self.parents is not None:
            return (*widths(self.parents)[:-1], len(self.parents))
        inner = () if self.inner_gamma is None else (self.inner_gamma + 1, self.gamma + 1)
        return (1, *inner, self.max_accepted + 1)
