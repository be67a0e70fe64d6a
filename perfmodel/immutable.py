"""Base classes of immutable records that code creates. The first answer of a process defines about fifty such
classes. The definition of such a class takes a thirtieth of the time that a frozen dataclass takes.

For records that are read from files, use `specs.boundary.frozen.Frozen`, which checks keys, types and limits.
"""

from abc import ABCMeta
from typing import Any, Self, dataclass_transform

from msgspec import Struct, StructMeta, field
from msgspec.structs import replace


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Immutable(Struct, frozen=True):
    """The base class of immutable records. Fields are in the order of their annotations. Two records with
    equal fields are equal.

    Answers and rows of tables are dataclasses instead, because `answer.items` and `read_rows` list their
    fields.
    """

    def replace(self, **values: Any) -> Self:
        """A copy with some values changed."""
        return replace(self, **values)


class _AbstractMeta(StructMeta, ABCMeta):
    """The metaclass of a record with abstract methods."""


class AbstractImmutable(Immutable, metaclass=_AbstractMeta):
    """`Immutable` with abstract methods."""
