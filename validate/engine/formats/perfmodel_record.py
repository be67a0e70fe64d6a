"""Records of ``perfmodel validate engine`` itself: a live server's times, or an earlier calibration's rows."""

from typing import Any

from perfmodel.specs import files
from perfmodel.validate.engine.record import EngineRecord
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "records of perfmodel validate engine"
KEYS = ({"subject", "points"},)


def read(where: str, data: dict[str, Any], said: Said) -> list[Timing]:
    """Its timed points; those that failed have none."""
    record = files.parse(EngineRecord, data, where)
    return [point.timing(where) for point in record.points if point.status == "ok"]
