"""vLLM's own benchmarks: ``vllm bench serve`` and ``forward``."""

import statistics
from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.acceptance import vllm as acceptance
from perfmodel.validate.engine.formats.fields import (
    bunched,
    check_in_flight,
    found,
    number,
    numbers,
    objects,
    of_client,
    optional,
    positive,
    thinned,
    unfailed,
)
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation

ONE_CHUNK = 0.05
"""Relative difference between the tokens of a chunk and those of an iteration up to which each chunk is one
iteration.
"""


def serve(where: str, run: dict[str, Any], given: GivenFacts) -> list[Timing]:
    """``vllm bench serve --save-result`` (0.20 to 0.33), preferably with ``--save-detailed``. Appended
    results are several objects.

    iteration = Omega x TPOT. A detailed file has the time of every chunk. If chunks hold as many tokens as an
    iteration gains, a chunk is an iteration, and their median is free of other requests' prefill.
    """
    counters = acceptance.of_bench(where, run) if acceptance.BENCH in run else None
    if counters:
        counters.check(where)
        length, gained = speculation(where, given, counters.tokens_per_iteration, len(counters.accepted))
    else:
        length, gained = speculation(where, given, None, None)
    unfailed(where, run, "failed")
    completed = positive(where, run, "completed")
    inputs = numbers(where, run, "input_lens")
    outputs = numbers(where, run, "output_lens")
    prompt = statistics.fmean(inputs) if inputs else number(where, run, "total_input_tokens") / completed
    output = statistics.fmean(outputs) if outputs else number(where, run, "total_output_tokens") / completed
    tpot = positive(where, run, "median_tpot_ms") / 1e3
    ttft = optional(where, run, "median_ttft_ms")
    concurrency = optional(where, run, "max_concurrency") or given.batch
    # without a concurrency, requests in flight on average
    if concurrency:
        batch = min(concurrency, completed)
    else:
        in_flight = sum(numbers(where, run, "latencies")) / positive(where, run, "duration")
        batch = needed(where, "batch", in_flight or None)
    if concurrency:
        check_in_flight(where, run, batch, completed, output)
    chunks = [gap for gaps in objects(where, run, "itls") for gap in numbers(where, {"itls": gaps}, "itls")]
    tokens = sum(outputs) - completed
    ttft_s = None if ttft is None else ttft / 1e3
    step = of_client(where, tpot, (length, gained), batch, (prompt, output), ttft_s, completed)
    if not chunks or abs(tokens / len(chunks) / gained - 1) > ONE_CHUNK or bunched(chunks):
        return [step]
    by_chunk = {
        "seconds": statistics.median(chunks),
        "tokens_per_iteration": min(max(tokens / len(chunks), 1.0), length + 1.0),
        "how": "median time between chunks, one an iteration",
        "prefill_share": 0.0,
        "samples": thinned(chunks),
    }
    return [Timing.checked(**step.as_mapping() | by_chunk)]


def forward(where: str, case: dict[str, Any], given: GivenFacts) -> list[Timing]:
    """``vllm bench forward --output-json`` (0.33): exact batches through the model as one CUDA graph.

    A decode case gives T_T, a verify case T_V(K) of one draft length, a prefill or mixed case nothing.
    Sampling and all work of the host are excluded. The passes of a configured drafter are included, unless
    ``--exclude-drafter`` is given (see `ranks[0].timing_scope`).
    """
    requests = case["requests"]
    if not isinstance(requests, list) or not requests or not all(isinstance(r, dict) for r in requests):
        raise refuse(where, "requests", "a list of requests", requests)
    sizes = [[number(where, r, key) for key in ("query_len", "kv_len", "num_draft_tokens")] for r in requests]
    lengths = {drafted for _, _, drafted in sizes}
    if len(lengths) > 1 or any(query != drafted + 1 or kv <= query for query, kv, drafted in sizes):
        return []
    rank = (objects(where, case, "ranks") or [{}])[0]
    scope = found(rank, "timing_scope") or "target_only"
    samples_us = numbers(where, rank, "latency_us.samples_us")
    timed = scope.replace("_", " ")
    timing = Timing.checked(
        where=where,
        kind="pass_with_draft" if scope == "target_and_drafter" else "pass",
        seconds=positive(where, case, "median_us") / 1e6,
        batch=float(len(requests)),
        context=statistics.fmean(kv - query for query, kv, _ in sizes),
        gamma=int(lengths.pop()),
        how=f"median of graph replays, {timed}",
        samples=thinned([us / 1e6 for us in samples_us]),
    )
    return [timing]
