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
"""Fields of `FittedEngine` that a calibration takes over."""
OF_ALL_ENGINES = ("fitted_on", "graph_tokens", "unseen_draft", "unseen_context", "unseen_width")
"""Fields of `Engines` that it takes over."""


def with_engine(kernels: Calibration, version: str | None = None) -> Calibration:
    """Adds the constants of the engine to a calibration of kind ``kernels``. If the engine borrows constants
    from another engine, the constants of that engine are added. Calibrations of other kinds are returned
    unchanged.

    - version: version of the engine; by default the newest fitted version. An engine that borrows constants
      gets those of the other engine's newest version.

    Raises InputError for a serving engine that neither has nor borrows constants.
    """
    if kernels.kind != "kernels" or kernels.gpu is None:
        return kernels
    lender = lender_of(kernels.stack)
    if lender is None:
        return kernels
    source = engines()
    engine = source.engines[lender]
    borrows = lender != kernels.stack
    places = source.places()
    chosen = source.chosen(lender, architecture_of(kernels.gpu))
    constants: dict[str, Any] = {name: places[at].on(getattr(kernels, name)) for name, at in chosen.items()}
    newest = serving_engines()[kernels.stack].newest if borrows else engine.versions[-1]
    fitted_version = engine.versions[-1] if borrows else version or newest
    for drift in (
        source.drifted(lender, fitted_version),
        source.drifted(lender, fitted_version, architecture_of(kernels.gpu)),
    ):
        for name, factor in drift.items():
            constants[name] = _multiplied(constants.get(name, getattr(kernels, name)), factor)
    measured = () if borrows else engine.measured.get(kernels.gpu, ())
    speculating = () if borrows else engine.speculating.get(kernels.gpu, ())
    return kernels.replace(
        kind="fitted" if measured else "kernels",
        constants_of=lender if borrows else "",
        version=version or newest,
        measured_models=measured,
        speculating_models=speculating,
        fit=part_of(source.fit, chosen),
        **constants,
        **{name: getattr(engine, name) for name in OF_ENGINE},
        **{name: getattr(source, name) for name in OF_ALL_ENGINES},
    )


def _multiplied(constant: Constant, factor: Stated) -> Constant:
    """A constant times a factor, both with independent standard errors; its source is the factor's."""
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
    """The table of all-reduce times over PCIe for devices without one: the first by name of the calibrations,
    which is that of the L40S.
    """
    curves = (read_kernels(name).allreduce for name in files.bundled_names("calibrations"))
    return next(curve for curve in curves if curve is not None and curve.link == "host")


@cache
def load_bundled(name: str, version: str | None = None, engine: str | None = None) -> Calibration:
    """Loads a bundled calibration by its exact name, with the constants of its engine.

    - version: version of the engine; by default the newest fitted version.
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

    - version: version of the engine of a bundled calibration; by default the newest fitted version.
    """
    name = parse_text(name, flag)
    if files.looks_like_path(name):
        path = files.newest(Path(name), "*-calibration.yaml")
        with about_file(path):
            return with_engine(files.parse(Calibration, files.read_mapping(path), str(path)))
    return load_bundled(files.bundled_name("calibrations", "calibration", name, flag), version)
