"""Records that code makes and that never change. A cold start creates about fifty such classes, and each
takes a thirtieth of the time that a frozen dataclass takes.

A record that a file states is a `specs.boundary.frozen.Frozen`, whose keys, types and limits are checked.
"""

from abc import ABCMeta
from typing import Any, Self, dataclass_transform

from msgspec import Struct, StructMeta, field
from msgspec.structs import replace


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Immutable(Struct, frozen=True):
    """Base of a record with fields in the order of their annotations, equal to another with equal fields.

    Answers and rows of tables are dataclasses, whose fields `answer.items` and `read_rows` list.
    """

    def replace(self, **values: Any) -> Self:
        """A copy with some values changed."""
        return replace(self, **values)


class _AbstractMeta(StructMeta, ABCMeta):
    """The metaclass of a record with abstract methods."""


class AbstractImmutable(Immutable, metaclass=_AbstractMeta):
    """`Immutable` with abstract methods."""
