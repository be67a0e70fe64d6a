"""Base class of all answers, which are frozen dataclasses. `as_dict` converts an answer to JSON types. A
notebook shows an answer as a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from perfmodel.errors import library

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA_VERSION = 2
T = TypeVar("T")


def items(whole: Any) -> dict[str, Any]:
    """The values of a dataclass by name. A class that is not an `Answer` may define these values with its own
    method `as_dict`.
    """
    if not isinstance(whole, Answer) and hasattr(whole, "as_dict"):
        return dict(whole.as_dict())
    return {f.name: getattr(whole, f.name) for f in fields(whole)}


def plain(value: Any) -> Any:
    """Converts a value to JSON types: dataclasses to mappings, tuples to lists, and numpy numbers to
    Python numbers.
    """
    if is_dataclass(value):
        return {name: plain(inner) for name, inner in items(value).items()}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return value


class Answer:
    """Base class of all answers.

    - printed: the function that makes the text for `print`. The package sets this attribute to a function
      that returns the output of the command line.
    """

    printed: ClassVar[Callable[[Any], str]] = repr

    def __init_subclass__(cls) -> None:
        """Gives a subclass a hash function that works for all fields. The generated hash of a frozen
        dataclass fails if a field is a mapping.
        """
        super().__init_subclass__()
        cls.__hash__ = Answer.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        return hash(repr(self))

    def as_dict(self) -> dict[str, Any]:
        """The answer in JSON types, with None for missing values."""
        return {"schema_version": SCHEMA_VERSION, **plain(self)}

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row. Nested values have columns such as ``target_step.predicted_s``."""
        return library("pandas").json_normalize(plain(self))

    @property
    def failed(self) -> bool:
        """Whether the answer is not useful, for example because nothing fits in memory. The command then
        exits with status 1.
        """
        return False

    def headline(self) -> str:
        """The answer in one line."""
        return ", ".join(f"{name} {text}" for name, text in _facts(self).items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline()})"

    def __str__(self) -> str:
        return Answer.printed(self)

    def _repr_html_(self) -> str:
        tables = [
            f"<p>{escaped(name)}</p>{_table(value)}"
            for name, value in items(self).items()
            if isinstance(value, tuple) and value and is_dataclass(value[0])
        ]
        rows = [
            f"<tr><th>{escaped(name)}</th><td>{escaped(text)}</td></tr>"
            for name, text in _facts(self).items()
        ]
        headline = f"<p><b>{escaped(self.headline())}</b></p>"
        return "".join([headline, "<table>", *rows, "</table>", *tables])


@dataclass(frozen=True, repr=False)
class Rows(Answer, Sequence[T], Generic[T]):
    """A sequence of answers of one kind."""

    rows: tuple[T, ...]

    def headline(self) -> str:
        if self.rows:
            return f"{len(self.rows)} x {type(self.rows[0]).__name__}"
        return "none"

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row for each answer."""
        return library("pandas").json_normalize([plain(row) for row in self.rows])

    def _repr_html_(self) -> str:
        return _table(self.rows)


def _facts(whole: Any) -> dict[str, str]:
    """The text of each single value by name. Dataclasses, mappings and sequences are left out."""
    shown = {
        n: v for n, v in items(whole).items() if not (is_dataclass(v) or isinstance(v, dict | list | tuple))
    }
    return {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in shown.items()}


def escaped(text: str) -> str:
    """Returns the text with HTML's special characters escaped."""
    from html import escape  # only notebooks need it, and its table of entities takes 3 ms to load

    return escape(text)


def _table(rows: Sequence[Any]) -> str:
    """An HTML table with one row for each dataclass and one column for each single value."""
    if not rows:
        return "<p>none</p>"
    named = [_facts(row) for row in rows]
    head = "".join(f"<th>{escaped(name)}</th>" for name in named[0])
    cells = ["".join(f"<td>{escaped(row.get(name, 'None'))}</td>" for name in named[0]) for row in named]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
