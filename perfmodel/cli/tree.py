"""``perfmodel tree``: which tree of drafted tokens, for each batch and context."""

from collections.abc import Iterable

from perfmodel.answers.text import seconds, times
from perfmodel.answers.tree import TreeAnswer, TreeQuery
from perfmodel.answers.tree import tree as answer
from perfmodel.cli.options import App, Json, takes
from perfmodel.cli.output import Column, each, fit, show_rows, table, warn_where

app = App()


@app.command()
@takes(TreeQuery, "batch", "context")
def tree(queries: list[TreeQuery], json: Json = False) -> None:
    """The tree of drafted tokens with the largest speedup, by Sequoia's dynamic programme and the model's costs.

    Several --batch or --context values give a tree for each; a tree of size 1 is the baseline.
    """
    show_rows(each(answer, queries), json, _print)


def _print(answers: Iterable[TreeAnswer]) -> None:
    answers, rows = list(answers), []
    for a in answers:
        shape = (str(a.size), str(a.levels), "-".join(map(str, a.widths)))
        gain = (f"{a.tokens_per_iteration:.2f}", times(a.speedup), seconds(a.tpot_s))
        rule = (str(a.first_order_rule.size), times(a.first_order_rule.speedup))
        rows.append((f"{a.batch:g}", f"{a.context:g}", *shape, *gain, *rule, fit(a.fits, a.max_batch)))
    rules = (Column("rule's nodes", spare=2), Column("rule", spare=1))
    table(("batch", "context", "nodes", "levels", "widths", "tokens", "speedup", "TPOT", *rules, "fits"), rows)
    warn_where([(f"batch {a.batch:g}, context {a.context:g}", a.warnings) for a in answers])
