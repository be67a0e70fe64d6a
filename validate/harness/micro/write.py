"""Device and calibration files of what was measured: one key a line, figures with their source on it."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from perfmodel.errors import InputError


def as_yaml(value: BaseModel, comment: str) -> str:
    """The text of a file, its first line the comment."""
    data: dict[str, Any] = value.model_dump(mode="json", exclude_defaults=True)
    lines = [f"# {comment}"]
    for key, entry in data.items():
        shown = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
        lines.append(f"{key}: {shown.removesuffix(chr(10)).removesuffix('...').rstrip()}")
    return "\n".join(lines) + "\n"


def write_yaml(value: BaseModel, path: Path, comment: str) -> Path:
    """The file of `as_yaml`. Raises InputError where it exists with other contents."""
    text = as_yaml(value, comment)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"--out: {path} exists with other contents; name a new file or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
