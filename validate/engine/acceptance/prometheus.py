"""Reads Prometheus pages: every sample of a metric with its labels. An unreadable sample is an error."""

import math
import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.text import floats, is_count

_LABELS = r'(?:[ \t]*\{((?:[^"}\n]|"(?:\\.|[^"\\\n])*")*)\})?(.*)$'
_VALUE = re.compile(r"^\s+(\S+)(?:\s+-?[\d.]+)?\s*$")
"""A value and, if present, its time."""
POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,9})"')
"""The label with the position in a draft."""
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*(?:\{.*\})?)[ \t]+(\S+).*$", re.M)
"""A metric with its labels, and its value."""


def since(before: str, now: str) -> str:
    """A page with the counts between two pages of a server. Gauges have the values of the later page.

    If a counter fell or was created again, the server was restarted in between. Its counters then began at 0,
    and the later page is returned unchanged.
    """
    gauges = set(re.findall(r"^# TYPE (\S+) gauge", now, re.M))
    earlier = {metric: _value(text) for metric, text in _SAMPLE.findall(before)}
    for metric, text in _SAMPLE.findall(now):
        value_before = earlier.get(metric, 0.0)
        value = _value(text)
        if _name(metric).endswith("_created"):  # a gauge: the time of a counter's creation
            restarted = value_before > 0 and value != value_before
        else:
            restarted = _name(metric) not in gauges and value < value_before
        if restarted:
            return now

    def difference(sample: re.Match[str]) -> str:
        metric = sample[1]
        if _name(metric) in gauges:
            return sample[0]
        return f"{metric} {_value(sample[2]) - earlier.get(metric, 0.0)!r}"

    return _SAMPLE.sub(difference, now)


def _name(metric: str) -> str:
    """A metric without its labels."""
    return metric.partition("{")[0]


def _value(text: str) -> float:
    (value,) = floats([text])
    return value


def samples(where: str, text: str, name: str) -> Iterator[tuple[str, float]]:
    """Labels and value of every sample of a metric. The name on the page may end in ``_total``. Raises
    InputError for an unreadable sample.
    """
    metric = re.compile(rf"^[ \t]*{re.escape(name)}(?:_total)?(?![\w:]){_LABELS}", re.M)
    for sample in metric.finditer(text):
        labels, rest = sample.groups(default="")
        (value,) = floats(_VALUE.findall(rest)) or [math.nan]
        if not is_count(value):
            key = name.partition(":")[2]
            position = POSITION.search(labels)
            if position:
                key += f" position {position[1]}"
            raise refuse(where, key, "a finite count, 0 or more", rest.strip())
        yield labels, value


def total(where: str, text: str, name: str) -> float:
    """The sum of a metric over all labels of a page; 0 if the page does not have it. Raises InputError."""
    return sum(value for _, value in samples(where, text, name))
