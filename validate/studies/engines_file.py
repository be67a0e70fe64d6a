"""The text of ``hardware/engines.yaml``: fitted constants by place, with errors and sources."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from perfmodel.specs import files
from perfmodel.specs.engines import FILE, Engines
from perfmodel.specs.fits import Quantity, Relation, Scatter
from perfmodel.validate.solving import significant, yaml_number
from perfmodel.validate.studies.parameters import DECODING, ENGINES, SPECULATING, Parameter
from perfmodel.validate.studies.robust import Found
from perfmodel.validate.studies.steps import GRAPH_TOKENS

HEADER = """\
# Written by `perfmodel validate calibrate engines --write` from results/published/engine_decode.csv,
# engine_speculation.csv, served.csv and step_laws.csv. Put onto the kernels of <gpu>.<engine>.yaml when they are read.
"""
FITTED_ON = ("engine_decode.csv", "engine_speculation.csv", "served.csv", "step_laws.csv")
Stated = dict[str, dict[Relation, dict[Quantity, Scatter]]]


def path() -> Path:
    """Where the file is."""
    return files.data_directory("") / FILE


def render(
    decoding: Found,
    iteration: Found,
    errors: Stated,
    acceptance: Scatter,
    measured: Mapping[str, Mapping[str, Sequence[str]]],
    speculating: Mapping[str, Mapping[str, Sequence[str]]],
    rows: tuple[int, int],
    date: datetime.date,
) -> str:
    """The file. measured, speculating: engine -> device -> models. rows: of steps, and of iterations."""
    steps, ratios = f"fitted to {rows[0]} steps of engine_decode.csv", f"fitted to {rows[1]} ratios of iterations"
    data: dict[str, Any] = {
        "fitted_on": list(FITTED_ON),
        "date": date,
        "graph_tokens": list(GRAPH_TOKENS),
        "acceptance": _mapping(acceptance),
        "constants": {},
        "architectures": {},
        "engines": {
            word: {
                "title": title,
                "versions": versions_of(word),
                "constants": {},
                "architectures": {},
                "measured": {gpu: list(models) for gpu, models in measured.get(word, {}).items()},
                "speculating": {gpu: list(models) for gpu, models in speculating.get(word, {}).items()},
                "errors": {
                    relation: {quantity: _mapping(scatter) for quantity, scatter in of.items()}
                    for relation, of in errors[word].items()
                },
            }
            for word, title in ENGINES.items()
        },
    }
    for found, parameters, source in ((decoding, DECODING, steps), (iteration, SPECULATING, ratios)):
        for parameter, deviation in zip(parameters, np.sqrt(np.diag(found.covariance)).tolist(), strict=True):
            _put(data, parameter, found.values[parameter.place], deviation, source)
    shape = np.sqrt(np.outer(np.diag(iteration.covariance), np.diag(iteration.covariance)))
    correlation = iteration.covariance / shape
    data["fit"] = {
        "parameters": [p.place for p in SPECULATING],
        "correlation": [[*(round(float(v), 3) for v in row[:i]), 1] for i, row in enumerate(correlation)],
    }
    Engines.model_validate(data)
    return HEADER + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, default_flow_style=None)


def _put(data: dict[str, Any], parameter: Parameter, value: float, deviation: float, source: str) -> None:
    scope, _, name = parameter.place.rpartition(".")
    engine, _, architecture = scope.partition(".")
    if scope == "all":
        place = data["constants"]
    elif engine not in ENGINES:
        place = data["architectures"].setdefault(engine, {})
    else:
        place = data["engines"][engine]
        place = place["architectures"].setdefault(architecture, {}) if architecture else place["constants"]
    stated: dict[str, Any] = {"value": significant(value, 4), "stderr": significant(value * deviation, 4)}
    if parameter.times:
        stated["times"] = True
    place[name] = stated | {"source": source}


def versions_of(engine: str) -> str:
    """Versions of the rows of an engine, as their sources have them."""
    from perfmodel.validate.studies.held_out import own_rows

    return ", ".join(sorted({row.engine_version for row in own_rows() if row.engine == engine}))


def _mapping(scatter: Scatter) -> dict[str, Any]:
    return scatter.model_dump(exclude_none=True)


class _Dumper(yaml.SafeDumper):
    """Numbers that YAML 1.1 reads as numbers."""


def _float(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    text = yaml_number(value, 6)
    return dumper.represent_scalar("tag:yaml.org,2002:float", text if "." in text else f"{text}.0")


_Dumper.add_representer(float, _float)
