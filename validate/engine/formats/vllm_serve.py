"""``vllm bench serve --save-result`` (0.20 to 0.33), best with ``--save-detailed``; appended results are several.

iteration = Omega x TPOT. A detailed file has every chunk's time: where chunks hold as many tokens as an iteration
gains, a chunk is an iteration, and their median is free of other requests' prefill.
"""

from dataclasses import replace
from typing import Any

from perfmodel.validate.engine.acceptance import vllm as acceptance
from perfmodel.validate.engine.formats.fields import (
    bunched,
    median,
    number,
    numbers,
    objects,
    of_client,
    optional,
    positive,
    thinned,
)
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "vllm bench serve --save-result"
ONE_CHUNK = 0.05
"""Share by which chunks may hold more or fewer tokens than an iteration gains and still be one each."""


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether every object is a result."""
    return all("max_concurrency" in run and "endpoint_type" in run and "duration" in run for run in data)


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """One step a result."""
    many = len(data) > 1
    return [_run(f"{where}: result {n}" if many else where, run, said) for n, run in enumerate(data, 1)]


def _run(where: str, run: dict[str, Any], said: Said) -> Timing:
    length, gained = _speculation(where, run, said)
    completed = positive(where, "completed", number(where, run, "completed"))
    prompt = _mean(numbers(where, run, "input_lens")) or number(where, run, "total_input_tokens") / completed
    output = _mean(numbers(where, run, "output_lens")) or number(where, run, "total_output_tokens") / completed
    tpot = positive(where, "median_tpot_ms", number(where, run, "median_tpot_ms")) / 1e3
    ttft = _ttft(where, run)
    asked = optional(where, run, "max_concurrency") or said.batch
    batch = min(asked, completed) if asked else _by_little(where, run)
    chunks = [gap for gaps in objects(where, run, "itls") for gap in numbers(where, {"itls": gaps}, "itls")]
    tokens = sum(numbers(where, run, "output_lens")) - completed
    step = of_client(where, tpot, (length, gained), batch, (prompt, output), ttft, completed)
    if not chunks or abs(tokens / len(chunks) / gained - 1) > ONE_CHUNK or bunched(chunks):
        return step
    return replace(
        step,
        seconds=positive(where, "itls", median(chunks)),
        tokens_per_iteration=tokens / len(chunks),
        how="median time between chunks, one an iteration",
        prefill_share=0.0,
        samples=thinned(chunks),
    )


def _speculation(where: str, run: dict[str, Any], said: Said) -> tuple[int, float]:
    if acceptance.BENCH not in run:
        return speculation(where, said, None, None)
    counters = acceptance.of_bench(where, run)
    counters.check(where)
    return speculation(where, said, counters.tokens_per_iteration, len(counters.accepted))


def _by_little(where: str, run: dict[str, Any]) -> float:
    """Requests in flight on average, where no concurrency was set."""
    latencies = numbers(where, run, "latencies")
    return positive(where, "latencies", sum(latencies) / number(where, run, "duration") if latencies else 0.0)


def _ttft(where: str, run: dict[str, Any]) -> float | None:
    found = optional(where, run, "median_ttft_ms")
    return None if found is None else found / 1e3


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
