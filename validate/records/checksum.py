"""The checksum of a record: its first member, the CRC-32 of the rest of the file byte for byte.

Older records have none and are read without a check; ``results/accuracy.json`` has fingerprints of the
bundled ones.
"""

import re
import zlib
from pathlib import Path

from perfmodel.errors import InputError

_STAMP = re.compile(r'\{"crc32":"([0-9a-f]{8})",')


def stamped(text: str) -> str:
    """A record's text, a JSON object, with its checksum."""
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}",{text[1:]}'


def check_stamp(path: Path, text: str) -> None:
    """Refuse (InputError) a record that does not match its checksum."""
    stamp = _STAMP.match(text)
    if stamp and int(stamp[1], 16) != zlib.crc32(b"{" + text[stamp.end() :].encode()):
        raise InputError(f"{path}: must match its checksum (crc32); the file was changed or damaged")
