"""``perfmodel kv``: the KV methods of a draft."""

import dataclasses
import inspect
from typing import Any

from perfmodel import validate
from perfmodel.cli.catalogue import Catalogue, Fact, app_of
from perfmodel.kv import KVMethod, method, names, parse_kv
from perfmodel.plugins import names_in


def load(text: str, flag: str) -> KVMethod:
    """A KV method from its spelling. A name without options gets the options of the method's example."""
    return parse_kv(method(text).example if text in names() else text, flag)


def _options(kv: KVMethod) -> dict[str, Any]:
    """Option -> its default, or ``required``."""
    fields: Any = dataclasses.fields(kv)  # type: ignore[arg-type]
    return {f.name: "required" if f.default is dataclasses.MISSING else f.default for f in fields}


def _spell(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _runs(kv: KVMethod) -> str:
    """Whether the decoder of `validate` runs a method, in words."""
    views = names_in(f"{folder}/decoder/kv" for folder in validate.__path__)
    return "runs" if kv.name in views else "predicted only"


def _describe(kv: KVMethod) -> dict[str, Any]:
    return {
        "name": kv.name,
        "aliases": list(kv.aliases),
        "what": inspect.getdoc(type(kv)),
        "options": _options(kv),
        "this": kv.label(),
        "decoder": _runs(kv),
        "source": kv.source,
    }


CATALOGUE = Catalogue(
    verb="kv",
    example="streamingllm:512",
    noun="KV method",
    names=names,
    load=load,
    columns=(
        Fact("name", "name", lambda kv: kv.name),
        Fact("aliases", "also", lambda kv: list(kv.aliases) or None, ", ".join, left=True, spare=1),
        Fact("options", "options", lambda kv: _options(kv) or None, _spell, left=True, spare=2),
        Fact("example", "example", lambda kv: kv.example, left=True),
        Fact("decoder", "decoder", _runs, left=True),
        Fact("source", "source", lambda kv: kv.source, left=True, spare=3),
    ),
    describe=_describe,
    argument="METHOD[:BUDGET]",
    faults=lambda kv: (
        []
        if parse_kv(kv.label()) == kv
        else [f"{kv.label()}: differs from the method that its own label names"]
    ),
)
app = app_of(CATALOGUE)
