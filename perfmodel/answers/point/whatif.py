"""Answers whether speculation pays off at one point."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from perfmodel.answers.declaration import asks
from perfmodel.answers.point.assembly import assembled
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import Scenario, Workload, memory_of, predict


@asks(Query)
def whatif(query: Query) -> WhatIf:
    """Does speculation pay off for this model, device, batch and context, and why? Raises InputError for
    wrong input.
    """
    workload = Workload.of(query.batch, query.context, 0 if query.gamma is None else query.gamma)
    try:
        scenario = resolve(query)
    except UnknownAcceptance as unknown:
        from perfmodel.answers.point.without_acceptance import undecided  # most drafts have published ones

        return undecided(query, unknown)
    if scenario.acceptance is None:
        with suppress(InputError):  # the baseline needs no acceptance, but the best gamma does
            scenario = resolve(replace(query, gamma=None))
    longest = _longest(query, scenario)
    return assembled(query, scenario, predict(scenario, workload, longest, at_best=query.gamma is None))


def _longest(query: Query, scenario: Scenario) -> int:
    """The longest draft to try. If verification keeps a recurrent state for each token, this is the longest
    draft that fits in memory.
    """
    most = query.max_gamma
    if scenario.target_shard.states is None:
        return most
    batch = float(query.batch)
    context = float(query.context)
    fits = memory_of(scenario, batch, context, np.arange(1.0, most + 1.0), query.memory_fraction).fits
    return int(np.sum(fits)) or most
