"""Mappings of files: frozen records that pydantic checks, which is imported only when something is to be
checked.

What comes from the index of bundled files (`ready.py`) was checked before; most answers need no more, and
importing pydantic takes as long as importing numpy.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, dataclass_transform


class Constrained:
    """What a value must be, by the names of pydantic's core schema: ``Annotated[float, Constrained(ge=0,
    le=1)]``.
    """

    def __init__(self, **limits: Any) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The schema of the type, with the limits."""
        return handler(source) | self.limits


class Validated:
    """A check (ValueError) or conversion after that of the type: ``Annotated[str,
    Validated(known_unit)]``.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The schema of the type, and this after it."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


Flag = Annotated[bool, Constrained(strict=True)]
Text = Annotated[str, Constrained(min_length=3)]
"""Such as where a number is from."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Frozen:
    """A mapping of a file: known keys only, never changed; fields as of a dataclass, given by name.

    `__post_init__` of a subclass refuses (ValueError) what does not go together. Made from values that were
    not checked, it raises pydantic's ValidationError.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)

    def __init__(self, **stated: Any) -> None:
        vars(self).update(vars(self.model_validate(stated)))

    @classmethod
    def model_validate(cls, stated: Any) -> Self:
        """Validated. Raises pydantic's ValidationError."""
        checked: Self = checker(cls).validate_python(stated)
        return checked

    @classmethod
    def model_construct(cls, **stated: Any) -> Self:
        """Of values that are known to be right; what is left out has its default."""
        made = object.__new__(cls)
        vars(made).update(defaults(cls))
        vars(made).update(stated)
        return made

    def model_copy(self, update: Mapping[str, Any]) -> Self:
        """The same with some values exchanged, unchecked."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        vars(copy).update(update)
        return copy

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As a mapping; options of pydantic's ``TypeAdapter.dump_python``, such as ``exclude_defaults``."""
        stated: dict[str, Any] = checker(type(self)).dump_python(self, **options)
        return stated

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self)[f.name] for f in fields(self)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={vars(self)[name]!r}" for name in annotations(type(self)))
        return f"{type(self).__name__}({shown})"


def _checker(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _defaults(kind: Any) -> dict[str, Any]:
    stated = {
        f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)
    }
    return {name: default for name, default in stated.items() if default is not MISSING}


OfKind = Callable[[Any], dict[str, Any]]
checker: Callable[[Any], Any] = cache(_checker)
"""A record's class -> pydantic's ``TypeAdapter`` of it."""
annotations: OfKind = cache(lambda kind: {f.name: f.type for f in fields(kind)})
"""A record's class -> name of each field -> its annotation."""
defaults: OfKind = cache(_defaults)
"""A record's class -> name of each field that may be left out -> what it is then."""
