"""A roofline model of LLM speculative decoding with sparse-KV drafts: ``import perfmodel as pm``.

Ask: `whatif` (one point), `sweep` (lists), `ops`, `sensitivity`. Decide: `advise`, `schedule`, `tree`, `hierarchy`,
`moe`, `traffic`, `serving`, `compare`. Turned round: `inverse`, `inflection`. Every function takes the arguments that
the command line has flags for, as numbers or as text (``context="32k"``), or a `Query` with some of them changed.
Everything is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel import plots
    from perfmodel.answers.advise import advise
    from perfmodel.answers.compare import compare
    from perfmodel.answers.hierarchy import hierarchy
    from perfmodel.answers.inflection import inflection
    from perfmodel.answers.inverse import inverse
    from perfmodel.answers.moe import moe
    from perfmodel.answers.ops import ops
    from perfmodel.answers.query import Query
    from perfmodel.answers.schedule import schedule
    from perfmodel.answers.sensitivity import sensitivity
    from perfmodel.answers.serving import serving
    from perfmodel.answers.sweep import sweep
    from perfmodel.answers.traffic import traffic
    from perfmodel.answers.tree import tree
    from perfmodel.answers.whatif import whatif
    from perfmodel.errors import InputError
    from perfmodel.specs.acceptance_rows import published_rows as published_acceptance
    from perfmodel.specs.calibration import load_calibration
    from perfmodel.specs.gpu import load_gpu
    from perfmodel.specs.model import load_model
    from perfmodel.specs.published import published_points

__all__ = ["whatif", "sweep", "ops", "sensitivity", "inverse", "inflection", "advise", "schedule", "tree", "hierarchy",
           "moe", "traffic", "serving", "compare", "Query", "InputError", "load_model", "load_gpu", "load_calibration",
           "published_acceptance", "published_points", "plots"]  # fmt: skip
_PLACES = {
    "Query": ("answers.query", "Query"),
    "InputError": ("errors", "InputError"),
    "load_model": ("specs.model", "load_model"),
    "load_gpu": ("specs.gpu", "load_gpu"),
    "load_calibration": ("specs.calibration", "load_calibration"),
    "published_acceptance": ("specs.acceptance_rows", "published_rows"),
    "published_points": ("specs.published", "published_points"),
    "plots": ("plots", ""),
}
"""Name -> the module that has it, and its name there; the others are verbs, each in a module of its name."""


def __getattr__(name: str) -> Any:
    """One of `__all__`, loaded: importing this package stays light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, inner = _PLACES.get(name, (f"answers.{name}", name))
    module = import_module(f"{__name__}.{place}")
    if not inner:
        return module
    found = getattr(module, inner)
    if name.startswith("load_"):  # below the answers messages are for the command line
        found = import_module(f"{__name__}.errors").in_names(found)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted(__all__)
