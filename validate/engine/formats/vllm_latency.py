"""``vllm bench latency --output-json`` (0.20 to 0.33): whole runs, prompt included; batch and lengths are not in it.

Two files that differ in output length alone make a step: the difference of their times over that of their tokens.
"""

import statistics
from typing import Any

from perfmodel.validate.engine.formats.fields import middle, numbers
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "vllm bench latency --output-json"
KEYS = ({"avg_latency", "latencies"},)


def read(where: str, run: dict[str, Any], said: Said) -> list[Timing]:
    """One whole run. Raises InputError where batch, input or output is not said."""
    length, gained = speculation(where, said, None, None)
    batch, prompt, output = (needed(where, key, getattr(said, key)) for key in ("batch", "input", "output"))
    latencies = numbers(where, run, "latencies")
    timing = Timing(
        where=where,
        kind="total",
        seconds=statistics.median(latencies) if latencies else 0.0,
        batch=batch,
        context=middle(prompt, output),
        gamma=length,
        tokens_per_iteration=gained,
        prompt=prompt,
        output=output,
        how="median of whole runs",
        samples=tuple(latencies),
    )
    return [timing]
