"""Lists the sets of measurements by name: published sets, and records of this project's decoder."""

from collections.abc import Iterable
from pathlib import Path

from perfmodel.errors import unknown_name
from perfmodel.validate.records import BUNDLED, RESULTS, Record, records

SETS = ("magicdec", "gptfast_decode", "speculation_other")
"""The published sets of times. The set ``gamma_optimal`` has no times, and only `best_gamma` uses it."""
UNGATED = "local-"
"""Beginning of the labels of users' machines. The accuracy check does not use the records of these
machines.
"""


def own_records(results: Path = RESULTS) -> dict[str, Record]:
    """Name -> record of passes and iterations in ``results/<machine>/``, without withdrawn records."""
    return {r.name: r for r in records(results) if r.data.kind == "measure"}


def gated_sets(results: Path = RESULTS, bundled: Path = BUNDLED) -> tuple[str, ...]:
    """The names of the sets in the accuracy check: all published sets and all records. Records of `UNGATED`
    machines in the bundled folder are left out.
    """
    names = [*own_records(results)]
    if results == bundled:
        names = [name for name in names if not name.startswith(UNGATED)]
    return (*SETS, *names)


def named_sets(names: Iterable[str], results: Path = RESULTS) -> tuple[str, ...]:
    """The names of sets. The label of a machine stands for all of its records. Raises InputError for unknown
    names.
    """
    known = (*SETS, *own_records(results))
    sets: list[str] = []
    for name in names:
        of_machine = [known_name for known_name in known if known_name.startswith(f"{name}/")]
        if name not in known and not of_machine:
            raise unknown_name("--set", "set of measurements", name, known)
        sets += of_machine or [name]
    return tuple(dict.fromkeys(sets))
