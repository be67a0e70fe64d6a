"""``vllm bench serve --save-result`` (0.20 to 0.33), best with ``--save-detailed``; appended results are several.

iteration = Omega x TPOT. A detailed file has every chunk's time: where chunks hold as many tokens as an iteration
gains, a chunk is an iteration, and their median is free of other requests' prefill.
"""

import statistics
from dataclasses import replace
from typing import Any

from perfmodel.validate.engine.acceptance import vllm as acceptance
from perfmodel.validate.engine.formats import fields
from perfmodel.validate.engine.formats.fields import number, numbers, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "vllm bench serve --save-result"
KEYS = ({"max_concurrency", "endpoint_type", "duration"},)
ONE_CHUNK = 0.05
"""Share by which chunks may hold more or fewer tokens than an iteration gains and still be one each."""


def read(where: str, run: dict[str, Any], said: Said) -> list[Timing]:
    """The result's step."""
    length, gained = _speculation(where, run, said)
    completed = positive(where, run, "completed")
    prompt = _mean(numbers(where, run, "input_lens")) or number(where, run, "total_input_tokens") / completed
    output = _mean(numbers(where, run, "output_lens")) or number(where, run, "total_output_tokens") / completed
    tpot, ttft = positive(where, run, "median_tpot_ms") / 1e3, optional(where, run, "median_ttft_ms")
    asked = optional(where, run, "max_concurrency") or said.batch
    # without a concurrency, requests in flight on average
    batch = min(asked, completed) if asked else sum(numbers(where, run, "latencies")) / positive(where, run, "duration")
    chunks = [gap for gaps in fields.objects(where, run, "itls") for gap in numbers(where, {"itls": gaps}, "itls")]
    tokens = sum(numbers(where, run, "output_lens")) - completed
    ttft_s = None if ttft is None else ttft / 1e3
    step = fields.of_client(where, tpot, (length, gained), batch, (prompt, output), ttft_s, completed)
    if not chunks or abs(tokens / len(chunks) / gained - 1) > ONE_CHUNK or fields.bunched(chunks):
        return [step]
    by_chunk = replace(
        step,
        seconds=statistics.median(chunks),
        tokens_per_iteration=min(max(tokens / len(chunks), 1.0), length + 1.0),
        how="median time between chunks, one an iteration",
        prefill_share=0.0,
        samples=fields.thinned(chunks),
    )
    return [by_chunk]


def _speculation(where: str, run: dict[str, Any], said: Said) -> tuple[int, float]:
    if acceptance.BENCH not in run:
        return speculation(where, said, None, None)
    counters = acceptance.of_bench(where, run)
    counters.check(where)
    return speculation(where, said, counters.tokens_per_iteration, len(counters.accepted))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
