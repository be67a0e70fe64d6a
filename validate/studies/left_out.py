"""Steps and speedups of public runs with constants fitted without their source.

Data: steps of public runs, and steps of the engines' tables on devices that borrow kernels
(`measured_steps`). Model: constants that are stated from public runs, fitted again (`refit`). Folds: whole
sources. Result: the log error of each row.
"""

from collections.abc import Sequence

import numpy as np

from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.measured_steps import MeasuredStep, on_borrowed_kernels, shipped_values
from perfmodel.validate.studies.public_runs import Answered
from perfmodel.validate.studies.refit import refit
from perfmodel.validate.studies.robust import Array


def left_out(rows: Sequence[Answered]) -> Array:
    """Logarithm of predicted over measured, of each step or speedup with constants fitted without its source.

    Rows that are left out by judgement are predicted, but nothing is fitted to them.
    """
    values = shipped_values()
    steps = [MeasuredStep.of_run(a, values) for a in rows]
    fitted_to = [step for a, step in zip(rows, steps, strict=True) if a.run.counts]
    fitted_to += on_borrowed_kernels(values)
    errors = np.empty(len(rows))
    indices_of = grouped(range(len(rows)), lambda i: rows[i].run.source_id)
    for source, indices in indices_of.items():
        others = [step for step in fitted_to if not alike(step.source, source)]
        errors[indices] = refitted_errors([steps[i] for i in indices], others)
    return errors


def refitted_errors(judged: Sequence[MeasuredStep], fitted_to: Sequence[MeasuredStep]) -> list[float]:
    """Logarithm of predicted over measured, of each step or speedup, with the free constants in them fitted
    to other steps.
    """
    places = sorted({place for step in judged for place in step.places})
    related = [step for step in fitted_to if not set(places).isdisjoint(step.places)]
    changes = refit(related, places)
    errors = []
    for step in judged:
        error = step.off + step.moved(changes)
        errors.append(of_reciprocal(error) if step.is_ratio else error)
    return errors


def alike(source: str, other_source: str) -> bool:
    """Whether two names are of one source. A thread of a repository is held out together with its
    dashboard.
    """
    return source == other_source or ("InferenceX" in source and "InferenceX" in other_source)
