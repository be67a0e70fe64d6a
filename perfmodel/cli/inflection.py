"""``perfmodel inflection``: three context lengths that are often confused."""

from collections.abc import Sequence

from perfmodel.answers.point.inflection import Inflection, inflection
from perfmodel.answers.text import draft_in_words, tokens
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn_where
from perfmodel.speculation import ContextLengths


def _print(answers: Sequence[Inflection]) -> None:
    """Prints two rows per answer: with its calibration, and with the ideal calibration."""
    rows = []
    for a in answers:
        if a.calibration != "ideal":
            rows.append(_cells(a, a.calibration, a))
        rows.append(_cells(a, "ideal", a.ideal))
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


def _cells(a: Inflection, calibration: str, lengths: Inflection | ContextLengths) -> tuple[str, ...]:
    """The cells of one calibration: its three context lengths."""
    memory_bound = tokens(lengths.memory_bound_context)
    break_even = tokens(lengths.break_even_context)
    inflection_point = tokens(lengths.inflection_context)
    return (str(a.batch), str(a.gamma), calibration, memory_bound, break_even, inflection_point)


app = verb(inflection, _print, "batch", "gamma", example=f"{LLAMA} --batch 16 --gamma 3 --alpha 0.8")
