"""Measures the error of using the constants of another engine, which is called the lender.

An engine without fitted constants uses those of another engine (`ServingEngine.constants_of`). The widths of
the intervals of such answers follow from the errors that this module measures (class ``other_engine``).

- Data: steps and speedups of public runs, and the ratios of `iterations`.
- Model: each row is predicted as if it had run on the newest version of the lender.
- Folds: the constants are fitted without all rows of the row's engine, as for a new engine. Constants that
  come from public runs are also fitted without the row's source.
- Result: the log errors by figure, lender and row (`ErrorsByLender`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfmodel.errors import InputError
from perfmodel.specs import device_class, load_gpu
from perfmodel.specs.engines.engines import engines
from perfmodel.validate.solving import Values, grouped
from perfmodel.validate.studies.answered_runs import Answered, answers
from perfmodel.validate.studies.held_out import rows_of
from perfmodel.validate.studies.iterations import Iterations, iterations
from perfmodel.validate.studies.left_out import refitted_errors
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.measured_steps import MeasuredStep, on_borrowed_kernels, shipped_values
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import PublicRun, public_runs
from perfmodel.validate.studies.published_engines import alike

FIGURES = ("step", "speedup", "ratio")
"""Steps and speedups of public runs, and the ratios of `iterations`."""
ErrorsByLender = dict[str, dict[str, dict[str, float]]]
"""Figure -> lender (the engine whose constants predict) -> name of a row -> log error."""


def errors_of_lenders(rows: Sequence[Answered]) -> ErrorsByLender:
    """The log error of every row with the constants of each other engine.

    - rows: steps and speedups of public runs, predicted with the constants of their own engine.
    """
    errors: ErrorsByLender = {figure: {lender: {} for lender in ENGINES} for figure in FIGURES}
    shipped = shipped_values()
    every_step = [MeasuredStep.of_run(a, shipped) for a in rows if a.run.counts]
    every_step += on_borrowed_kernels(shipped)
    for engine in ENGINES:
        values = _values_without(engine)
        others = [step.with_values(values) for step in every_step if step.engine != engine]
        runs = list(dict.fromkeys(a.run for a in rows if a.run.engine == engine))
        for lender in ENGINES:
            if lender != engine:
                _add_runs(errors, runs, lender, values, others)
                errors["ratio"][lender] |= _ratios(engine, lender, values)
    return errors


def _values_without(engine: str) -> Values:
    """The constants of steps and of iterations, fitted without the rows of an engine."""
    steps = rows_of("seen")
    of_steps, _ = steps.fit(train=np.array([row.engine != engine for row in steps.rows]))
    ratios = Iterations(of_steps.values)
    of_ratios, _ = ratios.fit(train=np.array([row.engine != engine for row in ratios.rows]))
    return {**of_steps.values, **of_ratios.values}


def _add_runs(
    errors: ErrorsByLender,
    runs: Sequence[PublicRun],
    lender: str,
    values: Values,
    others: Sequence[MeasuredStep],
) -> None:
    """Adds the errors of the public runs of one engine, predicted with the constants of another engine.

    - values, others: constants that were fitted without the engine, and measured steps of other engines.
    """
    lent = list(_answers_by(lender, runs))
    shipped = shipped_values()
    for source, answered in grouped(lent, lambda a: a.run.source_id).items():
        judged = [MeasuredStep.of_run(a, shipped).with_values(values) for a in answered]
        fitted_to = [step for step in others if not alike(step.source, source)]
        for a, error in zip(answered, refitted_errors(judged, fitted_to), strict=True):
            errors[a.figure][lender][a.run.id] = error


def _answers_by(lender: str, runs: Sequence[PublicRun]) -> Iterator[Answered]:
    """The steps and speedups of runs, predicted for the lender's newest version. Runs with a device or a
    draft that the lender does not support are skipped.
    """
    for run in runs:
        try:
            answered = answers(replace(run, engine=lender, engine_version=""))
        except InputError:
            continue
        yield from (a for a in answered if a.figure != "ratio")


def _ratios(engine: str, lender: str, values: Values) -> dict[str, float]:
    """Name of a row of `iterations` -> its log error with the constants of another engine."""
    newest = engines().engines[lender].versions[-1]
    lent = [replace(row, engine=lender, version=newest) for row in iterations() if row.engine == engine]
    off = Iterations(values, rows=lent).off(values)
    return {row.name: error for row, error in zip(lent, off.tolist(), strict=True)}


def left_out_errors(errors: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, list[LeftOutError]]:
    """Figure -> the errors of the class ``other_engine``. Each row has one error per lender."""
    runs = {run.id: run for run in public_runs()}
    tables = {row.name: row for row in iterations()}
    of_figures: dict[str, list[LeftOutError]] = {"step": [], "speedup": []}
    for figure, of_figure in of_figures.items():
        for by_row in errors[figure].values():
            of_figure += [LeftOutError.of_run(runs[name], figure, off) for name, off in by_row.items()]
    for by_row in errors["ratio"].values():
        for name, off in by_row.items():
            row = tables[name]
            device = device_class(load_gpu(row.query.hardware))
            of_figures["speedup"].append(
                LeftOutError.of_ratio(row.study, off, row.ratio, device=device, series=row.alike)
            )
    return of_figures
