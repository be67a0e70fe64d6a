"""``pm.models()``, ``pm.gpus()`` and ``pm.engines()``: the tables of ``list`` as DataFrames."""

from importlib import import_module
from typing import TYPE_CHECKING

from perfmodel.errors import library

if TYPE_CHECKING:
    from pandas import DataFrame


def models() -> "DataFrame":
    """The bundled models, one per row: numbers of parameters, layers and heads, KV bytes per token, weight
    format, and longest context in tokens.

    Raises InputError if pandas is not installed.
    """
    return _frame("models")


def gpus() -> "DataFrame":
    """The bundled devices, one per row: memory, bandwidth, peaks without sparsity and link bandwidth in SI
    units, and the default calibration.

    Raises InputError if pandas is not installed.
    """
    return _frame("gpus")


def engines() -> "DataFrame":
    """The engines, one per row: the measured versions, the number of devices with a calibration, and the
    devices with measured steps and with measured iterations.

    Raises InputError if pandas is not installed.
    """
    return _frame("engines")


def _frame(verb: str) -> "DataFrame":
    return library("pandas", f"pm.{verb}()").DataFrame(
        import_module(f"perfmodel.cli.{verb}").CATALOGUE.rows()
    )
