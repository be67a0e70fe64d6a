"""Finds the tree of drafted tokens with the largest speedup at one batch and context."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import (
    NO_INTERVAL,
    CommonOptions,
    arguments as arg,
    doubts,
    resolve_costs,
)
from perfmodel.answers.question.tree_rates import parse_tree_rates
from perfmodel.answers.readers import MaybeWhole, Parsed, Whole, numbers, whole
from perfmodel.answers.text import ratio_text
from perfmodel.errors import refuse
from perfmodel.parse import parse_text
from perfmodel.speculation import memory_of
from perfmodel.speculation.tree import MAX_CHILDREN, MAX_LEVELS, MAX_SIZE
from perfmodel.speculation.tree_cost import DEFAULT_LEVELS, DEFAULT_SIZE, ServerShape, as_given, choose


def given_tree(given: object, flag: str) -> tuple[int, ...]:
    """Reads a tree from a text such as ``5x8x32`` (STEPSxTOPKxTOKENS) or from these three numbers. Raises
    InputError for other values.
    """
    text = given
    if isinstance(given, Sequence) and not isinstance(given, str):
        text = "x".join(map(str, given))
    allowed = f"STEPSxTOPKxTOKENS up to {MAX_LEVELS - 1}, {MAX_CHILDREN} and {MAX_SIZE}, as 5x8x32"
    matched = re.fullmatch(r"([1-9]\d?)x([1-9]\d{0,2})x([1-9]\d{0,3})", parse_text(text, flag))
    if matched is None:
        raise refuse(flag, None, allowed, given)
    steps, candidates, tokens = map(int, matched.groups())
    if not (steps < MAX_LEVELS and candidates <= MAX_CHILDREN and 2 <= tokens <= MAX_SIZE):
        raise refuse(flag, None, allowed, given)
    return steps, candidates, tokens


@question
class TreeQuery(CommonOptions):
    """A question about trees of drafted tokens. The acceptance depends on the rank of a child (first, second
    and so on), and not on the position in a chain.
    """

    batch: arg.Batch
    context: arg.Context
    tp: arg.TP = argument(default=1)
    ep: arg.EP = argument(default=1)
    dp: arg.DP = argument(default=1)
    draft_kv: arg.DraftKV = argument(default=None)
    _: KW_ONLY
    rates: Parsed[tuple[float, ...], str | Sequence[float]] = argument(
        "Probabilities that the 1st, 2nd, ... child of a node is accepted, separated by commas.",
        "RATES",
        read=numbers,
        group="Acceptance",
    )
    size: Whole = argument(
        "Largest number of nodes, including the root. A verification has one query token for each node.",
        "N",
        read=whole,
        default=DEFAULT_SIZE,
        group="Draft",
    )
    levels: MaybeWhole = argument(
        "Largest number of levels, including the root.",
        "N",
        read=whole,
        shown=f"{DEFAULT_LEVELS}, or the number of drafted levels",
        default=None,
        group="Draft",
    )
    given: Parsed[tuple[int, ...] | None, str | Sequence[int] | None] = argument(
        "Tree that a server uses, as draft steps x candidates per step x tokens to verify, such as 5x8x32.",
        "STEPSxTOPKxTOKENS",
        read=given_tree,
        shown="the best tree",
        default=None,
        group="Draft",
        without=("size", "levels"),
        why="which bound the best tree",
    )
    draft: arg.Draft = argument(default="self")
    draft_tp: arg.DraftTP = argument(default=None)


@dataclass(frozen=True, slots=True)
class FirstOrderRule:
    """A simple rule for comparison: the largest tree whose verification still spends more time on loading
    than on computing.

    - size: number of nodes of this tree.
    """

    size: int
    speedup: float


@dataclass(frozen=True, repr=False)
class TreeAnswer(Answer):
    """The answer of `tree`: the best tree, or the tree that the question states.

    - size, levels: numbers of nodes and levels, including the root. Size 1 is the baseline.
    - widths: number of nodes on each level.
    - parents: index of the parent of each node.

    All times are in seconds and for one server.
    """

    batch: float
    context: float
    size: int
    levels: int
    widths: tuple[int, ...]
    parents: tuple[int, ...]
    tokens_per_iteration: float
    speedup: float
    tpot_s: float
    ar_tpot_s: float
    first_order_rule: FirstOrderRule
    source: str
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]

    def headline(self) -> str:
        return (
            f"{ratio_text(self.speedup)} with {self.size} nodes on {self.levels} levels "
            f"({'-'.join(map(str, self.widths))}), batch {self.batch}"
        )


@asks(TreeQuery)
def tree(question: TreeQuery) -> TreeAnswer:
    """Find the tree of drafted tokens with the largest speedup, using Sequoia's dynamic programming and
    predicted times.

    A tree of size 1 is the baseline. Raises InputError for wrong input.
    """
    acceptance = parse_tree_rates(question.rates, "--rates")
    query = question.query(gamma=0)
    batch = query.batch
    context = query.context
    scenario = resolve_costs(query)
    if question.given is None:
        choice = choose(scenario, acceptance, batch, context, question.size, question.levels)
    else:
        choice = as_given(scenario, acceptance, batch, context, ServerShape(*question.given))
    shape = choice.tree
    room = memory_of(scenario, batch, context, shape.size - 1, query.memory_fraction).single()
    return TreeAnswer(
        batch=batch,
        context=context,
        size=shape.size,
        levels=shape.levels,
        widths=tuple(shape.widths),
        parents=tuple(shape.parents),
        tokens_per_iteration=shape.tokens_per_iteration,
        speedup=choice.speedup,
        tpot_s=choice.iteration_s / shape.tokens_per_iteration,
        ar_tpot_s=choice.target_s,
        first_order_rule=FirstOrderRule(choice.rule_size, choice.rule_speedup),
        source=acceptance.source,
        fits=room.fits,
        max_batch=room.max_batch,
        warnings=doubts(query, scenario, batch, context, max(shape.size - 1, 1), room, NO_INTERVAL),
    )
