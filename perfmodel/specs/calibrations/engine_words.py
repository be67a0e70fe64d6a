"""The values of ``--engine``: their allowed spellings, the default, and the value that belongs to a
calibration. Each value is the *word* of an engine.
"""

import re
from typing import Any

from perfmodel.errors import refuse, unknown_name
from perfmodel.parse import parse_text
from perfmodel.specs.boundary.files import spelling
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import BUILD, VERSION_SEPARATOR, engines, release
from perfmodel.specs.engines.serving import ServingEngine
from perfmodel.specs.engines.stacks import programs, serving_engines, stack_titles

ENGINES = stack_titles()
"""The title of each engine, by its word in `--engine`."""
DEFAULT_ENGINE = "vllm"
"""The engine for a question that names no engine."""
LLAMACPP = "llamacpp"
"""The engine for GGUF files, and for devices of the vendors in `LLAMACPP_VENDORS`."""
MLX = "mlx"
"""The engine for weights in MLX's formats on devices of `LLAMACPP_VENDORS`."""
LLAMACPP_VENDORS = ("Apple",)
"""Vendors whose devices `DEFAULT_ENGINE` does not support."""


def parse_engine(given: Any, flag: str = "--engine") -> str:
    """Reads a value of ``--engine``: ``vllm``, or with the version of a serving engine ``vllm@0.20.1`` or
    ``llamacpp@b10451``. The title of an engine, or the name of a program that runs it, may be used instead of
    its word. Raises InputError for an unknown engine or version.
    """
    named, at, version = parse_text(given, flag).partition(VERSION_SEPARATOR)
    word = _word(named, flag)
    if at:
        _check_version(word, version, flag)
    return f"{word}{at}{version}"


def _word(named: str, flag: str) -> str:
    """The word of a title or of a program. Raises InputError for an unknown one."""
    titles = {title.casefold(): word for word, title in ENGINES.items()}
    word = titles.get(named.casefold(), named)
    if word in ENGINES:
        return word
    if spelling(named) in programs():
        return programs()[spelling(named)]
    from perfmodel.specs.boundary.unlisted import (  # imported late, for refusals only
        refuse_unlisted,
        unlisted_names,
    )

    refuse_unlisted(flag, named, unlisted_names().engines)
    raise unknown_name(flag, "engine", named, ENGINES)


def _check_version(word: str, version: str, flag: str) -> None:
    """Raises InputError for a version that this engine cannot have."""
    served = serving_engines().get(word)
    text = f"{word}{VERSION_SEPARATOR}{version}"
    if served is not None and served.numbers_builds:
        if not BUILD.fullmatch(version):
            raise refuse(flag, None, f"{word}, or a build of it, {word}{VERSION_SEPARATOR}bNNNN", text)
    elif served is None or not release(version):
        fitted = "; ".join(f"{name}: {', '.join(e.versions)}" for name, e in engines().engines.items())
        raise refuse(
            flag, None, f"ENGINE{VERSION_SEPARATOR}VERSION of a serving engine (fitted: {fitted})", text
        )


def usual_engine(gpu: GPUSpec, gguf: bool, mlx: bool) -> str:
    """The engine for a question that names no engine.

    - gguf, mlx: see `calibration_of`.
    """
    if mlx and gpu.vendor in LLAMACPP_VENDORS:
        return MLX
    alone = gguf or gpu.vendor in LLAMACPP_VENDORS or bool(gpu.in_turn)
    return LLAMACPP if alone else DEFAULT_ENGINE


def engine_of(calibration: Calibration) -> str | None:
    """The word of the engine to which a calibration belongs. The result is None if it belongs to no engine,
    as for literature and ideal calibrations. The stack of a calibration starts with the word or the title of
    its engine (``llama.cpp-b10624``).
    """
    first = re.split("[- ]", calibration.stack)[0]
    by_title = {title.lower(): word for word, title in ENGINES.items()}
    if calibration.stack in ENGINES:
        return calibration.stack
    return first if first in ENGINES else by_title.get(first)


def serving_engine_of(calibration: Calibration) -> ServingEngine | None:
    """The facts about the serving engine of a calibration. The result is None if the calibration belongs to a
    research stack or to no engine.
    """
    return serving_engines().get(engine_of(calibration) or "")
