"""``perfmodel hierarchy``: two levels of drafts. A small model drafts for the target with a sparse cache,
which drafts for the target with the full cache.
"""

from collections.abc import Sequence

from perfmodel.answers.text import context_text, ratio_text, seconds
from perfmodel.answers.trees.hierarchy import Hierarchy, hierarchy
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, fit, say, table, warn_where

COLUMNS = (
    "batch",
    "context",
    "gamma 1",
    "gamma 2",
    Column("rounds", spare=3),
    Column("drafted", spare=2),
    Column("tokens", spare=1),
    "TPOT",
    "speedup",
    "middle alone",
    "fits",
)


def _row(a: Hierarchy) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    alone = a.middle_alone
    counts = (f"{a.inner_rounds:.2f}", f"{a.drafted:.2f}", f"{a.tokens_per_iteration:.2f}")
    return (
        f"{a.batch:g}",
        context_text(a.context),
        str(a.gamma_1),
        str(a.gamma_2),
        *counts,
        seconds(a.tpot_s),
        ratio_text(a.speedup),
        f"{ratio_text(alone.speedup)} ({alone.gamma})",
        fit(a.fits, a.max_batch),
    )


def _print(answers: Sequence[Hierarchy]) -> None:
    table(COLUMNS, [_row(a) for a in answers])
    say(f"calibration {answers[0].calibration}", "dim")
    warn_where([(f"batch {a.batch:g}, context {context_text(a.context)}", a.warnings) for a in answers])


app = verb(
    hierarchy,
    _print,
    "batch",
    "context",
    example=f"{LLAMA} --batch 1 --context 64k --draft-kv streamingllm:2k "
    "--small llama-3.2-1b --small-rate 0.7 --alpha 0.9",
)
