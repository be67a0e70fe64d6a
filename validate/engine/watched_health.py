"""Checks whether a server that drafts is as fast as predicted for its own load and acceptance."""

from dataclasses import replace

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.compared import predicted_prompt_token_s
from perfmodel.validate.engine.expectation import Expectation
from perfmodel.validate.engine.expected_acceptance import expected_interval
from perfmodel.validate.engine.health import Health, health
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.served_counts import ServedCounts, rates_of


def check_health(
    query: Query, served: ServedCounts, expected: Acceptance | None, where: str, text: str
) -> Health | None:
    """Compares the speed of the server with the prediction for its own load and acceptance. None if the text
    states no speed.
    """
    gained = float(served.acceptance.tokens_per_iteration(served.gamma))
    pace = Pace.of(where, text, gained)
    if pace is None:
        return None
    point = replace(
        query,
        batch=round(served.running or query.batch),
        context=round(served.context),
        gamma=served.gamma,
        rate=rates_of(served.acceptance, served.gamma),
        alpha=None,
        tokens_per_iteration=None,
        acceptance=None,
        task=None,
    )
    prompt_token_s = predicted_prompt_token_s(resolve(point), served.context, drafts=True)
    should = Expectation(whatif(point), gained, expected_interval(expected, served.gamma), prompt_token_s)
    return health(pace, should, text)
