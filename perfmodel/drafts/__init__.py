"""Draft kinds, one file each, found by name in this folder; `make_draft` builds one from the words of a command line.

A new kind is a new file with one `Draft` subclass. Fields that it adds are the options of
``KIND:option=value,...``; a kind with a `shape` derives its model from the target's.
"""

import dataclasses
import os
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import Any

from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.kv.base import KVMethod
from perfmodel.specs import files
from perfmodel.specs.formats import Precision, weight_format
from perfmodel.specs.model import ModelSpec, load_model
from perfmodel.specs.published_heads import published_head

_BASE = {field.name for field in dataclasses.fields(Draft)}


@cache
def kinds() -> dict[str, type[Draft]]:
    """Word of the command line -> class of all kinds, sorted; imports them all."""
    return dict(sorted((kind, cls) for file in _files() for kind, cls in _declared(file).items()))


@cache
def _files() -> tuple[str, ...]:
    files = {name.partition(".")[0] for folder in __path__ for name in os.listdir(folder) if name.endswith(".py")}
    return tuple(sorted(files - {"__init__", "base"}))


def _declared(file: str) -> dict[str, type[Draft]]:
    """Word -> class of the kinds that one file of this folder declares."""
    module = import_module(f"{__name__}.{file}")
    classes = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Draft))
    return {cls.kind: cls for cls in classes if cls.__module__ == module.__name__}


def _kind(word: str) -> type[Draft] | None:
    """The kind of a word, looked for first in the file that is called like it, so that no other is imported."""
    for file in (word, f"{word}_draft"):
        if file in _files() and word in (declared := _declared(file)):
            return declared[word]
    return None if files.looks_like_path(word) else kinds().get(word)


def make_draft(
    name: str,
    target: ModelSpec,
    target_precision: Precision,
    target_tp: int,
    kv: KVMethod,
    *,
    tensor_parallel: int | None = None,
    weights: str | None = None,
    own_on: Collection[str] | None = None,
) -> Draft:
    """``self``, a kind such as ``eagle``, ``medusa:heads=4`` or ``parallel:MODEL``, a model, or a head's config.json.

    ``eagle3`` is the published head of the target (`specs.published_heads`), else an EAGLE head with three features.

    Degree and weight format default to the target's; own_on: with these peaks of the device the draft's default is its
    own checkpoint's format. Raises InputError for an unknown model or option.
    """
    degree = target_tp if tensor_parallel is None else tensor_parallel
    word, colon, rest = name.strip().partition(":")
    eagle3 = word.lower() == "eagle3"
    found = None if word.lower() == "model" else _kind("eagle" if eagle3 else word.lower())
    options: dict[str, Any] = {}
    head = _head(rest if found else name, target)
    if head is not None and (found is None or found.kind == head.kind):
        found, model, options = kinds()[head.kind], head.model, dict(head.options)
    elif found is None:
        found, model = kinds()["model"], load_model(name, "--draft")
    elif found.kind == "parallel":
        if not rest:
            raise refuse("--draft", None, "parallel:MODEL, the name or path of the drafter", name)
        model = load_model(rest, "--draft")
    else:
        listed = published_head(target.name, "eagle3") if eagle3 and not colon else None
        options = {"features": 3} if eagle3 else {}
        options |= {"features": listed.features, "vocab": listed.vocab} if listed else {}
        options |= _options(found, rest) if colon else {}
        shape = getattr(found, "shape", None)
        model = shape(target, options) if shape else target
        model = model.model_copy(update=listed.shape) if listed else model
    if found.kind == "self":
        options["target_weights"] = target_precision.weights.name  # another format is a second copy
    if weights is not None:
        form = weight_format(weights, "--draft-weights")
    elif own_on is None:
        form = target_precision.weights
    else:
        form = found.own_weights(model, target_precision.weights).within(own_on)
    return found(model, kv, degree, Precision(form, target_precision.kv), **options)


def _head(name: str, target: ModelSpec) -> Any:
    """The drafting head that a ``config.json``, or a folder that holds one, is of; None where it is not of one."""
    if not (name.endswith(".json") or os.path.isdir(name)):
        return None
    from perfmodel.specs.huggingface.heads import load_head  # most drafts are no file

    return load_head(name, target)


def _options(kind: type[Draft], text: str) -> dict[str, int]:
    """``option=value,...`` with whole numbers. Raises InputError for anything else."""
    known = [f.name for f in dataclasses.fields(kind) if f.name not in _BASE and f.type in (int, "int")]
    takes = f"it takes {', '.join(known)}, as in {kind.example}" if known else "it takes none"
    options: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in known:
            raise InputError(f"--draft: {kind.kind} has no option {part.strip()[:40]!r}; {takes}")
        if key in options:
            raise InputError(f"--draft: {kind.kind}: {key} is given twice")
        if not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise refuse("--draft", f"{kind.kind}: {key}", "a whole number", value)
        options[key] = int(value)
    return options
