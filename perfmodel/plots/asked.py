"""The settings of a question in the caption of its picture."""

from collections.abc import Collection, Mapping
from typing import Any

from perfmodel.answers.declaration import Question, arguments
from perfmodel.plots.theme import tokens


def asked(question: Question, words: Mapping[str, str], elsewhere: Collection[str]) -> str:
    """The arguments of a question that differ from their defaults.

    - words: argument -> its words in the caption. Other arguments have their own names.
    - elsewhere: arguments that are stated at another place of the picture.
    """
    declared = arguments(type(question))
    parts = []
    for name, stated in question.as_dict().items():
        value = getattr(question, name)
        if name in elsewhere or value == declared[name].fallback:
            continue
        plain = "" if value is True else f": {_plain(stated)}"
        parts.append(f"{words.get(name, name.replace('_', ' '))}{plain}")
    return "; ".join(parts)


def _plain(value: Any) -> str:
    """A value without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, list):  # the ends of a range
        return " to ".join(map(str, dict.fromkeys(value)))
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return tokens(value) if isinstance(value, int) else str(value)
