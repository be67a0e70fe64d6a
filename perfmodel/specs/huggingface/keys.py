"""Typed access to a mapping that another program wrote, such as a Hugging Face ``config.json``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InputError, refuse, shortened
from perfmodel.specs.huggingface.names import other_spellings
from perfmodel.specs.models.components import MAX_SIZE

Fields = dict[str, Any]
"""Fields of ModelSpec by name."""
NEEDED: Any = object()
"""In place of a default value: the file must have the key."""
USUAL = other_spellings("key")
"""The names of each key in other families."""


class _Read(dict[str, Any]):
    """A mapping that records which of its keys were read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.seen = set[str]()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)


class Keys:
    """Typed access to one mapping of a file. A null value counts as absent if there is a default.

    Every error message is one line with the file, the key, the allowed values and the given value.
    """

    def __init__(
        self, data: Mapping[str, Any], where: str, prefix: str = "", defaults: dict[str, int] | None = None
    ):
        self.data = _Read(data)
        self.where = where
        self.prefix = prefix
        self.defaults = defaults or {}
        self.defaulted: list[str] = []
        self._file_names: dict[str, str] = {}

    def usual(self, names: Mapping[str, str] = MappingProxyType({})) -> None:
        """Makes the keys of the file available under their usual names (`USUAL`). Error messages still have
        the name in the file.

        - names: names of keys in files of the family, by their usual names. Only these names are read. Dots
          separate a mapping from a key inside it.
        """
        self._file_names = dict(names)
        for usual, others in USUAL.items():
            if usual in names or self.data.get(usual) is not None:
                continue
            stated = next((name for name in others if self.data.get(name) is not None), None)
            if stated is not None:
                self._file_names[usual] = stated
        values = {usual: self._inside(name) for usual, name in self._file_names.items()}
        kept = {key: value for key, value in self.data.items() if key not in names}
        self.data = _Read(kept | {usual: value for usual, value in values.items() if value is not None})

    def _inside(self, name: str) -> Any:
        """The value of a key, or of a key inside mappings. The result is None if it is absent."""
        outer, _, rest = name.partition(".")
        if not rest:
            return self.data.get(outer)
        inner = self.mapping(outer)
        return inner._inside(rest) if inner else None

    @property
    def read(self) -> set[str]:
        """The keys that were requested, whether they are present or not. Keys are listed under their name in
        the file and under their usual name.
        """
        seen = self.data.seen
        for usual, name in self._file_names.items():
            outermost = name.partition(".")[0]
            if {usual, outermost} & self.data.seen:
                seen = seen | {usual, outermost}
        return seen

    def ignore(self, *keys: str) -> None:
        """Marks keys as read, because they have no effect."""
        self.data.seen.update(keys)

    def bad(self, key: str, allowed: str) -> InputError:
        """Returns the error for the value of a key, or for its absence."""
        name = self._file_names.get(key, shortened(key))
        if key not in self.data:
            return InputError(f"{self.where}: {self.prefix}{name}: must be {allowed}, and it is missing")
        value = self.data[key]
        plain = isinstance(value, (bool, int, float, type(None)))
        shown = value if plain or isinstance(value, str) else type(value).__name__
        return refuse(self.where, self.prefix + name, allowed, shown)

    def integer(self, key: str, default: Any = NEEDED, low: int = 1, high: int = MAX_SIZE) -> int:
        """A whole number from `low` to `high`."""
        value = self.data.get(key)
        if value is None and default is NEEDED and key in self.defaults:
            value = self.defaults[key]
            self.defaulted.append(f"{key} {value}")
        if value is None and default is not NEEDED:
            return int(default)
        if type(value) is not int or not low <= value <= high:
            raise self.bad(key, f"a whole number from {low} to {high}")
        return value

    def present_or_null(self, key: str, high: int = MAX_SIZE) -> int | None:
        """A size that the file must state. Returns None if it is null."""
        if key in self.data and self.data[key] is None:
            return None
        return self.integer(key, high=high)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        if (value := self.data.get(key)) is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def number(self, key: str, default: Any = NEEDED) -> float:
        """A number above 0."""
        value: Any = self.data.get(key)
        if value is None and default is not NEEDED:
            return float(default)
        if type(value) not in (int, float) or not 0 < value <= 1e15:
            raise self.bad(key, "a number above 0, at most 1e15")
        return float(value)

    def count(self, key: str, high: int = MAX_SIZE) -> int:
        """A whole number. The result is 0 if the key is absent."""
        return self.integer(key, 0, low=0, high=high)

    def mapping(self, key: str) -> "Keys | None":
        """An inner mapping. The result is None if it is absent or empty."""
        if (value := self.data.get(key)) is not None and not isinstance(value, dict):
            raise self.bad(key, "a mapping or null")
        if value:
            return Keys(value, self.where, f"{self.prefix}{key}.")
        return None

    def parts(self, key: str) -> "dict[str, Keys]":
        """The non-empty inner mappings, by name, of a key whose value is a mapping of mappings. The result is
        empty if the key is absent.
        """
        outer = self.mapping(key)
        if outer:
            return {name: part for name in outer.data if (part := outer.mapping(name))}
        return {}

    def integers(self, key: str) -> list[int]:
        """A list of whole numbers. The result is empty if the key is absent."""
        return self._list(key, int, "a list of layer numbers")

    def strings(self, key: str) -> list[str]:
        """A list of texts. The result is empty if the key is absent."""
        return self._list(key, str, "a list of names")

    def _list(self, key: str, item_type: type, allowed: str) -> list[Any]:
        value = self.data.get(key) or []
        if not isinstance(value, list) or any(type(v) is not item_type for v in value):
            raise self.bad(key, allowed)
        return value
