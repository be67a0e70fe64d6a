"""The variation of the time per output token (TPOT) between requests, as moments.

TPOT is the time of a request's decoding passes, divided by its D - 1 output tokens after the first. The time
of prompts in these passes is included.
"""

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.acceptance_spread import gain_spread
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments
from perfmodel.queueing.steps import StepTimes

SLOWED = 0.85
"""Variance of the mean batch during a request's stay, divided by the variance of the batch. The batch changes
on the time scale of one request's stay.
"""


def per_token(
    steps: StepTimes,
    lengths: Lengths,
    mean: Array,
    prompts: Moments,
    prompt_s: Array,
    batch: Moments,
    spread: float,
    busy: Array,
) -> Moments:
    """The moments of TPOT over all requests.

    - mean: mean TPOT in seconds.

    TPOT varies between requests because four quantities vary: acceptance, number of iterations, number of
    other prompts that are read meanwhile, and running batch.

    - spread: standard deviation of the acceptance between requests.
    - prompts: number of other prompts that are read while a request decodes.
    - batch: duration of a pass, divided by the mean duration of the passes in which requests decode.
    - busy: share of the decoding passes at each running batch.
    """
    lengths_run = steps.table or (steps,)
    each = [gain_spread(t.gamma, round(t.tokens_per_iteration, 9), spread) for t in lengths_run]
    between, skew, within = (busy @ np.array(each)).T if steps.table else each[0]
    chance = within / lengths.decoded
    share = np.minimum(prompt_s / (mean * lengths.decoded), 1.0)
    met = share**2 * (prompts.variance + prompts.mean * steps.prompt_cv(lengths) ** 2)
    # arrivals cause both deviations, so these add up
    load = np.sqrt(met) + np.sqrt(np.maximum(SLOWED * batch.variance, 0.0))
    variance = between + chance + load**2
    third = skew + share**3 * prompts.third + SLOWED**1.5 * batch.third
    return Moments(mean, mean**2 * variance, mean**3 * third)
