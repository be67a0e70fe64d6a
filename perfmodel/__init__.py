"""Computes whether an LLM server should use speculative decoding, and with which draft, draft length and
layout. Begin with ``import perfmodel as pm``.

To ask about one configuration, use `whatif`, `ops` or `sensitivity`. For lists of configurations, use
`sweep`. For a million calls, use `predictor`. To decide, use `advise`, `schedule`, `tree`, `hierarchy`,
`traffic` or `compare`. `inflection` finds the context at which speculation begins to pay off.

The arguments of a function are the flags of its command. Each argument is a number or a text
(``context="32k"``). A function also accepts a `Query`, followed by the arguments that replace values of the
query: ``whatif(query, batch=8)``. `explore` shows surfaces with sliders in a notebook. `models`, `gpus` and
`engines` list the known names. Every name is loaded on first use.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel import plots
    from perfmodel.answers.advice.advise import advise
    from perfmodel.answers.advice.schedule import schedule
    from perfmodel.answers.grid.sweep import sweep
    from perfmodel.answers.load.traffic import traffic
    from perfmodel.answers.point.compare import compare
    from perfmodel.answers.point.inflection import inflection
    from perfmodel.answers.point.ops import ops
    from perfmodel.answers.point.predictor import predictor
    from perfmodel.answers.point.sensitivity import sensitivity
    from perfmodel.answers.point.whatif import whatif
    from perfmodel.answers.question.query import Query
    from perfmodel.answers.trees.hierarchy import hierarchy
    from perfmodel.answers.trees.tree import tree
    from perfmodel.cli.frames import engines, gpus, models
    from perfmodel.errors import InputError
    from perfmodel.explorer.page import explore
    from perfmodel.specs.acceptance.acceptance_rows import published_rows as published_acceptance
    from perfmodel.specs.calibrations.by_engine import load_device as load_gpu
    from perfmodel.specs.calibrations.loading import load_calibration
    from perfmodel.specs.models.loading import load_model
    from perfmodel.specs.published import published_points

if not Path(__file__).with_name("validate").is_dir():  # a clone, where `validate/` lies next to `perfmodel/`
    # installed, `perfmodel.validate` is a folder of the package
    __path__.append(str(Path(__file__).parents[1]))

_VERBS = {
    "point": ("whatif", "ops", "sensitivity", "inflection", "compare", "predictor"),
    "advice": ("advise", "schedule"),
    "grid": ("sweep",),
    "trees": ("tree", "hierarchy"),
    "load": ("traffic",),
}
"""The verbs of each folder of `perfmodel.answers`. A verb is a function in a module of the same name."""
_ANSWERING = {verb for verbs in _VERBS.values() for verb in verbs}
_PLACES = {
    **{verb: (f"answers.{folder}.{verb}", verb) for folder, verbs in _VERBS.items() for verb in verbs},
    "Query": ("answers.question.query", "Query"),
    "InputError": ("errors", "InputError"),
    "load_model": ("specs.models.loading", "load_model"),
    "load_gpu": ("specs.calibrations.by_engine", "load_device"),
    "load_calibration": ("specs.calibrations.loading", "load_calibration"),
    "published_acceptance": ("specs.acceptance.acceptance_rows", "published_rows"),
    "published_points": ("specs.published", "published_points"),
    "models": ("cli.frames", "models"),
    "gpus": ("cli.frames", "gpus"),
    "engines": ("cli.frames", "engines"),
    "explore": ("explorer.page", "explore"),
    "plots": ("plots", ""),
}
"""For each public name: its module, and its name in this module. The name is empty if the module itself is
public.
"""
__all__ = [
    "whatif",
    "sweep",
    "ops",
    "sensitivity",
    "inflection",
    "advise",
    "schedule",
    "tree",
    "hierarchy",
    "traffic",
    "compare",
    "predictor",
    "explore",
    "Query",
    "InputError",
    "load_model",
    "load_gpu",
    "load_calibration",
    "published_acceptance",
    "published_points",
    "models",
    "gpus",
    "engines",
    "plots",
]


def __getattr__(name: str) -> Any:
    """Loads a name of `__all__` on first use, which keeps the import of this package light."""
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, inner = _PLACES[name]
    module = import_module(f"{__name__}.{place}")
    if not inner:
        return module
    if name in _ANSWERING:
        import_module(f"{__name__}.answers.answer").Answer.printed = _printed
    member = getattr(module, inner)
    if name.startswith("load_"):  # these functions name arguments as flags in their errors
        member = import_module(f"{__name__}.errors").in_names(member)
    return globals().setdefault(name, member)


def _printed(answer: Any) -> str:
    """The text of ``print(answer)``. Only this function loads the command line."""
    return str(import_module(f"{__name__}.cli.as_text").as_text(answer))


def __dir__() -> list[str]:
    return sorted(__all__)
