"""Prometheus pages: every sample of a metric with its labels. Unreadable samples are refused."""

import math
import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.text import floats, is_count

_LABELS = r'(?:[ \t]*\{((?:[^"}\n]|"(?:\\.|[^"\\\n])*")*)\})?(.*)$'
_VALUE = re.compile(r"^\s+(\S+)(?:\s+-?[\d.]+)?\s*$")
"""A value and, if present, its time."""
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*(?:\{.*\})?)[ \t]+(\S+).*$", re.M)
"""A metric with its labels, and its value."""


def since(before: str, now: str) -> str:
    """The counts between two pages of a server; gauges have their latest values.

    If a counter fell or was created again, the server was restarted in between and counts from 0: all counts
    of the later page.
    """
    gauges = set(re.findall(r"^# TYPE (\S+) gauge", now, re.M))
    earlier = dict(_SAMPLE.findall(before))
    restarted = []

    def less(found: re.Match[str]) -> str:
        name = found[1].partition("{")[0]
        (was,), (value,) = floats([earlier.get(found[1], "0")]), floats([found[2]])
        restarted.append(
            value != was > 0 if name.endswith("_created") else name not in gauges and value < was
        )
        if name in gauges:
            return found[0]
        return f"{found[1]} {value - was!r}"

    between = _SAMPLE.sub(less, now)  # fills `restarted`
    return now if any(restarted) else between


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
