"""Writes the text of ``hardware/fitted/engines.yaml``: the fitted constants with their errors and sources."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from perfmodel.specs import VERSION_SEPARATOR, Engines, Quantity, Relation, Scatter, files
from perfmodel.specs.engines.engines import FILE, FOLDER
from perfmodel.validate.solving import Estimate, significant
from perfmodel.validate.studies.default_flags import DEFAULT_FLAGS
from perfmodel.validate.studies.fitted_constants import GRAPH_TOKENS
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.parameters import ENGINES, PlacedConstant
from perfmodel.validate.studies.public_parameters import PUBLIC

HEADER = """\
# Written by `perfmodel validate calibrate engines --write` from results/published/engine_decode.csv,
# engine_speculation.csv, served.csv and step_laws.csv. Put onto the kernels of <gpu>.<engine>.yaml when they
# are read.
"""
PATH = files.data_directory(FOLDER) / FILE
FITTED_ON = ("engine_decode.csv", "engine_speculation.csv", "served.csv", "step_laws.csv")
"""The published tables to whose rows the constants are fitted."""
Stated = dict[str, dict[Relation, dict[Quantity, Scatter]]]
"""Engine -> relation of a question to the fitted rows -> quantity -> its stated error."""


def render(
    decoding: Estimate,
    iteration: Estimate,
    errors: Stated,
    shared: Mapping[str, Scatter],
    fitted: Mapping[str, Mapping[str, Any]],
    rows: tuple[int, int],
    date: datetime.date,
) -> str:
    """The content of ``hardware/fitted/engines.yaml``.

    - decoding, iteration: the fits of steps and of iterations.
    - errors: the errors of the predictions of each engine.
    - shared: key of the file -> an error that does not belong to one engine.
    - fitted: engine -> its other keys in the file (`specs.engines.Engine`).
    - rows: the numbers of steps and of iterations.
    - date: the date of the fit.
    """
    data: dict[str, Any] = {
        "fitted_on": list(FITTED_ON),
        "date": date,
        "graph_tokens": list(GRAPH_TOKENS),
        **{name: _mapping(scatter) for name, scatter in shared.items()},
        "constants": {},
        "architectures": {},
        "engines": {},
    }
    for word in ENGINES:
        of_engine: dict[str, Any] = {"constants": {}, "architectures": {}, "drifts": {}}
        of_engine |= fitted[word]
        of_engine["errors"] = _errors(errors[word])
        data["engines"][word] = of_engine
    _insert_all(data, DECODING, decoding, f"fitted to {rows[0]} steps of engine_decode.csv")
    _insert_all(data, SPECULATING, iteration, f"fitted to {rows[1]} ratios of iterations")
    for parameter in (*PUBLIC, *DEFAULT_FLAGS):
        _insert(data, parameter, parameter.expected, parameter.spread, parameter.source)
    data["fit"] = _fit(iteration)
    Engines.of_mapping(data)
    return HEADER + yaml.safe_dump(data, sort_keys=False, width=120, default_flow_style=None)


def _fit(iteration: Estimate) -> dict[str, Any]:
    """The part of the file with the correlation matrix of the constants of iterations, up to its diagonal.
    Factors of versions are not part of this matrix.
    """
    constant = [i for i, p in enumerate(SPECULATING) if VERSION_SEPARATOR not in p.place]
    covariance = iteration.covariance[np.ix_(constant, constant)]
    variances = np.diag(covariance)
    shape = np.sqrt(np.outer(variances, variances))
    correlation = []
    for i, row in enumerate(covariance / shape):
        below_diagonal = [round(float(v), 3) for v in row[:i]]
        correlation.append([*below_diagonal, 1])
    return {"parameters": [SPECULATING[i].place for i in constant], "correlation": correlation}


def _errors(errors: Mapping[Relation, Mapping[Quantity, Scatter]]) -> dict[str, Any]:
    """The errors of an engine, by relation and quantity."""
    by_relation: dict[str, Any] = {}
    for relation, by_quantity in errors.items():
        by_relation[relation] = {quantity: _mapping(scatter) for quantity, scatter in by_quantity.items()}
    return by_relation


def _insert_all(
    data: dict[str, Any], parameters: Sequence[PlacedConstant], estimate: Estimate, source: str
) -> None:
    deviations = np.sqrt(np.diag(estimate.covariance)).tolist()
    for parameter, deviation in zip(parameters, deviations, strict=True):
        _insert(data, parameter, estimate.values[parameter.place], deviation, source)


def _insert(
    data: dict[str, Any], parameter: PlacedConstant, value: float, deviation: float, source: str
) -> None:
    stated: dict[str, Any] = {
        "value": significant(value, 4),
        "stderr": significant(value * deviation, 4),
    }
    if parameter.times:
        stated["times"] = True
    stated["source"] = source
    _section(data, parameter.scope)[parameter.name] = stated


def _section(data: dict[str, Any], scope: str) -> dict[str, Any]:
    """The mapping of the file that has the constants of a scope. It is added if it does not exist."""
    constants: dict[str, Any]
    engine, _, architecture = scope.partition(".")
    word, _, since = scope.partition(VERSION_SEPARATOR)
    if scope == "all":
        constants = data["constants"]
    elif since:
        constants = data["engines"][word]["drifts"].setdefault(since, {})
    elif engine not in ENGINES:
        constants = data["architectures"].setdefault(engine, {})
    elif architecture:
        constants = data["engines"][engine]["architectures"].setdefault(architecture, {})
    else:
        constants = data["engines"][engine]["constants"]
    return constants


def _mapping(scatter: Scatter) -> dict[str, Any]:
    return scatter.as_mapping(exclude_none=True)
