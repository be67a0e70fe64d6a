"""Acceptance that was measured at several contexts, for requests of different lengths and sessions that
grow.
"""

import math
from contextlib import suppress

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question.acceptance_of import acceptance_by_context
from perfmodel.operations import Array
from perfmodel.queueing.replay import Arrivals
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs.acceptance.acceptance_rows import UnknownAcceptance
from perfmodel.speculation.scenario import Scenario

KNOTS = 16
"""Contexts, evenly by their logarithm, at which acceptance is looked up."""


def gains_along(
    question: TrafficQuery, scenario: Scenario, steps: StepTimes, requests: Arrivals
) -> Array | None:
    """Tokens per iteration at the mean context of each request over those of `steps`; None where the question
    states no acceptance by context. Beyond what was measured the nearest context's counts.
    """
    if question.acceptance is None or not steps.gamma:
        return None
    from perfmodel.specs.acceptance.acceptance_file import read_acceptance

    at = acceptance_by_context(
        question.model, scenario.target, scenario.draft, read_acceptance(question.acceptance), question.task
    )
    contexts = requests.input_tokens + requests.output_tokens / 2.0
    knots, gains = list[float](), list[float]()
    for context in np.geomspace(contexts.min(), contexts.max(), KNOTS).tolist():
        with suppress(UnknownAcceptance):
            gains.append(float(at(context).tokens_per_iteration(steps.gamma)))
            knots.append(math.log(context))
    return np.asarray(np.interp(np.log(contexts), knots, gains)) / steps.tokens_per_iteration
