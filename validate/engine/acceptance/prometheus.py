"""Prometheus pages: every sample of a metric with its labels, refusing what cannot be read."""

import math
import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.text import floats, is_count

_LABELS = r'(?:[ \t]*\{((?:[^"}\n]|"(?:\\.|[^"\\\n])*")*)\})?(.*)$'
_VALUE = re.compile(r"^\s+(\S+)(?:\s+-?[\d.]+)?\s*$")
"""A value and, where there is one, the time it was taken at."""


def samples(where: str, text: str, name: str) -> Iterator[tuple[str, float]]:
    """Labels and value of every sample of a metric, with or without ``_total``. Raises InputError for an
    unreadable one.
    """
    metric = re.compile(rf"^[ \t]*{re.escape(name)}(?:_total)?(?![\w:]){_LABELS}", re.M)
    for found in metric.finditer(text):
        labels, rest = found.groups(default="")
        (value,) = floats(_VALUE.findall(rest)) or [math.nan]
        if not is_count(value):
            at = re.search(r'(?:^|,)\s*position="(\d{1,9})"', labels)
            place = name.partition(":")[2] + (f" position {at[1]}" if at else "")
            raise refuse(where, place, "a finite count, 0 or more", rest.strip())
        yield labels, value
