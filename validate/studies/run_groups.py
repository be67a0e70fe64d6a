"""Groups the measured figures of `judged_runs` for the tables of errors.

The groups are by engine, by kind of step, and by draft. For serving engines, there are also groups by whether
another source measured the same device or model.
"""

from collections.abc import Callable, Iterable, Mapping

from perfmodel.specs import load_model
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.judged_runs import JudgedRun
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_answers import TITLES
from perfmodel.validate.studies.published_engines import engine_decode

DATA_CENTRE = ("a100", "h100", "h200", "b200", "b300", "gb200", "gb300")
"""Prefixes of the names of NVIDIA's data-centre devices."""
Groups = list[tuple[str, list[JudgedRun]]]
"""Pairs of a heading and the figures under it."""
NOVELTIES: dict[str, Callable[[JudgedRun], str]] = {
    "device": lambda r: r.hardware,
    "model": lambda r: r.model,
}
"""Property that can be new in a figure -> a function that returns the name of the device or model."""
SourcesOf = Mapping[tuple[str, str], set[str]]
"""(engine, name of a device or model) -> the sources that measured its steps."""


def groups_of(rows: list[JudgedRun], sources_of: SourcesOf) -> Groups:
    """The groups of the figures of `judged`, in the order of the tables.

    Drafts that a known defect slows are only in the last group.
    """
    slowed = [r for r in rows if r.slowed]
    rows = [r for r in rows if not r.slowed]
    by_engine = grouped(rows, lambda r: TITLES[r.engine])
    llamacpp_steps = [r for r in rows if r.kind and not r.draft]
    by_kind = grouped(llamacpp_steps, lambda r: "llama.cpp, " + r.kind.replace("_", ", "))
    of_engines = [r for r in rows if r.engine in ENGINES]
    data_centre = [r for r in of_engines if r.hardware.startswith(DATA_CENTRE)]
    by_draft = grouped([r for r in of_engines if r.draft], lambda r: f"draft {r.draft}")
    return [
        ("all", of_engines),
        *by_engine.items(),
        *by_kind.items(),
        ("NVIDIA data-centre devices", data_centre),
        *_by_novelty(of_engines, sources_of),
        *by_draft.items(),
        ("slowed by a known defect", slowed),
    ]


def _by_novelty(rows: list[JudgedRun], sources_of: SourcesOf) -> Groups:
    """Two groups for devices and two for models: the figures whose device or model another source measured,
    and the other figures.
    """
    groups: Groups = []
    for word, name_of in NOVELTIES.items():
        elsewhere: list[JudgedRun] = []
        new: list[JudgedRun] = []
        for r in rows:
            sources = sources_of.get((r.engine, name_of(r)), set())
            if sources - {r.source}:
                elsewhere.append(r)
            else:
                new.append(r)
        groups += [(f"{word} in other sources", elsewhere), (f"new {word}", new)]
    return groups


def sources_by_name(steps: Iterable[JudgedRun]) -> dict[tuple[str, str], set[str]]:
    """The sources that measured each device and model (`SourcesOf`).

    - steps: the steps of public runs. The sources of ``engine_decode.csv`` are added to them.
    """
    sources: dict[tuple[str, str], set[str]] = {}
    for r in steps:
        for name in (r.hardware, r.model):
            sources.setdefault((r.engine, name), set()).add(r.source)
    for row in engine_decode():
        for name in (row.hardware, load_model(row.model).name):
            sources.setdefault((row.engine, name), set()).add(row.source_id)
    return sources
