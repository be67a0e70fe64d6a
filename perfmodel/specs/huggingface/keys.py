"""Typed reading of a mapping from another program, such as a Hugging Face ``config.json``."""

from collections.abc import Mapping
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.specs.huggingface.names import other_spellings
from perfmodel.specs.models.components import MAX_SIZE

NEEDED: Any = object()
USUAL = other_spellings("key")
"""Key -> its name in other families."""


class _Read(dict[str, Any]):
    """A mapping that records which of its keys were read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.asked = set[str]()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


class Keys:
    """Typed access to one mapping of a file. null counts as absent where a default exists.

    Every refusal is one line with the file, the key, the allowed values and the given value.
    """

    def __init__(
        self, data: Mapping[str, Any], where: str, prefix: str = "", defaults: dict[str, int] | None = None
    ):
        self.data, self.where, self.prefix, self.defaults = _Read(data), where, prefix, defaults or {}
        self.defaulted: list[str] = []
        self._said: dict[str, str] = {}

    def usual(self) -> None:
        """Reads the keys of `USUAL` by their usual names if the file lacks its own ones. Refusals name the
        file's key.
        """
        self._said = {
            usual: next(name for name in others if self.data.get(name) is not None)
            for usual, others in USUAL.items()
            if self.data.get(usual) is None and any(self.data.get(name) is not None for name in others)
        }
        renamed = {usual: self.data.get(name) for usual, name in self._said.items()}
        self.data = _Read(dict(self.data.items()) | renamed)

    @property
    def read(self) -> set[str]:
        """The keys that were read, by either name, present or not."""
        asked = self.data.asked
        return asked.union(*((usual, name) for usual, name in self._said.items() if {usual, name} & asked))

    def ignore(self, *keys: str) -> None:
        """Marks keys as without effect."""
        self.data.asked.update(keys)

    def bad(self, key: str, allowed: str) -> InputError:
        if key not in self.data:
            return InputError(f"{self.where}: {self.prefix}{key}: must be {allowed}, and it is missing")
        value, key = self.data[key], self._said.get(key, key)
        plain = isinstance(value, (bool, int, float, type(None)))
        shown = value[:200] if isinstance(value, str) else value if plain else type(value).__name__
        return refuse(self.where, self.prefix + key, allowed, shown)

    def integer(self, key: str, default: Any = NEEDED, low: int = 1, high: int = MAX_SIZE) -> int:
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
        """A size that the file must state; null means none."""
        return None if key in self.data and self.data[key] is None else self.integer(key, high=high)

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def number(self, key: str, default: Any = NEEDED) -> float:
        value: Any = self.data.get(key)
        if value is None and default is not NEEDED:
            return float(default)
        if type(value) not in (int, float) or not 0 < value <= 1e15:
            raise self.bad(key, "a number above 0, at most 1e15")
        return float(value)

    def count(self, key: str, high: int = MAX_SIZE) -> int:
        """A whole number; 0 if absent."""
        return self.integer(key, 0, low=0, high=high)

    def mapping(self, key: str) -> "Keys | None":
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.bad(key, "a mapping or null")
        return Keys(value, self.where, f"{self.prefix}{key}.") if value else None

    def integers(self, key: str) -> list[int]:
        return self._list(key, int, "a list of layer numbers")

    def strings(self, key: str) -> list[str]:
        return self._list(key, str, "a list of names")

    def _list(self, key: str, item_type: type, allowed: str) -> list[Any]:
        value = self.data.get(key) or []
        if not isinstance(value, list) or any(type(v) is not item_type for v in value):
            raise self.bad(key, allowed)
        return value
