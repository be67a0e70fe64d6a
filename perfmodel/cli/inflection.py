"""``perfmodel inflection``: three context lengths that are often confused."""

from collections.abc import Sequence
from typing import Any

from perfmodel.answers.point.inflection import Inflection, inflection
from perfmodel.answers.text import draft_in_words, tokens
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn_where


def _print(answers: Sequence[Inflection]) -> None:
    rows = [
        (
            str(a.batch),
            str(a.gamma),
            name,
            tokens(at.memory_bound_context),
            tokens(at.break_even_context),
            tokens(at.inflection_context),
        )
        for a in answers
        for name, at in dict[str, Any]({a.calibration: a, "ideal": a.ideal}).items()
    ]
    table(
        (
            "batch",
            "gamma",
            Column("calibration", left=True),
            "memory-bound from",
            "breaks even at",
            "inflection at",
        ),
        rows,
    )
    say(draft_in_words(answers[0].draft, answers[0].draft_kv), "dim")
    warn_where([(f"batch {a.batch}, gamma {a.gamma}", a.warnings) for a in answers])


app = verb(inflection, _print, "batch", "gamma", example=f"{LLAMA} --batch 16 --gamma 3 --alpha 0.8")
