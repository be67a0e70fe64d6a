"""Computes the cost of a tree of drafted tokens, and the best tree for a batch and a context.

    speedup(n, d) = G(n, d) T_T / (T_target(B, S, n) + sum over d - 1 passes of T_draft(width) + overhead)

A draft pass runs one level of the tree and proposes the next level. A tree of d levels needs d - 1 passes,
which are as wide as levels 1 ... d - 1. A draft that fills a block in one pass proposes all levels at once,
and the tree is selected from its candidates. Verification is counted as a chain of n query tokens, because
kernels compute the whole block even where the mask of a tree hides pairs. The baseline has n = 1 and a
speedup of exactly 1. The first-order rule is also computed. It gives the largest tree whose verification is
still memory-bound (Chen et al. 2024, arXiv 2402.12374, section 4.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.errors import refuse
from perfmodel.operations import Array, Floats, Ints
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.tree import MAX_LEVELS, Growth, Tree, TreeAcceptance

DEFAULT_SIZE = 128
DEFAULT_LEVELS = 12
"""Default limits of the nodes and levels that `choose` tries."""


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """The best tree for a batch and a context. If the baseline is faster, the tree has only a root. Times are
    in seconds.

    - rule_size, rule_speedup: size and speedup of the tree that the first-order rule gives. This tree has the
      same acceptance, and the best number of levels for its size.
    """

    tree: Tree
    speedup: float
    iteration_s: float
    target_s: float
    rule_size: int
    rule_speedup: float


growth = lru_cache(maxsize=8)(Growth)
"""The table of the dynamic programme, cached because it does not depend on hardware, batch or context."""


def iteration_s(scenario: Scenario, batch: Floats, context: Floats, tree: Tree) -> Floats:
    """Seconds of one iteration with this tree, over ``[batch, context]``. A tree with only a root is the
    baseline.
    """
    check_draftable(scenario, tree.levels)
    if tree.size == 1:
        return scenario.target_pass_s(batch, context)
    return _iteration_s(scenario, batch, context, tree.widths[:-1], tree.size)


def _iteration_s(
    scenario: Scenario, batch: Floats, context: Floats, widths: Sequence[int], size: int
) -> Floats:
    """Seconds of one iteration that verifies `size` tokens.

    - widths: number of nodes of each level that the draft runs. The levels run one after another, or all at
      once in a draft that fills a block.
    """
    runs = [scenario.draft.query(len(widths))] if scenario.draft.in_one_pass else map(float, widths)
    drafts = sum((_level_s(scenario, batch, context, run) for run in runs), start=0.0)
    return drafts + scenario.target_pass_s(batch, context, float(size)) + scenario.overhead_s(batch, context)


def _level_s(scenario: Scenario, batch: Floats, context: Floats, width: Floats) -> Floats:
    """Time of a draft pass with `width` tokens per sequence, and of choosing the nodes that it proposes."""
    return scenario.draft_pass_s(batch, context, width) + scenario.machine.calibration.tree_level_s.value


@dataclass(frozen=True, slots=True)
class ServerShape:
    """The shape of the trees of a server: the number of draft steps, of candidates per step and of verified
    tokens. SGLang's flags are `--speculative-num-steps`, `--speculative-eagle-topk` and
    `--speculative-num-draft-tokens`.

    The first step computes one token, and each further step one token per candidate. The best tokens of this
    tree are verified, including the root.
    """

    steps: int
    candidates: int
    verified: int

    @property
    def proposed(self) -> int:
        """Number of tokens that all steps propose, including the root."""
        return 1 + self.candidates + (self.steps - 1) * self.candidates**2

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of tokens that each draft step computes."""
        return (1, *(self.candidates,) * (self.steps - 1))

    def best_tree(self, acceptance: TreeAcceptance) -> Tree:
        """The best tree that a server with this shape can verify."""
        limited = TreeAcceptance(acceptance.rates[: self.candidates], acceptance.source)
        levels = self.steps + 1
        return growth(limited, self.verified, levels).best(self.verified, levels)


def tokens_of_shape(acceptance: TreeAcceptance, shape: ServerShape) -> float:
    """Tokens per iteration of the best tree with a server shape."""
    return shape.best_tree(acceptance).tokens_per_iteration


def iteration_of_shape_s(scenario: Scenario, batch: Floats, context: Floats, shape: ServerShape) -> Floats:
    """Seconds of one iteration of a server with trees of this shape, over ``[batch, context]``."""
    return _iteration_s(scenario, batch, context, shape.widths, shape.verified)


def as_given(
    scenario: Scenario, acceptance: TreeAcceptance, batch: float, context: float, shape: ServerShape
) -> TreeChoice:
    """The best tree with a given server shape, with its time and speedup. The first-order rule is not
    computed.

    Raises InputError as `check_draftable` does, and if the server verifies more tokens than the steps
    propose.
    """
    if shape.verified > shape.proposed:
        allowed = f"at most {shape.proposed} tokens of {shape.steps} steps of {shape.candidates}"
        raise refuse("--given", None, allowed, shape.verified)
    check_draftable(scenario, shape.steps + 1)
    best = shape.best_tree(acceptance)
    total = float(iteration_of_shape_s(scenario, batch, context, shape))
    target = float(scenario.target_pass_s(batch, context))
    gained = best.tokens_per_iteration * target / total
    return TreeChoice(best, gained, total, target, shape.verified, gained)


def speedup(scenario: Scenario, batch: Floats, context: Floats, tree: Tree) -> Floats:
    """Speedup over the baseline at the same batch. It broadcasts over ``[batch, context]``."""
    gained = tree.tokens_per_iteration * scenario.target_pass_s(batch, context)
    return gained / iteration_s(scenario, batch, context, tree)


class TreeSurface(NamedTuple):
    """Speedups and times of the best trees of all sizes and levels.

    - speedup, iteration_s: speedup and seconds of an iteration, over ``[batch, context, levels, size]``.
    - target_s: seconds of a baseline step, over ``[batch, context]``.
    """

    speedup: Array
    iteration_s: Array
    target_s: Array


def surface(scenario: Scenario, batch: Floats, context: Floats, table: Growth) -> TreeSurface:
    """The speedup and the time of every tree in a table. A tree with only a root is the baseline."""
    b = np.asarray(batch, float)[..., None]
    c = np.asarray(context, float)[..., None]
    verify = np.asarray(scenario.target_pass_s(b, c, np.arange(1.0, table.size + 1)))
    widths = table.widths
    overhead = np.asarray(scenario.overhead_s(b, c)) + np.zeros(1)
    if scenario.draft.in_one_pass:
        blocks = [scenario.draft.query(float(row)) for row in range(len(widths))]
        drafts = np.stack([_level_s(scenario, b, c, block) for block in blocks], axis=-2)
    else:
        each = np.asarray(_level_s(scenario, b, c, 1.0 + np.arange(int(widths.max()), dtype=float)))
        drafts = np.stack([each @ _passes(of, each.shape[-1]).T for of in widths], axis=-2)
    total = drafts + verify[..., None, :] + overhead[..., None]
    target = verify[..., 0]
    total[..., :, 0] = target[..., None]
    total[..., 0, :] = target[..., None]
    return TreeSurface(table.tokens * target[..., None, None] / total, total, target)


def _passes(widths: Ints, widest: int) -> Array:
    """Number of draft passes of each width ``1 ... widest``, from the ``[tree, level]`` widths of trees."""
    counts = np.zeros((widths.shape[0], widest))
    for level in range(widths.shape[1] - 1):
        run = np.flatnonzero(widths[:, level + 1])  # only levels with nodes below them run
        counts[run, widths[run, level] - 1] += 1.0
    return counts


def choose(
    scenario: Scenario,
    acceptance: TreeAcceptance,
    batch: float,
    context: float,
    size: int = DEFAULT_SIZE,
    levels: int | None = None,
) -> TreeChoice:
    """The tree with the largest speedup. On a tie, the smaller tree is chosen.

    - levels: the largest number of levels. By default, it is `DEFAULT_LEVELS`, or fewer if the draft allows
      only fewer.

    Raises InputError as `check_draftable` and `Growth` do.
    """
    table = growth(acceptance, size, levels_within(scenario, size, levels))
    priced = surface(scenario, batch, context, table)
    d, n = divmod(int(priced.speedup.argmax()), table.size)
    levels_used = d + 1 if n else 1
    rule = first_order_size(scenario, batch, context, size)
    return TreeChoice(
        tree=table.best(n + 1, levels_used),
        speedup=float(priced.speedup[d, n]),
        iteration_s=float(priced.iteration_s[d, n]),
        target_s=float(priced.target_s),
        rule_size=rule,
        rule_speedup=float(priced.speedup[:, rule - 1].max()),
    )


def levels_within(scenario: Scenario, size: int, levels: int | None) -> int:
    """The largest number of levels that `choose` tries. Raises InputError as `check_draftable` does."""
    if levels is None:
        longest = scenario.draft.max_gamma
        levels = DEFAULT_LEVELS if longest is None else min(DEFAULT_LEVELS, longest + 1)
    levels = min(levels, size, MAX_LEVELS)
    check_draftable(scenario, levels)
    return levels


def first_order_size(scenario: Scenario, batch: float, context: float, size: int) -> int:
    """The size of the largest tree, up to `size`, whose verification loads for at least as long as it
    computes. Both times are at calibrated rates.
    """
    load, compute = scenario.machine.load_and_compute_s(
        scenario.target_ops(batch, context, np.arange(1.0, size + 1))
    )
    return max(int(np.sum(np.greater_equal(load, compute))), 1)


def check_draftable(scenario: Scenario, levels: int) -> None:
    """Raises InputError for a draft that runs neither once per level nor once for all levels, and for a draft
    that allows fewer levels.
    """
    draft = scenario.draft
    if levels > 1 and float(draft.passes(2.0)) != 2.0 and not draft.in_one_pass:
        raise refuse("--draft", None, "a draft that runs once per level of a tree, or once", draft.name)
    if draft.max_gamma is not None and levels > draft.max_gamma + 1:
        raise refuse(
            "--levels", None, f"at most {draft.max_gamma + 1} with {draft.name}, the root included", levels
        )
