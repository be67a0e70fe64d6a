"""The base class of records that are read from files. Each field has one type, and its annotation states the
limits (msgspec).
"""

import sys
from copy import copy
from functools import cache
from typing import Annotated, Any, Self, dataclass_transform

from msgspec import NODEFAULT, Meta, Struct, StructMeta, convert, field, to_builtins
from msgspec.structs import fields, force_setattr

Text = Annotated[str, Meta(min_length=3)]
"""A text in any form, such as a source."""
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, le=1)]
FINITE = sys.float_info.max
"""Upper limit of a number that must be finite. A number with any limit cannot be NaN."""


class _GivenByName(StructMeta):
    """All fields, also those of subclasses, are given by name in any order."""

    def __new__(mcls, name: str, bases: Any, namespace: Any, **options: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True} | options)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, metaclass=_GivenByName, frozen=True, forbid_unknown_fields=True):
    """The base class of immutable records of a mapping in a file. Unknown keys are refused.

    In a subclass, `__post_init__` raises ValueError for contradictory fields. Types and limits are checked
    when a mapping is read (`files.parse`, `of_mapping`). Types and limits are not checked when code creates a
    record.
    """

    @classmethod
    def of_mapping(cls, data: Any) -> Self:
        """Checks a mapping that code created, and converts it to a record. The numbers may be numpy's.

        Raises msgspec.ValidationError, which is a ValueError.
        """
        return convert(builtins(data), cls, str_keys=True)

    def replace(self, **values: Any) -> Self:
        """A copy with some values changed. The new values are not checked."""
        changed = copy(self)
        for name, value in values.items():
            force_setattr(changed, name, value)
        return changed

    def as_mapping(self, exclude_defaults: bool = False, exclude_none: bool = False) -> dict[str, Any]:
        """The record as a mapping for JSON or YAML. Default values or nulls can be left out."""
        return dict(_plain(self, exclude_defaults, exclude_none))


@cache
def defaults(struct: type[Struct]) -> dict[str, Any]:
    """The default value of each optional field, by name."""
    optional = [each for each in fields(struct) if not each.required]
    return {
        each.name: each.default if each.default_factory is NODEFAULT else each.default_factory()
        for each in optional
    }


def annotations(struct: type[Struct]) -> dict[str, Any]:
    """The annotation of each field, by name."""
    return {each.name: each.type for each in fields(struct)}


def _plain(value: Any, exclude_defaults: bool, exclude_none: bool) -> Any:
    """A record as mappings and lists of plain values, as a file states it."""
    if isinstance(value, Struct):
        left_out = defaults(type(value)) if exclude_defaults else {}
        values = {name: getattr(value, name) for name in value.__struct_fields__}
        value = {
            name: inner
            for name, inner in values.items()
            if (name not in left_out or inner != left_out[name]) and not (exclude_none and inner is None)
        }
    if isinstance(value, dict):
        return {str(key): _plain(inner, exclude_defaults, exclude_none) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner, exclude_defaults, exclude_none) for inner in value]
    return builtins(value)


def builtins(value: Any) -> Any:
    """Converts a value to Python's plain types: mappings, lists, text and numbers."""
    return to_builtins(value, enc_hook=lambda number: number.item())
