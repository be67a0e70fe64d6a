"""Reads and checks YAML and JSON files.

An argument with a path separator or a file suffix is a path. Any other argument is the name or an alias of a
bundled file.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import convert

from perfmodel.errors import InputError, about_file, one_line, shortened, unknown_name
from perfmodel.reading import data_folder, exists, is_folder, read_text
from perfmodel.specs.boundary.strict_yaml import read_yaml

MAX_FILE_BYTES = 4 * 2**20
"""Size limit of a data file. The largest bundled file has 24 kB. A file of weights that was named by mistake
is refused before it is read.
"""
SUFFIXES = (".yaml", ".yml", ".json", ".gguf")
"""Suffixes of data files."""
NOT_IN_A_WORD = r"(?<![\w-])"
"""A pattern for a place that no word precedes."""
NEW_LINE = "\n"
Spec = TypeVar("Spec")


def data_directory(folder: str) -> Path:
    """The path of one folder of bundled files, such as ``gpus``, ``calibrations`` or ``models``."""
    return data_folder("models") if folder == "models" else data_folder("hardware") / folder


@cache
def bundled_names(folder: str) -> tuple[str, ...]:
    """The names of all bundled files of a folder, sorted."""
    return tuple(sorted([name[:-5] for name in os.listdir(data_directory(folder)) if name.endswith(".yaml")]))


def load_bundled(spec: type[Spec], folder: str, name: str) -> Spec:
    """Reads a bundled file by its exact name."""
    path = data_directory(folder) / f"{name}.yaml"
    return parse(spec, read_mapping(path), str(path))


def read_mapping(path: Path, infinity: bool = False) -> dict[str, Any]:
    """Reads one YAML or JSON file, which must contain a mapping.

    - infinity: whether JSON may contain ``Infinity``, as Python writes it.

    Raises InputError, which names the file, if the file is missing, too large, not text, malformed or not a
    mapping.
    """
    with about_file(path):
        text = read_text(path, MAX_FILE_BYTES)
        return mapping_of(text, "JSON" if path.suffix == ".json" else "YAML", infinity)


def mapping_of(
    text: str, language: Literal["JSON", "YAML"] = "YAML", infinity: bool = False
) -> dict[str, Any]:
    """The mapping in a text (see `read_mapping`). Raises InputError if the text is malformed or not a
    mapping.
    """
    try:
        data = _read_json(text, infinity) if language == "JSON" else read_yaml(text)
    except (ValueError, RecursionError, OverflowError) as error:
        detail = one_line(str(error))[:200] or type(error).__name__
        raise InputError(f"must be valid {language}: {detail}") from None
    if not isinstance(data, dict):
        raise InputError(f"must hold a mapping of keys to values, given {type(data).__name__}")
    return data


def _printable(value: Any) -> Any:
    """The same value with every text on one line and without control characters, as `read_yaml` returns
    it.
    """
    if isinstance(value, str):
        return value if value.isprintable() else one_line(value)
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, list) else value


def _read_json(text: str, infinity: bool) -> Any:
    """The value of a text. A refusal gives the line and no key, because the file may be of another kind."""

    def constant(name: str) -> float:
        if infinity and name == "Infinity":
            return math.inf
        raise ValueError(f"{name} in {_line_of(text, NOT_IN_A_WORD + name)} is not allowed")

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) == len(pairs):
            return keys
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        line = _line_of(text, re.escape(json.dumps(repeated)))
        raise ValueError(f"the key in {line} is given twice")

    return _printable(json.loads(text, parse_constant=constant, object_pairs_hook=table))


def _line_of(text: str, pattern: str) -> str:
    """The line of the first place of a pattern, such as ``line 3``. The result is ``a line`` if the pattern
    does not occur, as with an escaped key.
    """
    place = re.search(pattern, text)
    if place is None:
        return "a line"
    before = text[: place.start()]
    return f"line {before.count(NEW_LINE) + 1}"


def parse(spec: type[Spec], data: dict[str, Any], where: str) -> Spec:
    """Checks a mapping and converts it to a record. For the first fault, it raises InputError with the file,
    the key, the allowed values and the given value. If the mapping has none of the required keys, the file
    counts as a file of another kind. The message then quotes nothing of the file.
    """
    try:
        return convert(data, spec, str_keys=True)
    except (ValueError, OverflowError):  # OverflowError: a number with thousands of digits
        from perfmodel.specs.boundary.faults import find_fault, required  # imported late, for refusals only

        place, message = find_fault(spec, data)
    needed = required(spec)
    with about_file(where):
        if needed and not data.keys() & needed:
            raise InputError(f"must have the keys {', '.join(needed)}, and has none of them")
        key = ".".join(shortened(str(part)) for part in place)
        raise InputError(f"{where}: {key + ': ' if key else ''}{message}")


def newest(path: Path, pattern: str) -> Path:
    """The newest file in a folder whose name matches a pattern. The names must begin with the time when the
    file was written. A path that is not a folder is returned unchanged.
    """
    if is_folder(path):
        return max(path.glob(pattern), default=path)
    return path


def looks_like_path(name: str) -> bool:
    """Whether a name looks like the path of a file, and not like a bundled name."""
    return "/" in name or "\\" in name or name.endswith(SUFFIXES)


def refuse_missing(name: str, flag: str) -> None:
    """Raises InputError for the path of a file or folder that does not exist. A name with one slash can also
    be an id of Hugging Face, and is no path.
    """
    if name.startswith(("./", "../", "/", "~")) and not exists(name):
        raise InputError(f"{flag}: there is no file or folder {shortened(name)!r}")


def spelling(name: str) -> str:
    """The form in which a name is looked up: lower case, with words joined by ``-``."""
    return "-".join(name.replace("_", " ").lower().split())


def alias_table(
    folder: str,
    keys: tuple[str, ...],
    names_of: Callable[[dict[str, Any]], Iterable[str]],
    words: Sequence[str] = (),
) -> dict[str, str]:
    """A table from the spelling of an alias to the bundled name that lists it.

    - keys: the keys whose lines contain names. Only these lines are parsed, because parsing all files would
      take longer than an answer.
    - words: words that the lines of a file must contain. Other files are left out.

    The files come with the package, so their location is not checked.
    """
    where = data_directory(folder)
    table = dict[str, str]()
    naming = re.compile(rf"^(?:{'|'.join(keys)}): .*", re.MULTILINE)
    for name in bundled_names(folder):
        text = (where / f"{name}.yaml").read_text(encoding="utf-8")
        lines = "\n".join(naming.findall(text))
        if words and not all(word in lines.lower() for word in words):
            continue
        for alias in names_of(read_yaml(lines)):
            table[spelling(alias)] = name
    return table


OWN_FILE = {
    "models": "For any other model name the one it was tuned from, or give a file, such as ./config.json",
    "gpus": "For any other device give a file of its peaks, such as ./mine.yaml (docs/gpu.md)",
}
"""For each folder: how to ask about something that is not in it."""


def bundled_name(
    folder: str, noun: str, name: str, flag: str, aliases: Callable[[], Mapping[str, str]] = dict
) -> str:
    """The name of a bundled file, from its name or an alias. The function `aliases` returns the table of
    aliases. It is called only if needed.

    Raises InputError, which lists the most similar names, for an unknown name.
    """
    known = bundled_names(folder)
    key = spelling(name)
    if key in known:
        return key
    if key in aliases():
        return aliases()[key]
    joined = {found for alias, found in aliases().items() if alias.replace("-", "") == key.replace("-", "")}
    if len(joined) != 1:
        raise unknown_name(flag, noun, name, known, aliases(), OWN_FILE.get(folder, ""))
    return joined.pop()
