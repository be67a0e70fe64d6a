"""Makes the JSON Schema of an answer from its type. The schema describes the output of ``--json`` and of
`Answer.as_dict`.
"""

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from inspect import getdoc, unwrap
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from perfmodel.answers.answer import SCHEMA_VERSION
from perfmodel.answers.declaration import Question, Verb, arguments
from perfmodel.answers.readers import Parsed
from perfmodel.costs.pass_time import PassTime

ANSWERS = ("whatif", "ops", "inflection", "advise", "schedule", "tree", "hierarchy", "traffic", "compare")
"""Verbs whose answers have a published schema. These are all verbs except `sweep`, whose answer is a table.
"""
MORE: dict[type, dict[str, Any]] = {PassTime: {"comm_s": float, "fixed_s": float, "limiter": str}}
"""Type of an answer -> the keys that its `as_dict` has in addition to its fields."""


def schema(verb: Verb[..., Any]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `as_dict` returns for an answer.

    - verb: the function that answers, such as `whatif`.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": verb.__name__,
        **msgspec.json.schema(answer_type(verb)),
    }


def given_schema(question: type[Question]) -> dict[str, Any]:
    """The JSON Schema of the arguments of a question. The schema describes the values that Python and the
    command line accept.
    """
    hints = get_type_hints(question)
    taken = {}
    for name, argument in arguments(question).items():
        text = argument.help
        if argument.default:
            text += f" Default: {argument.default}."
        taken[name] = {"description": text, **msgspec.json.schema(_accepted_type(hints[name]))}
        if argument.choices:
            taken[name]["enum"] = [*argument.choices]
    needed = [f.name for f in fields(question) if f.name in taken and f.default is MISSING]
    return {"type": "object", "properties": taken, "required": needed, "additionalProperties": False}


def _accepted_type(hint: Any) -> Any:
    """The type of the values that a field accepts, without types that JSON does not have."""
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Parsed:
        return _accepted_type(inner[1])
    if origin in (Union, UnionType):
        kept = [each for each in inner if not (isinstance(each, type) and each.__module__ != "builtins")]
        return Union[tuple(map(_accepted_type, kept))]  # noqa: UP007
    if origin is Sequence:
        return list[_accepted_type(inner[0])]  # type: ignore[misc]
    return hint


def answer_type(verb: Verb[..., Any]) -> type[msgspec.Struct]:
    """The type of the JSON answer of a function such as `whatif`. `msgspec.convert` can read JSON into this
    type.
    """
    whole = _struct(get_type_hints(unwrap(verb))["return"])
    versioned = [("schema_version", Literal[SCHEMA_VERSION])]
    return msgspec.defstruct(
        whole.__name__,
        versioned,
        bases=(whole,),
        namespace={"__doc__": whole.__doc__},
        forbid_unknown_fields=True,
    )


@cache
def _struct(answer_class: Any) -> type[msgspec.Struct]:
    """A struct with the fields of a dataclass. The struct refuses all other fields. `answer_class` may be an
    alias with type arguments.
    """
    made: Any = get_origin(answer_class) or answer_class
    hints = get_type_hints(made)
    names = arguments(made) if issubclass(made, Question) else [f.name for f in fields(made)]
    given = dict(zip(getattr(made, "__parameters__", ()), get_args(answer_class), strict=False))
    every = {name: hints[name] for name in names} | MORE.get(made, {})
    members = [(name, _json(hint, given)) for name, hint in every.items()]
    return msgspec.defstruct(
        made.__name__, members, namespace={"__doc__": getdoc(made)}, forbid_unknown_fields=True
    )


def _json(hint: Any, given: dict[Any, Any]) -> Any:
    """Converts the type of a field to the type of its JSON value.

    - given: the type for each type variable. A variable without a type becomes a number.
    """
    if isinstance(hint, TypeVar):
        return given.get(hint, float)
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Parsed:
        return _json(inner[0], given)
    if is_dataclass(origin or hint):
        return _struct(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_json(each, given) for each in inner)]  # noqa: UP007
    if origin in (tuple, dict, list):
        return origin[tuple(each if each is ... else _json(each, given) for each in inner)]
    return hint
