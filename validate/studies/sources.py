"""Measures the prediction errors of public runs whose source was left out of the fit.

- Data: the predicted and measured figures of public runs (`public_answers`).
- Folds: whole sources for serving engines (`left_out`) and llama.cpp (`llamacpp`), and whole engines
  (`other_engines`).
- Result: the errors of the runs, and the interval widths that follow from them (`sources_file`).

No number in the written files is set by hand.
"""

import datetime
import json
from collections.abc import Iterable
from pathlib import Path

from perfmodel.specs import LLAMACPP
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import choices, llamacpp, sources_file
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.left_out import left_out
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.other_engines import errors_of_lenders
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_answers import answered
from perfmodel.validate.studies.sources_file import ErrorsByRun

ERROR_DIGITS = 4
"""Significant digits of the recorded log errors."""


def refitted_files(date: datetime.date) -> dict[Path, str]:
    """Path -> new text of every file that this study writes. The fits without each source and without each
    engine take some minutes.

    Raises InputError if a choice has changed and the set of sources has not (`choices.text`).
    """
    before = choices.recorded() if choices.PATH.exists() else None
    chosen = choices.text(before, choices.present())  # checked first, because the fits are slow
    lent = shortened(errors_of_lenders(_of_engines()), ERROR_DIGITS)
    texts = sources_file.texts(errors_without_source(), lent, date)
    return {**texts, choices.PATH: chosen}


def errors_without_source() -> ErrorsByRun:
    """Figure -> id of a run -> its log error, with constants that were fitted without its source."""
    errors = llamacpp_errors([a for a in answered() if a.run.engine == LLAMACPP])
    rows = _of_engines()
    for a, error in zip(rows, left_out(rows).tolist(), strict=True):
        errors[a.figure][a.run.id] = error
    return shortened(errors, ERROR_DIGITS)


def llamacpp_errors(rows: Iterable[Answered]) -> ErrorsByRun:
    """Figure -> id of a llama.cpp run -> its log error, with constants that were fitted without its source.

    The errors are those in ``results/llamacpp.json``. No constant is fitted to a run that is not in this
    file, so the error of such a run is that of the bundled constants.
    """
    left_out_errors = json.loads(llamacpp.ERRORS_PATH.read_text(encoding="utf-8"))
    errors: ErrorsByRun = {"step": {}, "speedup": {}}
    for a in rows:
        id = a.run.id
        if a.figure == "step":
            errors["step"][id] = left_out_errors["step"].get(id, a.off)
        if a.figure == "speedup":
            of_ratio = left_out_errors["ratio"].get(id)
            errors["speedup"][id] = a.off if of_ratio is None else of_reciprocal(of_ratio)
    return errors


def _of_engines() -> list[Answered]:
    """The steps and speedups of serving engines."""
    return [a for a in answered() if a.run.engine in ENGINES and a.figure in ("step", "speedup")]
