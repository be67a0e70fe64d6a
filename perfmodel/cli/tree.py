"""``perfmodel tree``: the best tree of drafted tokens for each batch and context."""

from collections.abc import Sequence

from perfmodel.answers.text import context_text, ratio_text, seconds
from perfmodel.answers.trees.tree import TreeAnswer, tree
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, fit, table, warn_where

COLUMNS = (
    "batch",
    "context",
    "nodes",
    "levels",
    Column("widths", spare=1),
    "tokens",
    "speedup",
    "TPOT",
    Column("rule's nodes", spare=3),
    Column("rule", spare=2),
    "fits",
)


def _print(answers: Sequence[TreeAnswer]) -> None:
    table(COLUMNS, [_cells(a) for a in answers])
    warn_where([(f"batch {a.batch:g}, context {context_text(a.context)}", a.warnings) for a in answers])


def _cells(a: TreeAnswer) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    load = (f"{a.batch:g}", context_text(a.context))
    shape = (str(a.size), str(a.levels), "-".join(map(str, a.widths)))
    gain = (f"{a.tokens_per_iteration:.2f}", ratio_text(a.speedup), seconds(a.tpot_s))
    rule = (str(a.first_order_rule.size), ratio_text(a.first_order_rule.speedup))
    return (*load, *shape, *gain, *rule, fit(a.fits, a.max_batch))


app = verb(tree, _print, "batch", "context", example=f"{LLAMA} --batch 1 --context 32k --rates 0.7,0.1,0.05")
