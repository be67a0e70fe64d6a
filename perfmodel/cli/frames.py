"""``pm.models()``, ``pm.gpus()`` and ``pm.engines()``: the tables of ``list`` as DataFrames."""

from typing import TYPE_CHECKING

from perfmodel.answers.grid.sweep import library
from perfmodel.cli.catalogue import Catalogue

if TYPE_CHECKING:
    from pandas import DataFrame


def models() -> "DataFrame":
    """The bundled models, one per row: parameters, layers, heads, KV bytes per token, weights and longest
    context.

    Raises InputError if pandas is not installed.
    """
    from perfmodel.cli.models import CATALOGUE

    return _frame(CATALOGUE)


def gpus() -> "DataFrame":
    """The bundled devices, one per row: memory, bandwidth, dense peaks and link in SI units, and the default
    calibration.

    Raises InputError if pandas is not installed.
    """
    from perfmodel.cli.gpus import CATALOGUE

    return _frame(CATALOGUE)


def engines() -> "DataFrame":
    """The engines, one per row: measured versions, devices with a calibration, and devices with measured
    steps and iterations.

    Raises InputError if pandas is not installed.
    """
    from perfmodel.cli.engines import CATALOGUE

    return _frame(CATALOGUE)


def _frame(catalogue: Catalogue) -> "DataFrame":
    return library("pandas", f"pm.{catalogue.verb}()").DataFrame(catalogue.rows())
