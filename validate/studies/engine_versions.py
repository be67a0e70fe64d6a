"""Finds the engine version of a published row: the stated version, or the newest version on the day of the
run.
"""

from perfmodel.validate.studies.published_engines import DecodeRow, EngineSpeculationRow

DATED = {
    "trtllm": {"2025-10-29": "1.1.0rc2", "2026-01-29": "1.2.0rc6", "2026-05-18": "1.3.0rc14"},
    "sglang": {"2026-01-13": "0.5.7", "2026-02-06": "0.5.9", "2026-05-15": "0.5.12"},
}
"""Engine -> first day -> version that runs from this day on are assumed to use."""


def dated(engine: str, day: str) -> str:
    """The assumed version of an engine on a day (YYYY-MM-DD); empty if no version of that time is listed."""
    since = [start for start in DATED.get(engine, {}) if start <= day]
    return DATED[engine][max(since)] if since else ""


def version_of(row: DecodeRow | EngineSpeculationRow) -> str:
    """The engine version of a row: the stated version, or the assumed version on its day (`dated`).
    TensorRT-LLM's gpt-oss branch counts as 1.2.0rc0.
    """
    if row.engine_version == "gpt-oss-dev":
        return "1.2.0rc0"
    if row.engine_version == "not stated":
        return dated(row.engine, row.date)
    return row.engine_version
