"""The groups of public runs whose errors the tables state: by engine, by kind of step, by whether other
sources measured the device or model, and by draft.
"""

from collections.abc import Callable, Iterable, Mapping

from perfmodel.specs import load_model
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.judged_runs import JudgedRun
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.published_engines import engine_decode
from perfmodel.validate.studies.sources import TITLES

DATA_CENTRE = ("a100", "h100", "h200", "b200", "b300", "gb200", "gb300")
"""Prefixes of the names of NVIDIA's data-centre devices."""
Groups = list[tuple[str, list[JudgedRun]]]
"""Headings, and the rows under them."""
NOVELTIES: dict[str, Callable[[JudgedRun], str]] = {
    "device": lambda r: r.hardware,
    "model": lambda r: r.model,
}
"""What may be new in a row -> its name."""


SourcesOf = Mapping[tuple[str, str], set[str]]
"""Engine, with the name of a device or model -> the sources that measured its steps."""


def groups_of(rows: list[JudgedRun], sources_of: SourcesOf) -> Groups:
    """The rows by engine. Rows of serving engines are also grouped by whether another source measured their
    device or model, and by draft. Drafts that a known defect slows are only in a group of their own.
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
        ("data-centre devices of NVIDIA", data_centre),
        *_by_novelty(of_engines, sources_of),
        *by_draft.items(),
        ("slowed by a known defect", slowed),
    ]


def _by_novelty(rows: list[JudgedRun], sources_of: SourcesOf) -> Groups:
    """The rows whose device is measured in another source, and the other rows; then the same for models."""
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
    """The sources of each device and model (`SourcesOf`).

    - steps: the steps of public runs; those of the tables are added.
    """
    sources: dict[tuple[str, str], set[str]] = {}
    for r in steps:
        for name in (r.hardware, r.model):
            sources.setdefault((r.engine, name), set()).add(r.source)
    for row in engine_decode():
        for name in (row.hardware, load_model(row.model).name):
            sources.setdefault((row.engine, name), set()).add(row.source_id)
    return sources
