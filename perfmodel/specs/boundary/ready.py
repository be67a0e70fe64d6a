"""Bundled files as they were read and checked: of these an answer needs neither YAML nor pydantic's
validators.

``python -m perfmodel.specs`` writes the index beside the files, a line for each; a line counts only for the
text that it was made of, so that a file that somebody changed is read itself.
"""

import datetime
import json
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin
from zlib import crc32

from perfmodel.specs.boundary.frozen import Frozen, annotations

READY = "ready.json"
Spec = TypeVar("Spec", bound=Frozen)


def line(name: str, text: bytes, spec: Frozen) -> str:
    """The line of a file; `made` is the inverse."""
    stated = spec.model_dump(mode="json", exclude_defaults=True)
    return f"{_start(name)}[{crc32(text)}, {json.dumps(stated, ensure_ascii=False)}]"


def ready(spec: type[Spec], index: Path, name: str, text: bytes) -> Spec | None:
    """The file of a name, if the index was made of this text."""
    start = _start(name)
    with index.open(encoding="utf-8") as lines:
        of_it = next((line for line in lines if line.startswith(start)), None)
    if of_it is None:
        return None
    crc, stated = json.loads(of_it.removeprefix(start).rstrip(",\n"))
    return made(spec, stated) if crc == crc32(text) else None


def made(kind: Any, stated: Any) -> Any:
    """A value of an annotation from its JSON form, unchecked."""
    if kind is datetime.date:
        return datetime.date.fromisoformat(stated)
    if isinstance(stated, str | float | int | None):
        return stated
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Frozen):
        fields = annotations(kind)
        return kind.model_construct(**{name: made(fields[name], value) for name, value in stated.items()})
    if get_origin(kind) is tuple:
        members = arguments[:1] * len(stated) if arguments[1:] == (...,) else arguments
        return tuple(made(member, value) for member, value in zip(members, stated, strict=True))
    if get_origin(kind) is dict:
        key, value = arguments
        return {int(name) if key is int else name: made(value, inner) for name, inner in stated.items()}
    chosen = [argument for argument in arguments if isinstance(argument, type) or get_args(argument)]
    return made(chosen[0], stated)  # what is annotated, or may be None


def _start(name: str) -> str:
    return f"  {json.dumps(name)}: "
