"""Cleans text of other programs, for example from colours and decimal commas, and reads JSON objects. Errors
have one line that names the place.
"""

import json
import math
import re
from collections.abc import Iterable
from textwrap import dedent
from typing import Any, NamedTuple, TypeGuard

from perfmodel.errors import InputError
from perfmodel.reading import parse_json
from perfmodel.validate.engine.foreign_words import in_english
from perfmodel.validate.engine.unwrapped import unwrapped

MAX_COUNT = 1e18
"""Largest number in a text. Sums of such numbers stay finite."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r(?=\n)")
"""A control sequence of a terminal, or the carriage return of a line end of Windows."""
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")
_WITH_COMMA = re.compile(r"(?<![\d.,])(?:(\d{1,3}(?:\.\d{3})+|\d+),(\d{1,2})|(0),(\d+))(?![\d,.])")
"""A number such as 1.201,33 or 0,58974."""
_WITH_POINT = re.compile(r"\d\.\d")
"""A number with a decimal point. The commas of a cell with such a number are not decimal commas."""
_LIST = re.compile(r"\{|[\[(]\s*\d+\s*,\s*\d+\s*[,\])]")
"""A mapping or a list of whole numbers such as [1, 2]. Their commas are not decimal commas."""
_FIGURE = re.compile(r"(?:[-–—]|[~≈]?\d[\d,.]*\s*(?:%|x|×|tok/s|t/s|tokens/s)?|)", re.I)
"""A cell of a table with a figure, or an empty one."""
_HEAD = re.compile(r"(?=.*[A-Za-z])\D.*[^:]|[A-Za-z]")
"""A cell that can be part of the heading of a table."""
_BETWEEN_CELLS = (re.compile(r"\t"), re.compile(r","), re.compile(r";"), re.compile(r"\s{2,}"))
"""Separators of the cells in tables without bars."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)')
"""A string in JSON. The last one can lack its end."""
_FENCE = re.compile(r"^[ \t>]*```.*\n?", re.M)
_PREFIXES = (
    # a quotation
    re.compile(r"> ?"),
    # docker compose: vllm-1  | INFO ...
    re.compile(r"(?P<name>[\w./-]+) +\|(?: |$)"),
    # a time: 2026-11-02T10:00:00Z ...
    re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? "),
    # journalctl: Nov 02 10:00:00 host vllm[7]: ...
    re.compile(r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+ [^\s:]+: ?"),
)
"""Prefixes that are removed if every line has them."""
_RECORD = re.compile(
    r"(?:\(\S+ pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
)
"""The start of a line in a log of vLLM or SGLang."""
NARROWEST, WIDEST = 70, 200
"""Range of widths, in columns, at which terminals and editors break lines."""
_LONG_RUN = re.compile(rf"((.)\2{{{WIDEST - 1}}})\2+", re.S)
"""A run of one character that is longer than the widest line, as in damaged files, progress bars and padding.
The first group is as long as the widest line. Some patterns need 100 s for a run of 20,000 digits.
"""


class NamedText(NamedTuple):
    """A text, and the name of its place for messages."""

    where: str
    text: str


def plain(text: str) -> str:
    """A cleaned text. Colours, code fences and prefixes of all lines are removed, runs of one character are
    shortened to `WIDEST`, and broken lines are joined. Cells of tables are separated by bars, and
    numbers such as 38,70 have decimal points. Words about speeds are in English.
    """
    short = in_english(_without_long_runs(unwrapped(_without_long_runs(text))))
    lines = _FENCE.sub("", _COLOUR.sub("", short)).split("\n")
    for prefix in _PREFIXES:
        lines = _unprefixed(lines, prefix)
    lines = _barred(dedent("\n".join(_unwrapped(lines))).split("\n"))
    return "\n".join(map(_with_points, lines))


def _without_long_runs(text: str) -> str:
    return _LONG_RUN.sub(r"\1", text)


def _unprefixed(lines: list[str], prefix: re.Pattern[str]) -> list[str]:
    """The lines without their prefix, if all of them have it. If the prefix has the name of a container, all
    lines must have the same name.
    """
    names = set[str]()
    for line in filter(None, lines):
        before = prefix.match(line)
        if before is None:
            return lines
        names.add(before.groupdict().get("name", ""))
    if len(names) > 1:
        return lines
    return [prefix.sub("", line, count=1) for line in lines]


def _unwrapped(lines: list[str]) -> list[str]:
    """Joins the parts of log lines that a terminal broke at its last column, or that an editor broke between
    two words.
    """
    width = max(map(len, lines))
    if not NARROWEST <= width <= WIDEST:
        return lines
    records: list[list[str]] = []
    for line in lines:
        of_log = records and _RECORD.match(records[-1][0]) and not _RECORD.match(line)
        if of_log and _is_full(records[-1][-1], line, width):
            records[-1].append(line)
        else:
            records.append([line])
    at_words = any(len(part) < width for record in records for part in record[:-1])
    if at_words:
        return [" ".join(part.rstrip() for part in record) for record in records]
    return ["".join(record) for record in records]


def _barred(lines: list[str]) -> list[str]:
    """The lines, with bars between the cells of tables instead of tabs, commas, semicolons or spaces. A table
    has a heading of words. All cells below it are figures or empty, except in the first column.
    """
    barred = list(lines)
    for n, head in enumerate(lines):
        for between in _BETWEEN_CELLS:
            words = between.split(head.strip())
            if len(words) < 2 or not all(map(_is_word, words)):
                continue
            below = _rows_of(lines, n + 1, between, len(words))
            if below:
                barred[n : n + 1 + len(below)] = [" | ".join(cells) for cells in (words, *below)]
                break
    return barred


def _is_word(cell: str) -> bool:
    """Whether a cell can be part of a heading: it has a letter, does not begin with a digit, and does not end
    with a colon.
    """
    return _HEAD.fullmatch(cell.strip()) is not None


def _rows_of(lines: list[str], first: int, between: re.Pattern[str], columns: int) -> list[list[str]]:
    """The cells of the rows of a table, from the line with the index `first` to the end of the table."""
    rows = []
    for n in range(first, len(lines)):
        cells = between.split(lines[n].strip())
        if len(cells) != columns or not all(_FIGURE.fullmatch(cell.strip()) for cell in cells[1:]):
            break
        rows.append(cells)
    return rows


def _is_full(line: str, after: str, width: int) -> bool:
    """Whether a line has no room for the first word of the line after it.

    - width: the number of columns of a full line.
    """
    word = after.split(" ", maxsplit=1)[0]
    return bool(word) and len(line.rstrip()) + 1 + len(word) > width


def _with_points(line: str) -> str:
    """A line with decimal points instead of decimal commas. Lines with a list and cells with a decimal point
    stay as they are.
    """
    if _LIST.search(line):
        return line
    return "|".join(map(_cell_with_points, line.split("|")))


def _cell_with_points(cell: str) -> str:
    converted = _WITH_COMMA.sub(_with_point, cell)
    return cell if _WITH_POINT.search(_WITH_COMMA.sub("", cell)) else converted


def _with_point(number: re.Match[str]) -> str:
    whole, decimals = number[1] or number[3], number[2] or number[4]
    return f"{whole.replace('.', '')}.{decimals}"


def is_json(text: str) -> bool:
    """Whether a text begins like a JSON object or a list of objects. A date in brackets does not count."""
    return _JSON.match(text) is not None


def parse_objects(where: str, text: str) -> list[dict[str, Any]]:
    """Reads one JSON object, a list of objects, or one object per line. Raises InputError."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: must not be nested so deeply") from None
    except ValueError:
        if ends_early(text):
            raise InputError(f"{where}: ends in the middle of a JSON object: paste all of it") from None
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        data = [parse_json(f"{where}: line {n}", line) for n, line in lines]
    objects = data if isinstance(data, list) else [data]
    if not objects or not all(isinstance(item, dict) for item in objects):
        raise InputError(f"{where}: must hold JSON objects, one for each request")
    return objects


def ends_early(text: str) -> bool:
    """Whether a text opens more brackets than it closes, as JSON does if its end is missing."""
    bare = _STRING.sub("", text)
    return sum(map(bare.count, "{[")) > sum(map(bare.count, "}]"))


def floats(words: Iterable[str]) -> list[float]:
    """The words as numbers. All results are NaN if one word is not a number."""
    numbers = list(words)
    try:
        return [float(word) for word in numbers]
    except ValueError:
        return [math.nan] * len(numbers)


def is_count(value: object) -> TypeGuard[float]:
    """Whether a value is a number from 0 to `MAX_COUNT`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
