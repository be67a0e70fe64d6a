"""``perfmodel inflection``: the three lengths that people mix up."""

from collections.abc import Iterable

from perfmodel.answers.inflection import Inflection, InflectionQuery
from perfmodel.answers.inflection import inflection as answer
from perfmodel.answers.text import tokens
from perfmodel.cli.options import App, Json, takes
from perfmodel.cli.output import Column, each, say, show_rows, table
from perfmodel.speculation.lengths import ContextLengths

app = App()


@app.command()
@takes(InflectionQuery, "batch", "gamma")
def inflection(queries: list[InflectionQuery], json: Json = False) -> None:
    """The three context lengths where something turns.

    memory_bound_context: from here on a step loads for longer than it computes. break_even_context: from here on
    speculation is faster than the baseline. inflection_context: from here on a larger batch costs no speedup. Each
    on the calibration in use and, beside it, on the ideal roofline.
    """
    show_rows(each(answer, queries), json, _print)


def _print(answers: Iterable[Inflection]) -> None:
    answers, rows = list(answers), []
    for a in answers:
        named: list[tuple[str, Inflection | ContextLengths]] = [(a.calibration, a), ("ideal", a.ideal)]
        for name, at in named[: 1 + (a.calibration != "ideal")]:
            lengths = (at.memory_bound_context, at.break_even_context, at.inflection_context)
            rows.append((str(a.batch), str(a.gamma), name, *map(tokens, lengths)))
    calibration = Column("calibration", left=True)
    table(("batch", "gamma", calibration, "memory-bound from", "breaks even at", "inflection at"), rows)
    say(f"drafted by {answers[0].draft} through {answers[0].draft_kv.partition(',')[0]}", "dim")
