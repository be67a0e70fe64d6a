"""Public kernel tables: Parquet files of the package ``aiconfigurator-core`` (Apache-2.0), from a folder or a
wheel.

``<root>/<device>/<family>/<engine>/<version>/<name>.parquet``, times in milliseconds.
"""

import io
import math
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError, unknown_name

MS = 1e-3
Table = dict[str, NDArray[Any]]
ENGINES = ("vllm", "trtllm", "sglang")


@dataclass(frozen=True)
class Tables:
    """The tables of one device. `path` is what the user gave, `device` the folder's name for it."""

    path: str
    device: str
    files: dict[str, Callable[[], bytes]]
    package: str

    @classmethod
    def of(cls, path: str, gpu: str) -> "Tables":
        """Raises InputError where the path holds no such tables, or none of this device."""
        named, device = _named(path), device_of(gpu)
        places = {
            name.partition("systems/data/")[2]: read
            for name, read in named.items()
            if name.endswith(".parquet")
        }
        found = {
            place: read for place, read in places.items() if place
        }  # what follows the folder of all devices
        versions = (re.search(r"aiconfigurator_core-([^/]+)\.dist-info", name) for name in named)
        package = next((f"aiconfigurator-core {hit[1]}" for hit in versions if hit), "aiconfigurator-core")
        devices = {name.split("/")[0] for name in found}
        if not found:
            raise InputError(
                f"{path}: must be the package aiconfigurator-core (a wheel, or a folder that holds it)"
            )
        if device not in devices:
            raise unknown_name("--gpu", "device of these tables", device, sorted(devices))
        kept = {n.partition("/")[2]: data for n, data in found.items() if n.startswith(f"{device}/")}
        return cls(path, device, kept, package)

    def versions(self, family: str, engine: str, name: str) -> list[str]:
        """Versions of an engine that have this table, the newest last."""
        parts = [PurePosixPath(n).parts for n in self.files]
        found = [p[2] for p in parts if (p[0], p[1], p[3]) == (family, engine, f"{name}.parquet")]
        return sorted(found, key=_release)

    def read_version(self, family: str, engine: str, version: str | None, name: str) -> tuple[str, Table]:
        """A table of this version, else of the newest, and which."""
        known = self.versions(family, engine, name)
        used = version if version in known else known[-1]
        return used, self.read(family, engine, used, name)

    def read(self, family: str, engine: str, version: str, name: str) -> Table:
        """One table by column; a time column in seconds."""
        import pyarrow.parquet as pq

        source = self.files[f"{family}/{engine}/{version}/{name}.parquet"]
        table = pq.read_table(io.BytesIO(source()))
        columns = {n: np.asarray(table[n].to_pylist()) for n in table.column_names}
        columns["seconds"] = columns.pop("latency").astype(float) * MS
        return columns


def device_of(gpu: str) -> str:
    """How the tables name a device: without its memory."""
    return gpu.rpartition("-")[0].replace("-", "_")


def where(table: Table, keep: NDArray[np.bool_]) -> Table:
    """The rows to keep."""
    return {name: values[keep] for name, values in table.items()}


def _release(version: str) -> list[float]:
    """Sorts 1.3.0rc9 before 1.3.0rc20 and that before 1.3.0."""
    numbers = [float(n) for n in re.findall(r"\d+", version)]
    return [*numbers[:3], *(numbers[3:] if "rc" in version else [math.inf])]


def _named(path: str) -> dict[str, Callable[[], bytes]]:
    """What a wheel or a folder holds: name -> how to read it; nothing where there is no folder."""
    if not path.endswith((".whl", ".zip")):
        return {found.as_posix(): found.read_bytes for found in sorted(Path(path).rglob("*"))}
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: must be a wheel or a folder")
    archive = zipfile.ZipFile(path)
    return {name: partial(archive.read, name) for name in archive.namelist()}
