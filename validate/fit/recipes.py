"""Reads ``recipes.yaml``, which lists the constants that are fitted for each device and stack.

Constants that the measurements cannot determine keep the values of the calibration from which a recipe
starts. The `notes` and `pinned` of a recipe state the reasons that are not obvious. The module
perfmodel/specs/calibrations/calibration.py declares the search range of each constant.
"""

from pathlib import Path

from msgspec import field

from perfmodel.errors import unknown_name
from perfmodel.specs import Frozen, files


class Recipe(Frozen):
    """The recipe of one fitted calibration.

    - base: the calibration from which the fit starts.
    - set_name: the published set of measurements.
    - free: the names of the fitted constants.
    - pinned: constant -> value and reason, for constants that are not fitted but differ from the base.
    - shards_lm_head: whether the stack divides the LM head among tensor-parallel ranks.
    """

    name: str
    gpu: str
    stack: str
    base: str
    set_name: str
    free: tuple[str, ...]
    pinned: dict[str, tuple[float, str]] = field(default_factory=dict)
    shards_lm_head: bool = True
    notes: str = ""

    def __hash__(self) -> int:
        return hash(self.name)


def _read(path: Path) -> dict[str, Recipe]:
    recipes = {}
    for name, recipe in files.read_mapping(path).items():
        recipes[name] = files.parse(Recipe, {"name": name, **recipe}, f"{path}: {name}")
    return recipes


RECIPES = _read(Path(__file__).with_suffix(".yaml"))
"""Name of a fitted calibration -> its recipe."""


def recipe_of(name: str) -> Recipe:
    """The recipe of a fitted calibration. Raises InputError for an unknown name."""
    if name not in RECIPES:
        raise unknown_name("NAME", "fitted calibration", name, RECIPES)
    return RECIPES[name]
