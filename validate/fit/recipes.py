"""Which constants are fitted for which device and stack, and why the others are not: ``recipes.yaml``.

Constants that a set of measurements cannot determine stay at the value of the literature calibration that a
recipe starts from; each recipe's `notes` and `pinned` say so where the reason is not obvious. Where a fit
looks for a constant stands with its declaration, in perfmodel/specs/calibrations/calibration.py.
"""

from pathlib import Path

from msgspec import field

from perfmodel.errors import unknown_name
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen


class Recipe(Frozen):
    """How one fitted calibration is made.

    base: the calibration that it starts from. free: names of the constants that are fitted. pinned: name ->
    (value, why), where it differs from the base.
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
    stated = files.read_mapping(path)
    return {
        name: files.parse(Recipe, {"name": name, **recipe}, f"{path}: {name}")
        for name, recipe in stated.items()
    }


RECIPES = _read(Path(__file__).with_suffix(".yaml"))


def recipe_of(name: str) -> Recipe:
    """A recipe by the name of its calibration. Raises InputError."""
    if name not in RECIPES:
        raise unknown_name("NAME", "fitted calibration", name, RECIPES)
    return RECIPES[name]
