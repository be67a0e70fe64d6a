"""Records of ``perfmodel validate engine`` itself: a live server's times, or an earlier calibration's rows."""

from typing import Any

from perfmodel.specs import files
from perfmodel.validate.engine.record import EngineRecord, is_record
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "records of perfmodel validate engine"


def is_format(data: dict[str, Any]) -> bool:
    """Whether it is one."""
    return is_record(data)


def read(where: str, data: dict[str, Any], said: Said) -> list[Timing]:
    """Its timed points; those that failed have none."""
    record = files.parse(EngineRecord, data, where)
    return [point.timing(where) for point in record.points if point.status == "ok"]
