"""Reads public kernel tables: the Parquet files of the package ``aiconfigurator-core`` (Apache-2.0).

The path of a file is ``<root>/<device>/<family>/<engine>/<version>/<name>.parquet``. Its times are in
milliseconds.
"""

import io
import math
import re
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError, unknown_name
from perfmodel.operations import Mask
from perfmodel.reading import read_bytes
from perfmodel.specs import serving_engines

MS = 1e-3
Table = dict[str, NDArray[Any]]
"""Column -> its values."""
ENGINES = tuple(word for word, engine in serving_engines().items() if engine.kernel_tables)
"""Engines that have kernel tables."""
TEXT = {
    "attn_dtype",
    "distribution",
    "gemm_dtype",
    "gemm_type",
    "kernel_source",
    "kv_cache_dtype",
    "mla_dtype",
    "model",
    "moe_dtype",
    "nccl_dtype",
    "op_name",
}
"""Columns with text. All other columns have numbers."""
MAX_TABLE_BYTES = 2**26
"""Largest size of a table, in bytes. The tables of aiconfigurator-core 0.12.0 have at most 2 MB."""
MAX_ROWS = 10**6
"""Largest number of rows of a table. The tables of aiconfigurator-core 0.12.0 have at most 126,360."""
MAX_WORD = 200
"""Largest number of characters of a text."""
MOST = 1e12
"""Largest number in a table."""


class CheckedTable(Table):
    """A table that raises InputError for a missing column. All columns have the same length.

    - where: the file, for error messages.
    """

    def __init__(self, where: str, columns: dict[str, NDArray[Any]]) -> None:
        super().__init__(columns)
        self.where = where

    def __missing__(self, name: str) -> NDArray[Any]:
        raise InputError(f"{self.where}: {name}: must be a column of {_kind(name)} without gaps")


class VersionedTable(NamedTuple):
    """A table, and the version of its engine."""

    version: str
    table: Table


@dataclass(frozen=True)
class Tables:
    """The tables of one device.

    - path: the folder with all tables, as the user wrote it.
    - device: the name of the folder of the device.
    - files: path below the folder of the device -> path of the file.
    - package: the name of the package with the tables, and its version.
    """

    path: str
    device: str
    files: dict[str, Path]
    package: str

    @classmethod
    def of(cls, path: str, gpu: str) -> "Tables":
        """Finds the tables in a folder. Raises InputError if there are no tables, or none for this device.

        - gpu: the name of the device.
        """
        paths = sorted(Path(path).rglob("*"))
        # the paths below the folder of all devices
        by_place = {file.as_posix().partition("systems/data/")[2]: file for file in paths}
        tables = {place: file for place, file in by_place.items() if place.endswith(".parquet")}
        if not tables:
            raise InputError(
                f"{path}: must be a folder with the package aiconfigurator-core; `python -m zipfile -e "
                "WHEEL FOLDER` unpacks its wheel"
            )
        device = folder_of(gpu, {place.partition("/")[0] for place in tables})
        of_device = {}
        for place, file in tables.items():
            folder, _, rest = place.partition("/")
            if folder == device:
                of_device[rest] = file
        return cls(path, device, of_device, _package(paths))

    def versions(self, family: str, engine: str, name: str) -> list[str]:
        """The versions of an engine that have a table, the newest last."""
        versions = []
        for place in self.files:
            table_family, table_engine, version, file = PurePosixPath(place).parts[:4]
            if (table_family, table_engine, file) == (family, engine, f"{name}.parquet"):
                versions.append(version)
        return sorted(versions, key=release_order)

    def read_version(self, family: str, engine: str, version: str | None, name: str) -> VersionedTable:
        """A table of a version of an engine, or of the newest version if this version does not have it.
        Raises InputError if no version has the table.
        """
        known = self.versions(family, engine, name)
        if not known:
            raise InputError(f"{self.path}: must hold {self.device}/{family}/{engine}/VERSION/{name}.parquet")
        used = version if version in known else known[-1]
        return VersionedTable(used, self.read(family, engine, used, name))

    def read(self, family: str, engine: str, version: str, name: str) -> Table:
        """A table, with a column ``seconds`` instead of ``latency``. Raises InputError for a file that is not
        such a table.

        A column that has a wrong type, or missing or infinite values, raises InputError only when it is used.
        """
        import pyarrow as pa

        place = f"{family}/{engine}/{version}/{name}.parquet"
        where = f"{self.path}: {place}"
        try:
            data = read_bytes(self.files[place], MAX_TABLE_BYTES)
            table: Table = CheckedTable(where, dict(_columns(data)))
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{where}: must be a Parquet table: {error}") from None
        if not (table["latency"].size and (table["latency"] > 0).all()):
            raise InputError(f"{where}: latency: must be above 0 in one row or more")
        table["seconds"] = table.pop("latency").astype(float) * MS
        return table


def _package(paths: Iterable[Path]) -> str:
    """The name of the package, with its version if a path shows it."""
    for path in paths:
        metadata = re.search(r"aiconfigurator_core-([^/]+)\.dist-info", path.name)
        if metadata:
            return f"aiconfigurator-core {metadata[1]}"
    return "aiconfigurator-core"


def folder_of(gpu: str, folders: Collection[str]) -> str:
    """The name of the folder of a device: the name of the device without its memory size.

    The folder can also have a longer name (``rtx_pro_6000_server``) or a shorter name (``b60`` for
    ``arc-pro-b60-24gb``). Raises InputError if there is no such folder.
    """
    name = gpu.rpartition("-")[0].replace("-", "_")
    longer = [folder for folder in folders if folder.startswith(f"{name}_")]
    shorter = [folder for folder in folders if name.endswith(f"_{folder}")]
    for folder in (name, *longer, *shorter):
        if folder in folders:
            return folder
    raise unknown_name("--gpu", "device of these tables", name, sorted(folders))


def where(table: Table, keep: Mask) -> Table:
    """The rows of a table in the mask `keep`."""
    selected = copy(table)
    selected.update((name, values[keep]) for name, values in table.items())
    return selected


def of_most_frequent_kernel(calls: Table) -> Table:
    """The rows of the kernel that has the most rows."""
    names, counts = np.unique(calls["kernel_source"], return_counts=True)
    return where(calls, calls["kernel_source"] == names[np.argmax(counts)])


def fastest(calls: Table, keys: tuple[str, ...]) -> Table:
    """The row of the fastest kernel for each distinct call.

    - keys: the columns that identify a call.
    """
    by_key = [calls[c] for c in reversed(keys)]
    order = np.lexsort((calls["seconds"], *by_key))
    stacked = np.stack([calls[c][order] for c in keys])
    differs = np.any(stacked[:, 1:] != stacked[:, :-1], axis=0)
    first = np.append(True, differs)
    return {name: values[order][first] for name, values in calls.items()}


def _kind(column: str) -> str:
    return "words" if column in TEXT else f"numbers from 0 to {MOST:g}"


def _columns(data: bytes) -> Iterator[tuple[str, NDArray[Any]]]:
    """The valid columns of a Parquet file. Raises ValueError for a table that is too large."""
    import pyarrow.parquet as pq
    from pyarrow import types

    schema = pq.read_schema(io.BytesIO(data))
    texts = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
    words = [name for name in texts if name in TEXT]
    numbers = [f.name for f in schema if types.is_integer(f.type) or types.is_floating(f.type)]
    wanted = [*words, *(name for name in numbers if name not in TEXT)]
    file = pq.ParquetFile(io.BytesIO(data), read_dictionary=words)
    stored = file.metadata
    size = sum(stored.row_group(i).total_byte_size for i in range(stored.num_row_groups))
    if stored.num_rows > MAX_ROWS or size > MAX_TABLE_BYTES:
        raise ValueError(f"{stored.num_rows} rows of {size} bytes, at most {MAX_ROWS} of {MAX_TABLE_BYTES}")
    table = file.read(columns=wanted).unify_dictionaries()
    for name in wanted:
        column = table[name].combine_chunks()
        if column.null_count:
            continue
        if name not in TEXT:
            values = column.to_numpy(zero_copy_only=False)
            if ((values >= 0) & (values <= MOST)).all():
                yield name, values
            continue
        spellings = column.dictionary.to_pylist()
        if max(map(len, spellings), default=0) <= MAX_WORD:
            yield name, np.asarray(spellings, dtype=str)[column.indices.to_numpy()]


def release_order(version: str) -> list[float]:
    """The sort key of a version. It sorts 1.3.0rc9 before 1.3.0rc20, and 1.3.0rc20 before 1.3.0."""
    numbers = [float(n) for n in re.findall(r"\d+", version)]
    return [*numbers[:3], *(numbers[3:] if "rc" in version else [math.inf])]
