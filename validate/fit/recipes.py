"""Reads ``recipes.yaml``, which lists the constants that are fitted for each device and stack, and says why
others are not.

Constants that the measurements cannot determine keep the value of the literature calibration from which a
recipe starts. Its `notes` and `pinned` state the reasons that are not obvious. The module
perfmodel/specs/calibrations/calibration.py declares the search range of each constant.
"""

from pathlib import Path

from msgspec import field

from perfmodel.errors import unknown_name
from perfmodel.specs import Frozen, files


class Recipe(Frozen):
    """The recipe of one fitted calibration.

    - base: the calibration from which the fit starts.
    - free: names of the fitted constants.
    - pinned: name -> (value, reason), for constants that are not fitted but differ from the base.
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


def recipe_of(name: str) -> Recipe:
    """The recipe of the calibration `name`. Raises InputError."""
    if name not in RECIPES:
        raise unknown_name("NAME", "fitted calibration", name, RECIPES)
    return RECIPES[name]
