"""Finds the calibration for a question. The calibration belongs to an engine on the device, or on the most
similar device.
"""

import math
from functools import cache
from typing import NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.specs.boundary.files import bundled_names, looks_like_path
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.calibrations.constants import Constant
from perfmodel.specs.calibrations.engine_words import ENGINES, engine_of, parse_engine, usual_engine
from perfmodel.specs.calibrations.loading import load_bundled, load_calibration
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.devices.loading import load_gpu
from perfmodel.specs.engines.engines import VERSION_SEPARATOR, borrowed_scopes, engines
from perfmodel.specs.engines.serving import ResearchStack
from perfmodel.specs.engines.stacks import lender_of, stack_files


@cache
def devices_of(engine: str, version: str = "") -> dict[str, str]:
    """The names of the bundled calibrations of an engine, by device. The files are called
    ``<device>.<engine>``, unless the engine's file names another word instead of the engine.

    - version: version of the engine. Empty means the newest version.
    """
    stack = stack_files()[engine]
    word = stack.calibrations if isinstance(stack, ResearchStack) else stack.calibration_word(version)
    ending = f".{word or engine}"
    return {
        name.removesuffix(ending): name for name in bundled_names("calibrations") if name.endswith(ending)
    }


def calibration_of(
    gpu: GPUSpec,
    engine: str | None = None,
    calibration: str | None = None,
    gguf: bool = False,
    mlx: bool = False,
) -> Calibration:
    """The calibration for a question. It is the named calibration, or the calibration of an engine on the
    device.

    If neither `calibration` nor `engine` is given, a CPU gets the calibration that its device file names. Any
    other device gets the calibration whose path its device file gives. If the file gives no path, the device
    gets the calibration of the engine that `usual_engine` returns.

    - gguf: whether the weights are a GGUF file, which only `LLAMACPP` runs.
    - mlx: whether the weights are an MLX checkpoint.

    Raises InputError in three cases: the engine is unknown, it has no calibration for this kind of device, or
    the named calibration belongs to another engine.
    """
    if calibration is not None:
        return _named(calibration, engine, gpu)
    if engine is None and (gpu.kind == "cpu" or looks_like_path(gpu.calibration)):
        return load_calibration(gpu.calibration)
    return _of_engine(parse_engine(engine or usual_engine(gpu, gguf, mlx)), gpu)


def _named(calibration: str, engine: str | None, gpu: GPUSpec) -> Calibration:
    """The calibration that a question names. Raises InputError for another engine than the calibration's."""
    if engine is None:
        calibrated = load_calibration(calibration)
    else:
        word, _, version = parse_engine(engine).partition(VERSION_SEPARATOR)
        calibrated = load_calibration(calibration, version=version or None)
        if word != engine_of(calibrated):
            raise refuse("--engine", None, f"left out with --calibration {calibrated.name}", engine)
    return calibrated if looks_like_path(calibration) else on_board(calibrated, gpu)


def _of_engine(engine: str, gpu: GPUSpec) -> Calibration:
    """The calibration of an engine (``WORD`` or ``WORD@VERSION``) on a device. If the engine has none for
    this device, the calibration of the nearest device is used. Raises InputError if the engine has none for
    this kind of device.
    """
    word, _, version = engine.partition(VERSION_SEPARATOR)
    names = devices_of(word, version) or devices_of(lender_of(word) or word)
    calibrated = gpu.name if gpu.name in names else _nearest(gpu, [*names])
    if calibrated is None:
        usable = [e for e in ENGINES if any(_same_kind(gpu, load_gpu(name)) for name in devices_of(e))]
        raise InputError(
            "--engine: must be an engine with a calibration of such a device "
            f"({', '.join(usable) or 'none; give --calibration'}), given {word} for {gpu.name}"
        )
    return on_board(load_bundled(names[calibrated], version or None, word), gpu)


def _nearest(gpu: GPUSpec, names: list[str]) -> str | None:
    """The device of the same kind at the smallest `Distance`. The result is None if there is none. A file
    with the name of a bundled device has that device's distances, because other figures do not change its
    kernels.
    """
    alike = [name for name in names if _same_kind(gpu, load_gpu(name))]
    bundled = load_gpu(gpu.name) if gpu.name in bundled_names("gpus") else gpu
    return min(alike, key=lambda name: distance(bundled, load_gpu(name)), default=None)


def _same_kind(one: GPUSpec, other: GPUSpec) -> bool:
    """Whether both or neither are CPUs."""
    return (one.kind == "cpu") == (other.kind == "cpu")


class Distance(NamedTuple):
    """A measure of how different the kernels of two devices are. Distances are compared field by field, in
    order.

    - bandwidth: absolute value of ln(ratio of the memory bandwidths).
    """

    other_architecture: bool
    other_vendor: bool
    bandwidth: float


def distance(one: GPUSpec, other: GPUSpec) -> Distance:
    """The distance between two devices. Two architectures are the same if their first words are the same."""
    return Distance(
        other_architecture=one.architecture.split()[0] != other.architecture.split()[0],
        other_vendor=one.vendor != other.vendor,
        bandwidth=abs(math.log(one.memory_bandwidth_bytes_per_s / other.memory_bandwidth_bytes_per_s)),
    )


def load_device(name: str) -> GPUSpec:
    """Loads a device by its name, its alias or the path of its YAML file. The field `calibration` of the
    device is the calibration for questions that name neither an engine nor a calibration. Raises InputError
    for an unknown name.
    """
    gpu = load_gpu(name)
    if looks_like_path(gpu.calibration):
        return gpu
    return gpu.replace(calibration=calibration_of(gpu).name)


def on_board(calibration: Calibration, gpu: GPUSpec) -> Calibration:
    """The calibration with the known corrections for a board or for another architecture. Only calibrations
    of serving engines are corrected.
    """
    source = engines()
    lender = calibration.constants_of or calibration.stack
    if lender not in source.engines or calibration.gpu is None:
        return calibration
    version = source.engines[lender].versions[-1] if calibration.constants_of else calibration.version
    corrected: dict[str, Constant] = {}
    for layer in source.of_device(lender, version, borrowed_scopes(gpu, calibration.gpu), gpu.name):
        for name, correction in layer.items():
            corrected[name] = correction.on(corrected.get(name, getattr(calibration, name)))
    return calibration.replace(**corrected) if corrected else calibration
