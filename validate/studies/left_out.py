"""Predicts steps and speedups of public runs with constants that were fitted without their source.

- Data: steps and speedups of public runs. Steps in ``engine_decode.csv`` also count, if their device uses the
  kernel constants of another device (`measured_steps`).
- Folds: each source is left out whole. The constants that come from public runs are fitted again (`refit`).
  If the source has rows in ``engine_decode.csv``, the other constants are those of a fit without these rows
  (`steps_without`).
- Result: the log error of each step or speedup.
"""

from collections.abc import Sequence

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.engine_replay import steps_without
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.measured_steps import MeasuredStep, on_borrowed_kernels, shipped_values
from perfmodel.validate.studies.published_engines import alike
from perfmodel.validate.studies.refit import refit


def left_out(rows: Sequence[Answered]) -> Array:
    """The log error of each step or speedup, predicted with constants that were fitted without its source.
    No constant is fitted to rows that do not count in the errors, but they are predicted too.
    """
    values = shipped_values()
    steps = [MeasuredStep.of_run(a, values) for a in rows]
    fitted_to = [step for a, step in zip(rows, steps, strict=True) if a.run.counts]
    fitted_to += on_borrowed_kernels(values)
    errors = np.empty(len(rows))
    indices_of = grouped(range(len(rows)), lambda i: rows[i].run.source_id)
    for source, indices in indices_of.items():
        without = {**values, **steps_without(source)}
        judged = [steps[i].with_values(without) for i in indices]
        others = [step.with_values(without) for step in fitted_to if not alike(step.source, source)]
        errors[indices] = refitted_errors(judged, others)
    return errors


def refitted_errors(judged: Sequence[MeasuredStep], fitted_to: Sequence[MeasuredStep]) -> list[float]:
    """The log error of each step or speedup, after its free constants (`FREE`) were fitted to other steps.

    - judged: the steps and speedups to predict.
    - fitted_to: the steps for the fit.
    """
    places = sorted({place for step in judged for place in step.places})
    related = [step for step in fitted_to if not set(places).isdisjoint(step.places)]
    changes = refit(related, places)
    errors = []
    for step in judged:
        error = step.off + step.moved(changes)
        errors.append(of_reciprocal(error) if step.is_ratio else error)
    return errors
