"""The calibration that answers a question: that of an engine on the device, or on the nearest device."""

import math
import re
from functools import cache
from typing import Any

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.parse import parse_text
from perfmodel.specs.boundary.files import bundled_names, looks_like_path, spelling
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.calibrations.constants import Constant
from perfmodel.specs.calibrations.loading import load_bundled, load_calibration
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.devices.loading import load_gpu
from perfmodel.specs.engines.engines import BUILD, DRIFT, borrowed_scopes, engines, release
from perfmodel.specs.engines.serving import (
    ResearchStack,
    lender_of,
    programs,
    serving_engines,
    stack_files,
    stack_titles,
)

ENGINES = stack_titles()
"""Word of `--engine` -> its title."""
DEFAULT_ENGINE = "vllm"
"""The engine of a question that names none."""
LLAMACPP = "llamacpp"
"""The engine for GGUF files, and for devices of the vendors in `LLAMACPP_VENDORS`."""
MLX = "mlx"
"""The engine for weights in MLX's words on devices of `LLAMACPP_VENDORS`."""
LLAMACPP_VENDORS = ("Apple",)
"""Vendors whose devices `DEFAULT_ENGINE` does not support."""


def parse_engine(given: Any, flag: str = "--engine") -> str:
    """Reads ``vllm``, or with the version of a serving engine ``vllm@0.20.1``, ``llamacpp@b10451``. An
    engine's title, and the name of a program that runs it, are read as its word. Raises InputError.
    """
    text = parse_text(given, flag)
    named, at, version = text.partition(DRIFT)
    titles = {title.casefold(): word for word, title in ENGINES.items()}
    word = titles.get(named.casefold(), named)
    if word not in ENGINES:
        word = programs().get(spelling(named), word)
    if word not in ENGINES:
        from perfmodel.specs.boundary.unlisted import (  # only a refusal needs it
            refuse_unlisted,
            unlisted_names,
        )

        refuse_unlisted(flag, named, unlisted_names().engines)
        raise unknown_name(flag, "engine", named, ENGINES)
    text = f"{word}{at}{version}"
    served = serving_engines().get(word)
    if served is not None and served.numbers_builds:
        if at and not BUILD.fullmatch(version):
            raise refuse(flag, None, f"{word}, or a build of it, {word}{DRIFT}bNNNN", text)
    elif at and (served is None or not release(version)):
        fitted = "; ".join(f"{name}: {', '.join(e.versions)}" for name, e in engines().engines.items())
        raise refuse(flag, None, f"ENGINE{DRIFT}VERSION of a serving engine (fitted: {fitted})", text)
    return text


@cache
def devices_of(engine: str, version: str = "") -> dict[str, str]:
    """Device -> name of its bundled calibration of an engine. The files are called ``<device>.<engine>``,
    unless its file names another word. version: empty for the newest.
    """
    stack = stack_files()[engine]
    word = stack.calibrations if isinstance(stack, ResearchStack) else stack.calibration_word(version)
    ending = f".{word or engine}"
    return {
        name.removesuffix(ending): name for name in bundled_names("calibrations") if name.endswith(ending)
    }


def usual_engine(gpu: GPUSpec, gguf: bool, mlx: bool) -> str:
    """The engine of a question that names none. gguf, mlx: see `calibration_of`."""
    if mlx and gpu.vendor in LLAMACPP_VENDORS:
        return MLX
    alone = gguf or gpu.vendor in LLAMACPP_VENDORS or bool(gpu.in_turn)
    return LLAMACPP if alone else DEFAULT_ENGINE


def calibration_of(
    gpu: GPUSpec,
    engine: str | None = None,
    calibration: str | None = None,
    gguf: bool = False,
    mlx: bool = False,
) -> Calibration:
    """The calibration of a question: the named one, or that of an engine on the device.

    Without `calibration` and `engine` it is the one that a CPU's device file names, or that a device file
    names by path; otherwise that of `DEFAULT_ENGINE`. gguf: whether the weights are a GGUF file, which only
    `LLAMACPP` runs, as only it runs different devices in turn. mlx: whether the weights are a checkpoint of
    MLX. If an engine has no calibration of the device, that of the nearest device is transferred: of the same
    architecture or maker if there is one, then by memory bandwidth (of a file with the name of a bundled
    device, by that device's bandwidth). Raises InputError for an unknown engine, one without a calibration of
    such a device, or one that differs from the calibration's.
    """
    if calibration is not None:
        if engine is None:
            calibrated = load_calibration(calibration)
        else:
            word, _, version = parse_engine(engine).partition(DRIFT)
            calibrated = load_calibration(calibration, version=version or None)
            if word != engine_of(calibrated):
                raise refuse("--engine", None, f"left out with --calibration {calibrated.name}", engine)
        return calibrated if looks_like_path(calibration) else on_board(calibrated, gpu)
    if engine is None and (gpu.kind == "cpu" or looks_like_path(gpu.calibration)):
        return load_calibration(gpu.calibration)
    engine, _, version = parse_engine(engine or usual_engine(gpu, gguf, mlx)).partition(DRIFT)
    kernels = devices_of(engine, version) or devices_of(lender_of(engine) or engine)
    if gpu.name in kernels:
        return on_board(load_bundled(kernels[gpu.name], version or None, engine), gpu)
    known = [name for name in kernels if _same_kind(gpu, load_gpu(name))]
    if not known:
        usable = ", ".join(
            e for e in ENGINES if any(_same_kind(gpu, load_gpu(name)) for name in devices_of(e))
        )
        raise InputError(
            "--engine: must be an engine with a calibration of such a device "
            f"({usable or 'none; give --calibration'}), given {engine} for {gpu.name}"
        )
    # other figures of a bundled device do not change its kernels
    bundled = load_gpu(gpu.name) if gpu.name in bundled_names("gpus") else gpu
    nearest = min(known, key=lambda name: _distance(bundled, load_gpu(name)))
    return on_board(load_bundled(kernels[nearest], version or None, engine), gpu)


def load_device(name: str) -> GPUSpec:
    """A device by name, alias or path of a YAML file; `calibration` is the one that a question uses without
    an engine and a calibration. Raises InputError for an unknown name.
    """
    gpu = load_gpu(name)
    if looks_like_path(gpu.calibration):
        return gpu
    return gpu.replace(calibration=calibration_of(gpu).name)


def on_board(c: Calibration, gpu: GPUSpec) -> Calibration:
    """A calibration of a serving engine with the known corrections for a board or for another
    architecture.
    """
    source = engines()
    lender = c.constants_of or c.stack
    if lender not in source.engines or c.gpu is None:
        return c
    version = source.engines[lender].versions[-1] if c.constants_of else c.version
    update: dict[str, Constant] = {}
    for layer in source.of_device(lender, version, borrowed_scopes(gpu, c.gpu), gpu.name):
        for name, s in layer.items():
            update[name] = s.on(update.get(name, getattr(c, name)))
    return c.replace(**update) if update else c


def engine_of(calibration: Calibration) -> str | None:
    """Word of the engine of a calibration, whose stack starts with its word or its title
    (``llama.cpp-b10624``); None if it is of no engine (literature, ideal).
    """
    first = re.split("[- ]", calibration.stack)[0]
    by_title = {title.lower(): word for word, title in ENGINES.items()}
    if calibration.stack in ENGINES:
        return calibration.stack
    return first if first in ENGINES else by_title.get(first)


def _same_kind(one: GPUSpec, other: GPUSpec) -> bool:
    return (one.kind == "cpu") == (other.kind == "cpu")


def _distance(one: GPUSpec, other: GPUSpec) -> tuple[bool, bool, float]:
    apart = math.log(one.memory_bandwidth_bytes_per_s / other.memory_bandwidth_bytes_per_s)
    unlike = one.architecture.split()[0] != other.architecture.split()[0]
    return unlike, one.vendor != other.vendor, abs(apart)
