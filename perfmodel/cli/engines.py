"""``perfmodel engines``: the engines of ``--engine``, and the measurements of each."""

from dataclasses import dataclass
from typing import Any

from perfmodel.cli.catalogue import Catalogue, Fact, app_of
from perfmodel.errors import InputError
from perfmodel.specs.calibrations.by_engine import devices_of
from perfmodel.specs.calibrations.engine_words import ENGINES, parse_engine
from perfmodel.specs.engines.engines import FittedEngine, engines
from perfmodel.specs.engines.stacks import lender_of


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine that ``--engine`` accepts.

    - fitted: the measurements to which a serving engine was fitted; None if there are none.
    """

    name: str
    fitted: FittedEngine | None

    def measured(self, kind: str) -> list[str]:
        """Names of the devices with measured baseline steps (kind ``measured``) or measured iterations with a
        draft (kind ``speculating``), sorted.
        """
        return sorted(getattr(self.fitted, kind, ()))


def load(name: str, flag: str) -> EngineFacts:
    """An engine by its name. Raises InputError for an unknown name."""
    word = parse_engine(name, flag).partition("@")[0]
    return EngineFacts(word, engines().engines.get(word))


def _describe(engine: EngineFacts) -> dict[str, Any]:
    description: dict[str, Any] = {
        "name": engine.name,
        "title": ENGINES[engine.name],
        "calibrations": [*devices_of(engine.name).values()],
    }
    if engine.fitted is None:
        return description
    names = ("versions", "measured", "speculating", "drafts", "longest_tokens", "widest_tokens")
    return description | {name: getattr(engine.fitted, name) for name in names}


def _faults(engine: EngineFacts) -> list[str]:
    """The reason why no question about this engine can be answered; empty if there is none."""
    if devices_of(engine.name):
        return []
    try:
        lender = lender_of(engine.name)
    except InputError as error:
        return [error.as_flags]
    return [] if lender else [f"{engine.name}: no device has a calibration of it"]


CATALOGUE = Catalogue(
    verb="engines",
    example="vllm",
    noun="engine",
    names=lambda: tuple(ENGINES),
    load=load,
    columns=(
        Fact("name", "name", lambda e: e.name),
        Fact("title", "engine", lambda e: ENGINES[e.name], left=True),
        Fact(
            "versions",
            "versions measured",
            lambda e: list(e.fitted.versions) if e.fitted else [],
            lambda versions: ", ".join(versions) or "-",
            left=True,
            spare=1,
        ),
        Fact("calibrations", "devices", lambda e: len(devices_of(e.name))),
        Fact("measured", "steps of", lambda e: e.measured("measured"), lambda v: str(len(v))),
        Fact("speculating", "iterations of", lambda e: e.measured("speculating"), lambda v: str(len(v))),
    ),
    describe=_describe,
    argument="ENGINE",
    faults=_faults,
)
app = app_of(CATALOGUE)
