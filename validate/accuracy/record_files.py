"""Finds the records of this project's decoder and of serving engines in a folder."""

import re
from collections.abc import Iterator
from pathlib import Path

from perfmodel.reading import read_head
from perfmodel.validate.records import withdrawn

KIND = re.compile(r'"kind":\s*"(measure|engine)"')
"""The key of a record with its kind. The figures of kernels (``microbench``) are not checked."""
HEAD_BYTES = 1000
"""Number of first bytes in which a record must state its kind. Other JSON files of the folder are ignored."""


def records_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """The paths and kinds of the records in a folder, without withdrawn records and those of kernels."""
    left_out = {root / name for root in (folder, folder.parent) for name in withdrawn(root)}
    for path in sorted({*folder.rglob("*.json")} - left_out):
        kind = kind_of(path)
        if kind is not None:
            yield path, kind


def kind_of(path: Path) -> str | None:
    """The kind of the record in a file; None for a record of kernels and for other files. Raises InputError
    for an unreadable file.
    """
    kind = KIND.search(read_head(path, HEAD_BYTES).decode("utf-8", errors="replace"))
    return kind[1] if kind else None
