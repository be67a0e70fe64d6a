"""Writes device and calibration files from measurements, with one key per line and a source for each
figure.
"""

from pathlib import Path

import yaml

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.specs import Frozen, files
from perfmodel.writing import destination, write_all


def as_yaml(value: Frozen, comment: str) -> str:
    """The YAML text of a value, with the comment as its first line."""
    lines = [f"# {comment}"]
    for key, entry in value.as_mapping(exclude_defaults=True).items():
        shown = yaml.safe_dump(
            entry, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
        )
        lines.append(f"{key}: {shown.removesuffix(chr(10)).removesuffix('...').rstrip()}")
    return "\n".join(lines) + "\n"


def destination_of(path: Path) -> Path:
    """Creates the folder of an output file and checks that the file can be written. It is called before the
    work begins. Raises InputError, which names --out.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {path}: {error.strerror or error}") from None
    return destination(path, ".yaml", ".yml", flag="--out")


def write_yaml(value: Frozen, path: Path, comment: str, *others: tuple[Path, str]) -> Path:
    """Writes the value as YAML, and `others` (path, text). Either all files are written or none.

    Raises InputError if the file exists with other contents, and for values that the reader of such a file
    would refuse.
    """
    text = as_yaml(value, comment)
    files.parse(type(value), value.as_mapping(), str(path))
    if destination_of(path).exists() and read_text(path) != text:
        raise InputError(f"--out: {path} exists with other contents; name a new file or remove it first")
    write_all({path: text, **dict(others)}, "--out")
    return path
