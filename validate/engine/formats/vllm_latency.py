"""``vllm bench latency --output-json`` (0.20 to 0.33): whole runs, prompt included; batch and lengths are not in it.

Two files that differ in output length alone make a step: the difference of their times over that of their tokens.
"""

from typing import Any

from perfmodel.validate.engine.formats.fields import median, middle, numbers, positive
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "vllm bench latency --output-json"


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether it is one."""
    return len(data) == 1 and "avg_latency" in data[0] and "latencies" in data[0]


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """One whole run. Raises InputError where batch, input or output is not said."""
    length, gained = speculation(where, said, None, None)
    batch, prompt, output = (needed(where, key, getattr(said, key)) for key in ("batch", "input", "output"))
    latencies = numbers(where, data[0], "latencies")
    return [
        Timing(
            where=where,
            kind="total",
            seconds=positive(where, "latencies", median(latencies) if latencies else 0.0),
            batch=batch,
            context=middle(prompt, output),
            gamma=length,
            tokens_per_iteration=gained,
            prompt=prompt,
            output=output,
            how="median of whole runs",
            samples=tuple(latencies),
        )
    ]
