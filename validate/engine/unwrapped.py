"""Takes the output of a program out of the format in which another program keeps it: log files with one JSON
object per line, answers of Prometheus, a part of a JSON object, JSON behind a command, and tables in HTML.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_MESSAGES = ("log", "message", "msg")
"""Keys of the text in a record of a log."""
_STAMPS = frozenset(
    ("stream", "time", "timestamp", "@timestamp", "ts", "asctime", "level", "levelname", "severity")
)
"""Keys that a record of a log has besides its text. Docker's records can lack them."""
_PART = re.compile(r'\s*"[^"\n]+"\s*:\s*[{\[]')
"""The beginning of a part of a JSON object: a key and its value."""
_CELL_ENDS = re.compile(r"\s*</t[dh]>\s*", re.I)
_HTML = (
    (re.compile(r"\s*<tr\b[^>]*>\s*", re.I), "\n| "),
    (_CELL_ENDS, " | "),
    (re.compile(r"<t[dh]\b[^>]*>\s*", re.I), ""),
    (re.compile(r"</tr>", re.I), "\n"),
    (re.compile(r"</?(?:table|thead|tbody|b|i|strong|em|code|sub|sup|br|p)\b[^>]*>", re.I), ""),
)
"""Tags of a table, and their replacements in a table with bars."""
_JSON_LINES = re.compile(r"^[ \t]*[{\[].*[}\]][ \t]*$", re.M | re.S)
"""From the first line that begins like JSON to the last line that ends like JSON."""


def unwrapped(text: str) -> str:
    """The text inside the format of another program. Any other text is returned unchanged."""
    text = _of_command(text)
    if text.lstrip().startswith("{"):
        return _of_records(text) or _of_prometheus(text) or text
    if _PART.match(text):
        return _of_part(text)
    return _of_html(text)


def _of_command(text: str) -> str:
    """The JSON behind a command or below a few words, if it is the longer part; any other text unchanged."""
    found = _JSON_LINES.search(text)
    if found is None or 2 * len(found[0]) < len(text):
        return text
    with suppress(ValueError, RecursionError):
        json.loads(found[0])
        return found[0]
    return text


def _of_records(text: str) -> str | None:
    """The messages of a log with one JSON object per line; None for any other text. A last line that was cut
    off is left out.
    """
    messages = []
    records = [_object(line) for line in text.splitlines()]
    if len(records) > 1 and not records[-1]:
        records.pop()
    for record in records:
        message = next((record[key] for key in _MESSAGES if isinstance(record.get(key), str)), None)
        if message is None or not ("log" in record or _STAMPS & record.keys()):
            return None
        messages.append(message.rstrip("\n"))
    return "\n".join(messages)


def _of_prometheus(text: str) -> str | None:
    """The latest samples in an answer of Prometheus, as a page of metrics; None for any other text."""
    data = _object(text).get("data")
    results = data.get("result") if isinstance(data, dict) else None
    if not isinstance(results, list):
        return None
    return "\n".join(line for result in results for line in _sample(result)) or None


def _sample(result: Any) -> Iterator[str]:
    """The line of a page for a metric in an answer; none if it has no name or no value."""
    with suppress(KeyError, TypeError, IndexError, AttributeError):
        labels = dict(result["metric"])
        name = labels.pop("__name__")
        _, value = result["value"] if "value" in result else result["values"][-1]
        pairs = ",".join(f"{key}={json.dumps(str(words))}" for key, words in labels.items())
        yield f"{name}{{{pairs}}} {value}"


def _of_part(text: str) -> str:
    """A part of a JSON object as an object; any other text unchanged."""
    whole = "{" + text.strip().rstrip(",") + "}"
    return whole if _object(whole) else text


def _of_html(text: str) -> str:
    """The text with the tables of HTML as lines with bars."""
    if not _CELL_ENDS.search(text):
        return text
    for tag, replacement in _HTML:
        text = tag.sub(replacement, text)
    return text


def _object(text: str) -> dict[str, Any]:
    """The JSON object in a text; an empty one for any other text."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {}
