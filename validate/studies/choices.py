"""Lists the choices that were made by hand while the errors of the sources were known
(``results/choices.json``).

The choices are the set of constants, their priors, the values of constants without rows, and the formula of
interval widths. Because of these choices, the errors of sources that are left out of a fit are slightly
optimistic. The file also lists the sources. A choice may change only together with the set of sources, which
`text` checks.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perfmodel.errors import InputError
from perfmodel.specs import COVERAGE, files
from perfmodel.specs.engines.source_errors import LEAST_EXTRA
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.studies import (
    held_out_errors,
    llamacpp_constants,
    llamacpp_curves,
    llamacpp_passes,
    refit,
    widths,
)
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.measured_steps import FREE
from perfmodel.validate.studies.public_runs import public_runs

PATH = BUNDLED / "choices.json"


def present() -> dict[str, Any]:
    """The sources whose rows count in the errors, and the present choices, in JSON types."""
    sources = {run.source_id for run in public_runs() if run.counts}
    as_text = json.dumps({"sources": sorted(sources), "choices": _choices()})
    return dict(json.loads(as_text))


def _choices() -> dict[str, Any]:
    of_tables = {p.place: [p.expected, p.spread] for p in (*DECODING, *SPECULATING)}
    of_other_data = {place: p.elsewhere for place, p in FREE.items() if p.elsewhere}
    without_rows = {"factor": 1.0, "later_version": refit.LATER_VERSION, "share_of_time": refit.SHARE_OF_TIME}
    spreads = {
        "time": refit.TIME_SPREAD,
        "factor": refit.FACTOR_SPREAD,
        "known_elsewhere": refit.KNOWN_SPREAD,
    }
    of_llamacpp = {"row": asdict(llamacpp_passes.SPREAD), "pass": asdict(llamacpp_passes.SPREAD_ALONE)}
    of_widths = {
        "other_classes": held_out_errors.BORROWED,
        "other_devices": widths.OTHER_DEVICES,
        "least_extra": LEAST_EXTRA,
        "up_to_each_end_of_speedups": widths.ONE_SIDE,
        "coverage": COVERAGE,
    }
    return {
        "constants_of_public_runs": sorted(FREE),
        "constants_of_tables": of_tables,
        "constants_of_llamacpp": llamacpp_constants.TERMS,
        "without_rows": without_rows,
        "known_elsewhere": of_other_data,
        "spread_without_rows": spreads,
        "variances_of_folds": asdict(refit.VARIANCES),
        "spreads_of_llamacpp": of_llamacpp,
        "overlap_of_llamacpp": llamacpp_curves.OVERLAP,
        "freedom_of_rows": refit.DEGREES_OF_FREEDOM,
        "widths": of_widths,
    }


def recorded() -> dict[str, Any]:
    """The content of the file. Raises InputError if it is missing or malformed."""
    return files.read_mapping(PATH)


def text(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """The new text of the file. Raises InputError if a choice has changed and the set of sources has not.

    - before: the recorded content; None if there is no file yet.
    - now: the present content (`present`).
    """
    if before is not None and before["sources"] == now["sources"]:
        changed = [name for name, value in now["choices"].items() if before["choices"].get(name) != value]
        if changed:
            raise InputError(
                f"{PATH.name}: {', '.join(changed)}: may change only together with the set of sources, "
                "since the errors of these sources were known when they were chosen"
            )
    return json.dumps(now, indent=1) + "\n"
