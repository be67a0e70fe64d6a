"""Reads the header of a GGUF file: its keys, and the shape and format of each tensor. No weights are read.

The layout is described in docs/gguf.md of github.com/ggml-org/ggml. Versions 2 and 3 with little-endian
numbers are read.
"""

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, one_line
from perfmodel.reading import read_head
from perfmodel.specs.models.ggml import BLOCKS

MOST_BYTES = 64 * 2**20
"""Largest size of a header. The largest published headers have 30 MB, with 260,000 tokens and their
merges.
"""
MOST_ENTRIES = 2**17
"""Largest number of keys, and of tensors."""
MOST_TEXT = 2**22
"""Largest number of bytes of a text."""
MOST_ITEMS = 2**24
"""Largest number of items of a list."""
MOST_KEPT = 2**12
"""Largest number of items of a list whose items are kept."""
MOST_FILES = 512
"""Largest number of parts of a split file."""
MOST_VALUES = 2**44
"""Largest number of values of one tensor."""
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The code in `struct` for the number of each plain type (ggml, docs/gguf.md)."""
_STRING = 8
_ARRAY = 9
UNKNOWN = "type "
"""Prefix of the format of a tensor with an unknown number. Files hold such tensors in addition to the
weights.
"""
_FORMATS = {number: name for name, (number, _, _) in BLOCKS.items()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its sizes with the inputs first, and its format in the words of `--weights`."""

    shape: tuple[int, ...]
    form: str

    @property
    def values(self) -> int:
        """Number of values of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """The keys of a file with their values, and its tensors by name. The value of a key is None if it is a
    list of more than `MOST_KEPT` items.
    """

    keys: dict[str, Any]
    tensors: dict[str, Tensor]


@dataclass(slots=True)
class _Cursor:
    """A position in the first bytes of a file."""

    path: Path
    data: bytes
    at: int = 0

    def bad(self, what: str) -> InputError:
        return InputError(
            f"{self.path}: must be a GGUF file of version 2 or 3 with a header of at most "
            f"{MOST_BYTES // 2**20} MiB: {what}"
        )

    def number(self, code: str) -> Any:
        try:
            (value,) = struct.unpack_from("<" + code, self.data, self.at)
        except struct.error:
            raise self.bad("the header does not end") from None
        self.at += struct.calcsize("<" + code)
        return value

    def count(self, most: int, what: str) -> int:
        if (number := int(self.number("Q"))) > most:
            raise self.bad(f"at most {most} {what}, given {number}")
        return number

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise self.bad("the header does not end")

    def text(self) -> str:
        start = self.at + 8
        size = self.count(MOST_TEXT, "bytes of a text")
        self.skip(size)
        return one_line(self.data[start : start + size].decode("utf-8", "replace"))

    def value(self, type_number: int) -> Any:
        """Reads the value at the cursor.

        - type_number: number of the type in GGUF's specification (ggml, docs/gguf.md).
        """
        if type_number == _STRING:
            return self.text()
        if type_number == _ARRAY:
            return self.array()
        if type_number not in _CODES:
            raise self.bad(f"a type of value from 0 to 12, given {type_number}")
        return self.number(_CODES[type_number])

    def array(self) -> list[Any] | None:
        """Reads the items of a list. Returns None if it is longer than `MOST_KEPT`, as vocabularies are."""
        type_number = self.number("I")
        count = self.count(MOST_ITEMS, "items of a list")
        if type_number == _ARRAY:
            raise self.bad("no list of lists")
        if count <= MOST_KEPT:
            return [self.value(type_number) for _ in range(count)]
        if type_number == _STRING:
            self.skip_texts(count)
        else:
            self.skip(count * struct.calcsize("<" + _CODES.get(type_number, "B")))
        return None

    def skip_texts(self, count: int) -> None:
        """Skips the tokens of a vocabulary."""
        at = self.at
        size_at = struct.Struct("<Q").unpack_from
        try:
            for _ in range(count):
                at += 8 + size_at(self.data, at)[0]
        except (struct.error, OverflowError):
            raise self.bad("the header does not end") from None
        self.skip(at - self.at)

    def tensor(self) -> Tensor:
        """Reads the shape and the format of a tensor. The offset of the tensor in the file is skipped."""
        dimensions = self.number("I")
        if not 1 <= dimensions <= 4:
            raise self.bad(f"tensors of 1 to 4 dimensions, given {dimensions}")
        shape = tuple(self.count(MOST_VALUES, "values of a tensor") for _ in range(dimensions))
        number = self.number("I")
        if not 0 < math.prod(shape) <= MOST_VALUES:
            raise self.bad(f"1 to {MOST_VALUES} values of a tensor, given {math.prod(shape)}")
        self.skip(8)
        return Tensor(shape, _FORMATS.get(number, f"{UNKNOWN}{number}"))


def read_header(path: Path) -> Header:
    """The header of a file. For a split file, it has the tensors of all parts. Raises InputError if a file is
    malformed.
    """
    first = _read(path)
    parts = first.keys.get("split.count", 1)
    named = re.fullmatch(r"(.*-)\d{5}(-of-\d{5}\.gguf)", path.name)
    if not isinstance(parts, int) or not 1 <= parts <= MOST_FILES or (parts > 1 and not named):
        raise InputError(f"{path}: split.count: must be 1 to {MOST_FILES}, in files NAME-00001-of-0000N.gguf")
    tensors = dict(first.tensors)
    if named:
        for part in range(1, parts + 1):
            tensors |= _read(path.with_name(f"{named[1]}{part:05d}{named[2]}")).tensors
    return Header(first.keys, tensors)


def _read(path: Path) -> Header:
    """The header of one file. Raises InputError with the place of a fault."""
    cursor = _Cursor(path, read_head(path, MOST_BYTES))
    if cursor.data[:4] != b"GGUF":
        raise cursor.bad("it does not begin with GGUF")
    cursor.skip(4)
    if (version := cursor.number("I")) not in (2, 3):
        raise cursor.bad(f"given version {version}")
    tensors, keys = (cursor.count(MOST_ENTRIES, what) for what in ("tensors", "keys"))
    header = Header({}, {})
    for _ in range(keys):
        name = cursor.text()
        type_number = cursor.number("I")
        _unique(cursor, header.keys, name)[name] = cursor.value(type_number)
    for _ in range(tensors):
        name = cursor.text()
        _unique(cursor, header.tensors, name)[name] = cursor.tensor()
    return header


def _unique(cursor: _Cursor, table: dict[str, Any], name: str) -> dict[str, Any]:
    if name in table:
        raise cursor.bad(f"{name[:60]} is given twice")
    return table
