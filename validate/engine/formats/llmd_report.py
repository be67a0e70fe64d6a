"""Benchmark reports of llm-d (0.2 and 0.2.1, JSON or YAML; ``llmd-benchmark-report``): one run a file.

Its request latencies are statistics with a unit; the median is taken. Acceptance is not in it.
"""

from typing import Any

from perfmodel.answers.llmd_report import PREDICTED
from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import found, number, of_client, optional
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "llm-d benchmark report 0.2 (JSON or YAML)"
KEYS = ({"scenario", "run", "results"},)
_AT = "results.request_performance.aggregate"
SECONDS = {"s/token": 1.0, "ms/token": 1e-3, "s": 1.0, "ms": 1e-3, "us": 1e-6}


def read(where: str, report: dict[str, Any], said: Said) -> list[Timing]:
    """The run's step."""
    if PREDICTED in (report["run"].get("keywords") or () if isinstance(report["run"], dict) else ()):
        raise refuse(where, "run.keywords", "those of a run", f"{PREDICTED!r}: a prediction is no measurement")
    prompt, output = (number(where, report, f"{_AT}.requests.{of}_length.mean") for of in ("input", "output"))
    tpot, ttft = (_seconds(where, report, name) for name in ("time_per_output_token", "time_to_first_token"))
    batch = needed(where, "batch", optional(where, report, "scenario.load.standardized.concurrency") or said.batch)
    prompts = number(where, report, f"{_AT}.requests.total")
    return [of_client(where, tpot, speculation(where, said, None, None), batch, (prompt, output), ttft, prompts)]


def _seconds(where: str, report: dict[str, Any], metric: str) -> float:
    """The median of a latency, or its mean where that is all."""
    place = found(report, f"{_AT}.latency.{metric}")
    unit = place.get("units") if isinstance(place, dict) else None
    if unit not in SECONDS:
        raise refuse(where, f"latency.{metric}.units", " or ".join(SECONDS), unit)
    middle = optional(where, place, "p50")
    return (number(where, place, "mean") if middle is None else middle) * SECONDS[unit]
