"""``perfmodel inverse``: the conditions for a target speedup."""

from collections.abc import Sequence

from perfmodel.answers.point.inverse import Inverse, inverse
from perfmodel.answers.text import NONE, UNKNOWN, draft_in_words, ratio_text, tokens
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn_where


def _limit(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _print(answers: Sequence[Inverse]) -> None:
    rows = [
        (
            str(a.batch),
            str(a.context),
            str(a.gamma),
            ratio_text(a.speedup),
            ratio_text(a.target_speedup),
            _limit(a.smallest_alpha),
            UNKNOWN if a.speedup is None else _limit(a.largest_draft_to_target),
            UNKNOWN if a.speedup is None else _limit(a.largest_kv_reread),
            UNKNOWN if a.speedup is None else tokens(a.smallest_context),
        )
        for a in answers
    ]
    needed = ("min alpha", "max draft/target", Column("max KV re-read", spare=1), "min context")
    table(("batch", "context", "gamma", "speedup", Column("target", spare=2), *needed), rows)
    say(draft_in_words(answers[0].draft, answers[0].draft_kv), "dim")
    warn_where([(f"batch {a.batch}, context {a.context}, gamma {a.gamma}", a.warnings) for a in answers])


app = verb(
    inverse,
    _print,
    "batch",
    "context",
    "gamma",
    example=f"{LLAMA} --batch 16 --context 32k --alpha 0.8 --speedup 1.5",
)
