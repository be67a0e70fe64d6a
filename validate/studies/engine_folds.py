"""The kinds of folds of the fits of serving engines: which rows are held out together."""

from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple

from perfmodel.specs import Relation, release
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.steps import group_of

LONG_CONTEXT = 1024.0
"""Context, in tokens, above which a row has a long context."""
WIDE = 256.0
"""Number of verified tokens above which a verification is wide."""
RatioFold = Literal["seen", "version", "model", "draft", "context", "width", "transferred"]
SOURCE = "source"
"""The kind of fold that leaves out all steps of a source."""


class Fold(NamedTuple):
    """A kind of fold.

    - key: a function of a row. Rows with the same key are held out together.
    - words: the name of the fold in tables.
    - stated_as: the held-out rows in the description of a stated error; empty if no file states it.
    - ratio: for steps, the kind of fold whose errors of ratios are stated together with those of steps.
    """

    key: Callable[[Any], Hashable]
    words: str
    stated_as: str = ""
    ratio: RatioFold = "seen"


STEP_FOLDS: dict[Relation, Fold] = {
    "seen": Fold(
        group_of,
        "model x device x degree",
        "at one degree of a device, left out where another degree was seen",
    ),
    "version": Fold(
        lambda row: (row.engine, version_of(row)), "version", "of versions left out whole", "version"
    ),
    "model": Fold(lambda row: (row.engine, row.model), "model", "of models left out whole", "model"),
    "gpu": Fold(lambda row: row.hardware, "device", "of devices left out whole", "model"),
    "transferred": Fold(
        lambda row: row.hardware,
        "device and its kernels",
        "of devices left out whole, with the kernels of another",
        "transferred",
    ),
    "maker": Fold(
        lambda row: row.hardware,
        "maker of the device",
        "of a device of another maker, with the kernels of an H200",
        "transferred",
    ),
}
"""Relation of a question to the fitted rows -> the folds of steps that measure its error, from the least to
the most novel relation. The last two relations have the constants of "gpu", which were fitted without the
device.
"""
RATIO_FOLDS: dict[RatioFold, Fold] = {
    "seen": Fold(lambda row: row.group, "draft length or task", "draft lengths or tasks"),
    "version": Fold(lambda row: f"{row.engine} {release(row.version)[:2]}", "version", "versions"),
    "model": Fold(lambda row: row.study, "study", "studies"),
    "draft": Fold(lambda row: row.kind, "kind of draft"),
    "context": Fold(lambda row: "long" if row.context > LONG_CONTEXT else "short", "context"),
    "width": Fold(lambda row: "wide" if row.tokens > WIDE else "narrow", "tokens verified at once"),
    "transferred": Fold(lambda row: row.engine, "engine", "engines"),
}
"""Kind of fold -> the folds of ratios (an iteration over a step)."""
