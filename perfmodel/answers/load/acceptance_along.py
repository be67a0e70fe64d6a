"""Looks up the acceptance at several contexts, for requests of different lengths and for sessions whose
context grows.
"""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import acceptance_by_context
from perfmodel.operations import Array
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import Scenario

KNOTS = 16
"""Number of contexts at which the acceptance is looked up. They are evenly spaced on a logarithmic scale."""


def gains_along(question: TrafficQuery, scenario: Scenario, gamma: int, contexts: Array) -> Array | None:
    """Tokens per iteration at each context. The result is None if the question names no acceptance file, or
    if the file has no acceptance at these contexts.

    Outside the measured contexts, the value at the nearest measured context is used.
    """
    if question.acceptance is None or not gamma:
        return None
    from perfmodel.specs.acceptance.acceptance_file import read_acceptance

    acceptance_at = acceptance_by_context(
        question.model, scenario.target, scenario.draft, read_acceptance(question.acceptance), question.task
    )
    knots = list[float]()
    gains = list[float]()
    for context in np.geomspace(contexts.min(), contexts.max(), KNOTS).tolist():
        with suppress(UnknownAcceptance):
            gains.append(float(acceptance_at(context).tokens_per_iteration(gamma)))
            knots.append(math.log(context))
    if knots:
        return np.asarray(np.interp(np.log(contexts), knots, gains))
    return None


def along_turns(question: TrafficQuery, scenario: Scenario, steps: StepTimes) -> StepTimes:
    """A copy of `steps` whose tokens per iteration are the mean over the turns of a session. The mean is over
    iterations, as in the counters of engines.
    """
    kinds = question.reusing.kinds
    gains = gains_along(question, scenario, steps.gamma, kinds.prompt + question.first.output_mean / 2.0)
    if gains is None:
        return steps
    return replace(steps, tokens_per_iteration=1.0 / float(kinds.weight @ (1.0 / gains)))
