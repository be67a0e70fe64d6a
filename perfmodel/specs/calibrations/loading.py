"""Reads calibrations from files, and adds the constants of their engines."""

import math
from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.errors import about_file
from perfmodel.parse import parse_text
from perfmodel.specs.boundary import files
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.calibrations.constants import AllReduce, Constant
from perfmodel.specs.engines.engines import Stated, architecture_of, engines, part_of
from perfmodel.specs.engines.stacks import lender_of, serving_engines

OF_ENGINE = ("errors", "versions", "drafts", "longest_tokens", "widest_tokens")
"""Fields of a calibration that are those of `FittedEngine`."""
OF_ALL_ENGINES = ("fitted_on", "graph_tokens", "unseen_draft", "unseen_context", "unseen_width")
"""Fields of a calibration that are those of `Engines`."""
OVER_HOST = "l40s-48gb.literature"
"""The calibration whose all-reduce times over PCIe are used for devices without such times."""


def with_engine(kernels: Calibration, version: str | None = None) -> Calibration:
    """Adds the constants of the engine to a calibration of kind ``kernels``. If the engine borrows constants
    from another engine, the constants of that engine are added. Calibrations of other kinds are returned
    unchanged.

    - version: version of the engine. By default, it is the newest fitted version. An engine that borrows
      constants gets those of the other engine's newest version.

    Raises InputError for a serving engine that neither has nor borrows constants.
    """
    if kernels.kind != "kernels" or kernels.gpu is None:
        return kernels
    lender = lender_of(kernels.stack)
    if lender is None:
        return kernels
    newest_fitted = engines().engines[lender].versions[-1]
    if lender == kernels.stack:
        return _with_own_constants(kernels, kernels.gpu, version or newest_fitted)
    return _with_constants_of(kernels, kernels.gpu, lender, newest_fitted).replace(
        constants_of=lender, version=version or serving_engines()[kernels.stack].newest
    )


def _with_own_constants(kernels: Calibration, gpu: str, version: str) -> Calibration:
    """Adds the constants of the engine itself, and the models that were measured with it on the device."""
    engine = engines().engines[kernels.stack]
    measured = engine.measured.get(gpu, ())
    return _with_constants_of(kernels, gpu, kernels.stack, version).replace(
        kind="fitted" if measured else "kernels",
        version=version,
        measured_models=measured,
        speculating_models=engine.speculating.get(gpu, ()),
    )


def _with_constants_of(kernels: Calibration, gpu: str, engine: str, version: str) -> Calibration:
    """Adds the constants that a version of an engine has on the architecture of a device, with their errors.

    - gpu: the device of the kernels.
    """
    source = engines()
    architecture = architecture_of(gpu)
    chosen = source.chosen(engine, architecture)
    places = source.places()
    constants: dict[str, Any] = {name: places[at].on(getattr(kernels, name)) for name, at in chosen.items()}
    drifts = (source.drifted(engine, version), source.drifted(engine, version, architecture))
    for drift in drifts:
        for name, factor in drift.items():
            constants[name] = _multiplied(constants.get(name, getattr(kernels, name)), factor)
    return kernels.replace(
        fit=part_of(source.fit, chosen),
        **constants,
        **{name: getattr(source.engines[engine], name) for name in OF_ENGINE},
        **{name: getattr(source, name) for name in OF_ALL_ENGINES},
    )


def _multiplied(constant: Constant, factor: Stated) -> Constant:
    """A constant times a factor. Their standard errors are independent. The source is that of the factor."""
    of_constant = (constant.stderr or 0.0) * factor.value
    of_factor = constant.value * factor.stderr
    error = math.hypot(of_constant, of_factor)
    return Constant(value=constant.value * factor.value, stderr=error, source=factor.source)


@cache
def read_kernels(name: str) -> Calibration:
    """Reads a bundled calibration by its exact name, without the constants of its engine."""
    return files.load_bundled(Calibration, "calibrations", name)


@cache
def over_host() -> AllReduce:
    """The table of all-reduce times over PCIe for devices without such a table (`OVER_HOST`)."""
    table = read_kernels(OVER_HOST).allreduce
    assert table is not None
    return table


@cache
def load_bundled(name: str, version: str | None = None, engine: str | None = None) -> Calibration:
    """Loads a bundled calibration by its exact name, with the constants of its engine.

    - version: version of the engine. By default, it is the newest fitted version.
    - engine: the serving engine that is predicted with these kernels. By default it is the engine of the
      file.
    """
    kernels = read_kernels(name)
    if engine is not None and kernels.kind == "kernels":
        kernels = kernels.replace(stack=engine)
    return with_engine(kernels, version)


def load_calibration(name: str, flag: str = "--calibration", version: str | None = None) -> Calibration:
    """Loads a calibration by its bundled name (``ideal``, ``a100-sxm-80gb.literature``, ...) or by path. For
    the path of a folder, the newest file in it is loaded.

    - version: version of the engine of a bundled calibration. By default, it is the newest fitted version.
    """
    name = parse_text(name, flag)
    if files.looks_like_path(name):
        path = files.newest(Path(name), "*-calibration.yaml")
        with about_file(path):
            return with_engine(files.parse(Calibration, files.read_mapping(path), str(path)))
    return load_bundled(files.bundled_name("calibrations", "calibration", name, flag), version)
