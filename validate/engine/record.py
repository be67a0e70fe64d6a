"""The record of an engine's timings and of the served configuration, as JSON with raw samples. Only this
module reads such records.
"""

import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from perfmodel.answers.question import Query
from perfmodel.answers.question.resolving import draft_kv
from perfmodel.reading import parse_json, read_text
from perfmodel.specs import Frozen, files
from perfmodel.validate.engine.timing import Seconds, Timing
from perfmodel.validate.records import check_record, version

WORD = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,60}\Z"
"""Pattern of the name and the version of an engine in a file name."""


class EngineSubject(Frozen):
    """The served configuration, with the names of a question's fields.

    - weights, kv_dtype: the formats of weights and cache; None means those of the checkpoint.
    """

    model: str
    hardware: str
    tp: Annotated[int, Meta(ge=1)]
    draft: str
    draft_kv: str
    draft_tp: int | None = None
    weights: str | None = None
    draft_weights: str | None = None
    kv_dtype: str | None = None
    draft_kv_dtype: str | None = None
    engine: Annotated[str, Meta(pattern=WORD)]
    engine_version: Annotated[str, Meta(pattern=WORD)]

    @classmethod
    def of(cls, query: Query, engine: str, version: str) -> "EngineSubject":
        """The parts of a question that name the served configuration."""
        values = {name: getattr(query, name) for name in cls.__struct_fields__ if hasattr(query, name)}
        values |= {
            "draft": query.draft or "self",
            "draft_kv": draft_kv(query),
            "engine": engine,
            "engine_version": version,
        }
        return files.parse(cls, values, "--engine, --version")


class EnginePoint(Timing):
    """One timed step, or a failed one with its error.

    - samples: seconds, reduced to at most 200 evenly spaced values of the sorted samples.
    """

    key: str
    status: Literal["ok", "failed"] = "ok"
    error: str | None = None
    utc: str | None = None
    seconds: Seconds = 0.0

    @classmethod
    def of(cls, key: str, timing: Timing, utc: str | None = None) -> "EnginePoint":
        """A timing as a row of the record, without the file that it came from."""
        return cls(**structs.asdict(timing) | {"key": key, "utc": utc, "where": ""})

    def timing(self, where: str) -> Timing:
        """The row as a timing."""
        fields = {name: getattr(self, name) for name in Timing.__struct_fields__}
        return Timing.checked(**fields | {"where": f"{where}: {self.key}"})


class EngineRecord(Frozen):
    """The record that ``perfmodel validate engine`` writes next to a calibration, and after a run against a
    server.
    """

    crc32: Annotated[str, Meta(pattern=r"^[0-9a-f]{8}\Z")] | None = None
    schema_version: Literal[1]
    kind: Literal["engine"]
    machine: str
    hardware: str
    date: datetime.datetime
    perfmodel_version: str
    subject: EngineSubject
    sources: tuple[str, ...] = ()
    partial: bool = False
    """Whether some points failed."""
    points: Annotated[tuple[EnginePoint, ...], Meta(min_length=1)]


def stamp() -> str:
    """The present time (UTC) in the format of record names."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


def record_header(machine: str, subject: EngineSubject, sources: tuple[str, ...] = ()) -> dict[str, Any]:
    """All fields of a record except its points."""
    return {
        "schema_version": 1,
        "kind": "engine",
        "machine": machine,
        "hardware": subject.hardware,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "perfmodel_version": version(),
        "subject": subject.as_mapping(),
        "sources": list(sources),
    }


def read_engine_record(path: Path) -> EngineRecord:
    """Reads and checks a record. Raises InputError, which names the file and the key."""
    text = read_text(path)
    check_record(path, text)
    return files.parse(EngineRecord, parse_json(str(path), text), str(path))
