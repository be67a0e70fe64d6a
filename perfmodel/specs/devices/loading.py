"""Finds a device by its bundled name, by an alias, or from a file. The name may also state another memory
size, another PCIe link or an NVLink bridge.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.parse import parse_text
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices.gpu import STATED_BY_QUESTION, GPUSpec, Link

NVLINK = re.compile(r"(?<=\S)(?::|[ (]+(?:with )?)nvlink(?: bridge)?\)?$", re.IGNORECASE)
"""The end of a device name that states its NVLink bridge."""
PCIE = {"3": 16.0, "4": 32.0, "5": 64.0, "6": 128.0}
"""Nominal GB/s of 16 lanes in one direction, by PCIe generation."""


def other_names(data: Mapping[str, Any]) -> list[str]:
    """The title and aliases of a bundled device from its file. Aliases are also listed with the vendor's name
    in front.
    """
    listed = data.get("aliases", ())
    return [data["title"], *listed, *[f"{data['vendor']} {alias}" for alias in (data["name"], *listed)]]


NAMING = ("name", "title", "vendor", "aliases")
"""Keys of a device file whose values are names of the device."""


@cache
def aliases() -> dict[str, str]:
    """A table from the spelling of an alias to the bundled device that has this alias."""
    return files.alias_table("gpus", NAMING, other_names)


@lru_cache(maxsize=256)
def _alias(key: str) -> str | None:
    """The bundled device with an alias, from the files that may contain it. The result is None if no file
    contains it.
    """
    return files.alias_table("gpus", NAMING, other_names, key.split("-")).get(key)


@cache
def load_bundled(name: str) -> GPUSpec:
    """Reads a bundled device by its exact name."""
    return files.load_bundled(GPUSpec, "gpus", name)


def load_gpu(name: str, flag: str = "--hardware") -> GPUSpec:
    """Loads a device by its bundled name, an alias or a path. The name that ``nvidia-smi`` prints is an
    alias. For the path of a folder, the newest file in it is loaded.

    ``l40s:pcie5`` means the device in a server with this PCIe generation. ``rtx-3090:nvlink`` means the
    device with its NVLink bridge, which most servers lack. ``m3-ultra:96gb`` means the device with this
    memory size. ``rtx-3090+rtx-4090`` means both devices, which run one after the other (`in_turn`). For an
    unknown name, raises InputError, which lists the most similar names.
    """
    text = re.sub("(?i) w/ ", " ", parse_text(name, flag))
    if "+" in text and files.spelling(text.strip()) not in aliases():
        from perfmodel.specs.devices.in_turn import (
            combined,
            parts_of,
        )  # imported late, for several devices only

        if parts := parts_of(text, load_gpu, flag):
            return combined(parts, flag)
    if bridge := NVLINK.search(text):
        board, pcie, generation = text[: bridge.start()].partition(":pcie")
        return _in_box(f"{board}:nvlink", generation, flag) if pcie else _with_nvlink(board, flag)
    board, _, pcie = text.partition(":pcie")
    if pcie:
        return _in_box(board, pcie, flag)
    sized = re.fullmatch(r"(.+):([1-9]\d{0,4})gb", board, re.IGNORECASE)
    if sized:
        return _with_memory(load_gpu(sized[1], flag), sized[2], f"{flag} {board}")
    if files.looks_like_path(board):
        return _of_file(board)
    bundled = _bundled_name(board, flag)
    return load_gpu(bundled, flag) if ":" in bundled else load_bundled(bundled)


def _with_nvlink(board: str, flag: str) -> GPUSpec:
    """A device with its NVLink. Raises InputError for a device without NVLink, or if the name already states
    the NVLink.
    """
    gpu = load_gpu(board, flag)
    if gpu.link is None or not gpu.link.name.startswith("NVLink"):
        raise refuse(flag, None, "a device with NVLink before :nvlink", f"{board}:nvlink")
    if gpu.link.presence == "stated":
        raise refuse(flag, None, "a device with :nvlink only once", f"{board}:nvlink")
    return gpu.replace(link=gpu.link.replace(presence="stated"))


def _in_box(board: str, generation: str, flag: str) -> GPUSpec:
    """A device in a server with a PCIe generation. The bridge between devices that some boards have, such as
    ``rtx-3090``, is left out unless ``:nvlink`` states it. Raises InputError for an unknown generation.
    """
    if generation not in PCIE:
        allowed = f"NAME:pcie followed by one of {', '.join(PCIE)}"
        raise refuse(flag, None, allowed, f"{board}:pcie{generation}")
    gpu = load_gpu(board, flag)
    has_bridge = gpu.link is not None and gpu.link.devices is not None and gpu.link.presence != "stated"
    source = f"PCIe {generation}.0 x16 nominal rate"
    nominal = Quantity(value=PCIE[generation], unit="GB/s", source=source)
    host_link = Link(name=f"PCIe {generation}.0 x16", per_direction=nominal)
    return gpu.replace(link=None if has_bridge else gpu.link, host_link=host_link)


def _with_memory(gpu: GPUSpec, size: str, given: str) -> GPUSpec:
    """The listed device with this memory size, such as ``m4-max:36gb``, which has fewer cores. If there is
    none, the result is the given device with this memory size.

    - size: size in the unit of the device's memory, GB or GiB.
    - given: the flag and its value, which become the source of the size.
    """
    sibling = re.sub(r"-\d+gb$", f"-{size}gb", gpu.name)
    if sibling in files.bundled_names("gpus"):
        return load_bundled(sibling)
    is_binary = gpu.memory is not None and gpu.memory.unit in ("GiB", "MiB")
    memory = Quantity(
        value=float(size),
        unit="GiB" if is_binary else "GB",
        source=f"{STATED_BY_QUESTION} {given}",
    )
    return gpu.replace(memory=memory, reported_memory=None)


def _of_file(name: str) -> GPUSpec:
    """The device of a file. If the file names a calibration by a path, the path is relative to the file."""
    path = files.newest(Path(name), "*-device.yaml")
    gpu = files.parse(GPUSpec, files.read_mapping(path), str(path))
    if files.looks_like_path(gpu.calibration):
        return gpu.replace(calibration=str(path.parent / gpu.calibration))
    return gpu


@lru_cache(maxsize=256)
def _bundled_name(name: str, flag: str) -> str:
    """The listed name of a device. The results are cached, because one question needs a name hundreds of
    times.
    """
    key = files.spelling(name)
    if key not in files.bundled_names("gpus") and (alias := _alias(key)) is not None:
        return alias
    try:
        return files.bundled_name("gpus", "device", name, flag, aliases)
    except InputError:
        from perfmodel.specs.boundary.unlisted import refuse_unlisted, unlisted_names  # imported late
        from perfmodel.specs.devices.pasted import pasted_name

        spelled = [*aliases().items(), *((each, each) for each in files.bundled_names("gpus"))]
        pasted = pasted_name(name, flag, _bundled_name, spelled, load_bundled)
        if pasted is None:
            refuse_unlisted(flag, name, unlisted_names().devices)
            raise
        return pasted
