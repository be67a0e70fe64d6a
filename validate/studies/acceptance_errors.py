"""Measures the error of a constant acceptance rate: the acceptance at one draft length predicts the tokens
per iteration at another draft length.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from perfmodel.specs import Scatter
from perfmodel.speculation import alpha_from_tokens_per_iteration, tokens_per_iteration
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.held_out_errors import quantile
from perfmodel.validate.studies.published_engines import engine_speculation, served


def acceptance_error() -> Scatter:
    """The error of the predicted tokens per iteration of one draft length if the acceptance comes from
    another draft length, as a constant rate.
    """
    lists = {row.positions: row.conditional for row in served() if row.draft != "ngram"}
    for row in engine_speculation():
        if row.positions and row.steps > 1:
            survival = [1.0, *map(float, row.positions.split("/"))]
            lists[row.positions] = tuple(b / a for a, b in itertools.pairwise(survival))
    off = np.array([error for rates in lists.values() for error in carried_errors(rates)])
    rms = float(np.sqrt(np.mean(off**2)))
    within = quantile(np.abs(off), np.ones(len(off)))
    return Scatter(
        log_rms=significant(rms, 4),
        log_within=significant(within, 4),
        rows=len(off),
        source=f"every two draft lengths of {len(lists)} acceptances by position, served.csv and "
        "engine_speculation.csv",
    )


def carried_errors(rates: Sequence[float]) -> list[float]:
    """The log errors of tokens per iteration, per e-fold of the draft length. Each draft length is predicted
    from each other draft length.

    - rates: the acceptance at each position of the draft.
    """
    gained = np.cumsum(np.cumprod([1.0, *rates]))
    lengths = range(1, len(gained))
    errors = []
    for known, gamma in itertools.permutations(lengths, 2):
        alpha = alpha_from_tokens_per_iteration(min(gained[known], known + 1.0), known)
        off = np.log(tokens_per_iteration(gamma, alpha) / gained[gamma])
        e_folds = np.log((gamma + 1.0) / (known + 1.0))
        errors.append(float(off / e_folds))
    return errors
