"""Sets of measurements by name: the published ones, and own records."""

from collections.abc import Iterable
from pathlib import Path

from perfmodel.errors import unknown_name
from perfmodel.validate.records import BUNDLED, RESULTS, Record, records

SETS = ("magicdec", "gptfast_decode", "speculation_other")
"""Published sets of times. `gamma_optimal` has no time; `best_gamma` uses it."""
UNGATED = "local-"
"""Labels of users' machines. Their records are read when named, and enter no gate."""


def own_records(results: Path = RESULTS) -> dict[str, Record]:
    """Own whole-pass records in ``results/<machine>/`` that are not withdrawn, by name."""
    return {r.name: r for r in records(results) if r.data.kind == "measure"}


def gated_sets(results: Path = RESULTS, bundled: Path = BUNDLED) -> tuple[str, ...]:
    """The sets that the gate replays: all published ones and all own records.

    Results of `UNGATED` machines in the bundled folder are left out.
    """
    names = [*own_records(results)]
    if results == bundled:
        names = [name for name in names if not name.startswith(UNGATED)]
    return (*SETS, *names)


def named_sets(names: Iterable[str], results: Path = RESULTS) -> tuple[str, ...]:
    """Sets by name. A machine's label means all of its records. Raises InputError for other names."""
    known = (*SETS, *own_records(results))
    sets: list[str] = []
    for name in names:
        of_machine = [known_name for known_name in known if known_name.startswith(f"{name}/")]
        if name not in known and not of_machine:
            raise unknown_name("--set", "set of measurements", name, known)
        sets += of_machine or [name]
    return tuple(dict.fromkeys(sets))
