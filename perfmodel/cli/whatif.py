"""``perfmodel whatif``: one question, or several questions side by side."""

from dataclasses import replace
from functools import partial
from typing import Annotated

from perfmodel.answers.declaration import Argument
from perfmodel.answers.point.whatif import whatif as answer
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query
from perfmodel.cli import panel
from perfmodel.cli.commands import LLAMA, Json, Verbose, takes
from perfmodel.cli.grouped_help import OUTPUT, command
from perfmodel.cli.output import each, show, show_rows

Sensitivity = Annotated[
    bool, Argument("Also vary the uncertain inputs one at a time, and rank their effects.", group=OUTPUT)
]


@command(example=f"{LLAMA} --batch 16 --context 32k")
@takes(Query, "batch", "context", "gamma")
def app(
    queries: list[Query], sensitivity: Sensitivity = False, verbose: Verbose = False, json: Json = False
) -> None:
    """Does speculation pay off for this model, device, batch and context, and why?

    Several --batch, --context or --gamma values give a table.
    """

    def with_sensitivity(query: Query) -> WhatIf:
        answered = answer(query)
        if not sensitivity or answered.speedup is None:
            return answered
        from perfmodel.answers.point.sensitivity import sensitivity as ranked  # imported only for this flag

        return replace(answered, sensitivity=tuple(ranked(query)))

    answers = each(with_sensitivity, queries)
    if len(answers) > 1:
        show_rows(answers, json, partial(panel.several, queries=queries))
    else:
        show(answers[0], json, partial(panel.single, query=queries[0], verbose=verbose))
