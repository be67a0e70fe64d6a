"""The checksum of a record. It is the first key of the file, and the CRC-32 of the rest of the file.

Old records have no checksum. ``results/old_records.yaml`` lists them with a fingerprint. Any other record
without a checksum is an error.
"""

import hashlib
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.errors import InputError
from perfmodel.reading import data_folder
from perfmodel.specs import Frozen, files

_STAMP = re.compile(r'\{"crc32":"([0-9a-f]{8})",')


class _OldRecords(Frozen):
    """File below ``results/`` -> SHA-256 of its text."""

    schema_version: Literal[1]
    records: dict[str, Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]]


def stamped(text: str) -> str:
    """The text of a record with its checksum added.

    - text: a JSON object.
    """
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}",{text[1:]}'


def check_record(path: Path, text: str) -> None:
    """Raises InputError if a record does not match its checksum, or if it has none and is not a listed old
    record.
    """
    if _STAMP.match(text):
        check_stamp(path, text)
    elif fingerprint(text) not in _old_records():
        raise InputError(f"{path}: crc32: must be given first: the file was changed, or is no record")


def check_stamp(path: Path, text: str) -> None:
    """Raises InputError if a text has a checksum and does not match it."""
    stamp = _STAMP.match(text)
    if stamp and int(stamp[1], 16) != zlib.crc32(b"{" + text[stamp.end() :].encode()):
        raise InputError(f"{path}: must match its checksum (crc32); the file was changed or damaged")


def fingerprint(text: str) -> str:
    """SHA-256 of a record's text."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _old_records() -> frozenset[str]:
    """Fingerprints of the records without a checksum."""
    path = data_folder("results") / "old_records.yaml"
    return frozenset(files.parse(_OldRecords, files.read_mapping(path), str(path)).records.values())
