"""Fits constants without a whole group of rows, and computes the prediction errors of these rows.

A group has one engine, model, device and tensor-parallel degree. `held_out_errors` and `held_out_intervals`
use these errors.
"""

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import Relation, architecture_of, calibration_of, load_gpu
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.fitted_parameters import DECODING
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.robust import FittedRows, Row
from perfmodel.validate.studies.steps import DecodeRows

FOLD_ROUNDS = 2
"""Number of rounds of a fit without a group. Such a fit needs few rounds, because it starts from the fit to
all rows.
"""
STAND_INS = {
    "h100-sxm-80gb": "h200-sxm-141gb",
    "h100-sxm-94gb": "h200-sxm-141gb",
    "h200-sxm-141gb": "h100-sxm-80gb",
    "b200-sxm-180gb": "b300-sxm-288gb",
    "b300-sxm-288gb": "b200-sxm-180gb",
    "mi300x-192gb": "h200-sxm-141gb",
    "mi325x-256gb": "h200-sxm-141gb",
}
"""Device -> another device whose kernel constants replace its own, to measure the error of this
replacement.
"""


def name_of(key: Hashable) -> str:
    """The key of a fold as text."""
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return str(key)


def is_own(row: DecodeRow) -> bool:
    """Whether the engine has kernel constants for the row's device, or for a device of the same vendor and
    architecture.
    """
    gpu = load_gpu(row.hardware)
    kernels = calibration_of(gpu, row.engine).gpu or ""
    of_maker = load_gpu(kernels).vendor == gpu.vendor
    return of_maker and architecture_of(kernels) == architecture_of(row.hardware)


def rows_of(relation: Relation) -> DecodeRows:
    """The rows that measure the error of a relation of a question to the fitted rows (see `STEP_FOLDS`).

    For "maker", they are the rows of devices that use the kernel constants of another vendor or architecture.
    For all other relations, they are the remaining rows.
    """
    rows = [row for row in engine_decode() if is_own(row) == (relation != "maker")]
    return DecodeRows(rows, DECODING, STAND_INS if relation in ("maker", "transferred") else None)


def refits(
    rows: FittedRows[Row], key: Callable[[Row], Hashable], whole: Values, slopes: Array
) -> dict[str, dict[str, float]]:
    """Name of a fold -> the constants that were fitted without its rows.

    - key: a function that returns the fold of a row.
    - whole, slopes: the constants and slopes of the fit to all rows, from which each fit starts.
    """
    keys = np.array([name_of(key(row)) for row in rows.rows])
    fits = {}
    for name in dict.fromkeys(keys.tolist()):
        estimate = rows.fit(whole, FOLD_ROUNDS, keys != name, slopes).estimate
        fits[name] = estimate.values
    return fits


def replay(rows: FittedRows[Row], key: Callable[[Row], Hashable], folds: Mapping[str, Values]) -> Array:
    """The log error of each row, predicted with constants that were fitted without its fold.

    - key: a function that returns the fold of a row.
    - folds: name of a fold -> the constants that were fitted without it.
    """
    keys = np.array([name_of(key(row)) for row in rows.rows])
    errors = np.full(len(keys), np.nan)
    for name in dict.fromkeys(keys.tolist()):
        fold = keys == name
        errors[fold] = rows.off(folds[name])[fold]
    return errors
