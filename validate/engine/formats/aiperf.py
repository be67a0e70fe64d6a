"""``aiperf profile`` exports (0.13, ``profile_export_aiperf.json``): one run a file.

Its inter-token latency is (request latency - time to first token) / (tokens - 1): the TPOT of the other clients.
"""

from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.text import is_count
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "aiperf profile (profile_export_aiperf.json)"
KEYS = ({"inter_token_latency", "input_config"},)


def read(where: str, run: dict[str, Any], said: Said) -> list[Timing]:
    """The run's step."""
    prompt, output = (number(where, run, f"{of}_sequence_length.avg") for of in ("input", "output"))
    tpot = _seconds(where, run, "inter_token_latency")
    drafted = speculation(where, said, _chunk(where, run) if said.gamma else None, None)
    batch = needed(where, "batch", _concurrency(run.get("input_config")) or said.batch)
    ttft, prompts = _seconds(where, run, "time_to_first_token"), number(where, run, "request_count.avg")
    return [of_client(where, tpot, drafted, batch, (prompt, output), ttft, prompts)]


def _chunk(where: str, run: dict[str, Any]) -> float | None:
    """Tokens of a streamed piece, an iteration's where the server streams each: time between pieces over tokens."""
    pieces = optional(where, run, "inter_chunk_latency.avg")
    return pieces / positive(where, run, "inter_token_latency.avg") if pieces else None


def _seconds(where: str, run: dict[str, Any], metric: str) -> float:
    found = run.get(metric)
    unit = found.get("unit") if isinstance(found, dict) else None
    if unit not in ("ms", "s", "sec"):
        raise refuse(where, f"{metric}.unit", "ms or s", unit)
    return number(where, run, f"{metric}.p50") / (1e3 if unit == "ms" else 1.0)


def _concurrency(config: Any) -> float | None:
    """The outermost `concurrency` of the configuration, wherever a version keeps it."""
    parts = [config]
    for part in parts:  # which grows on the way
        value = part.get("concurrency") if isinstance(part, dict) else None
        if is_count(value) and value:
            return float(value)
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return None
