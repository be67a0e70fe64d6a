"""Reads the results of vLLM's own benchmarks: ``vllm bench serve`` and ``vllm bench forward``."""

import statistics
from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.acceptance.vllm_json import BENCH, of_bench
from perfmodel.validate.engine.formats.fields import (
    bunched,
    check_in_flight,
    number,
    numbers,
    objects,
    of_client,
    optional,
    positive,
    thinned,
    unfailed,
    value_at,
)
from perfmodel.validate.engine.timing import (
    GivenFacts,
    RequestLengths,
    SpeculatedTokens,
    Timing,
    needed,
    speculation,
)

ONE_CHUNK = 0.05
"""Largest relative difference between the tokens per chunk and the tokens per iteration with which each chunk
counts as one iteration.
"""


def serve(where: str, run: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The time of a step or an iteration, from a result of ``vllm bench serve --save-result`` (vLLM 0.20 to
    0.33). With ``--save-detailed`` the time is more accurate. A file with appended results has several
    objects.

    An iteration takes the tokens per iteration times the TPOT. A detailed file has the time between chunks.
    If a chunk has about as many tokens as an iteration gains, each chunk is one iteration. The median time
    between chunks is then used, because the prefill of other requests does not change it.
    """
    drafted = _speculated(where, run, facts)
    unfailed(where, run, "failed")
    completed = positive(where, run, "completed")
    prompt = _mean_length(where, run, "input_lens", "total_input_tokens")
    output = _mean_length(where, run, "output_lens", "total_output_tokens")
    tpot_s = positive(where, run, "median_tpot_ms") / 1e3
    ttft_ms = optional(where, run, "median_ttft_ms")
    ttft_s = None if ttft_ms is None else ttft_ms / 1e3
    batch = _batch(where, run, facts, completed, output)
    step = of_client(where, tpot_s, drafted, batch, RequestLengths(prompt, output), ttft_s, completed)
    return [Timing.checked(**step.as_mapping() | _by_chunk(where, run, drafted, completed))]


def _speculated(where: str, run: dict[str, Any], facts: GivenFacts) -> SpeculatedTokens:
    """The draft length and the tokens per iteration, from the counters of a run if it has them."""
    if BENCH not in run:
        return speculation(where, facts, None, None)
    counters = of_bench(where, run)
    counters.check(where)
    return speculation(where, facts, counters.tokens_per_iteration, len(counters.accepted))


def _batch(where: str, run: dict[str, Any], facts: GivenFacts, completed: float, output: float) -> float:
    """The number of concurrent requests: the stated number, or else the mean that follows from the times.

    - completed: the number of requests of the run.
    - output: the mean number of tokens of an answer.
    """
    concurrency = optional(where, run, "max_concurrency") or facts.batch
    if not concurrency:
        return needed(where, "batch", _in_flight(where, run) or _decoding(where, run))
    batch = min(concurrency, completed)
    check_in_flight(where, run, batch, completed, output)
    return batch


def _by_chunk(where: str, run: dict[str, Any], drafted: SpeculatedTokens, completed: float) -> dict[str, Any]:
    """The fields of a timing that follow from the times between chunks. They are empty if the file does not
    have these times, or if a chunk is not one iteration.
    """
    gaps_s = _gaps_between_chunks(where, run)
    if not gaps_s:
        return {}
    chunk_tokens = (sum(numbers(where, run, "output_lens")) - completed) / len(gaps_s)
    if abs(chunk_tokens / drafted.tokens_per_iteration - 1) > ONE_CHUNK or bunched(gaps_s):
        return {}
    return {
        "seconds": statistics.median(gaps_s),
        "tokens_per_iteration": min(max(chunk_tokens, 1.0), drafted.gamma + 1.0),
        "how": "median time between chunks, one an iteration",
        "prefill_share": 0.0,
        "samples": thinned(gaps_s),
    }


def _in_flight(where: str, run: dict[str, Any]) -> float | None:
    """The mean number of requests in flight, which follows from their latencies; None if these are not
    stated.
    """
    return sum(numbers(where, run, "latencies")) / positive(where, run, "duration") or None


def _decoding(where: str, run: dict[str, Any]) -> float | None:
    """The mean number of requests that decode at once; None if a figure is missing. By Little's law, it is
    the number of tokens after the first of each answer, times the mean TPOT, over the duration.
    """
    mean_tpot_ms = optional(where, run, "mean_tpot_ms")
    tokens = optional(where, run, "total_output_tokens")
    if not mean_tpot_ms or not tokens:
        return None
    behind_first = tokens - positive(where, run, "completed")
    decoding = behind_first * mean_tpot_ms / 1e3 / positive(where, run, "duration")
    return max(round(decoding, 1), 1.0)


def _mean_length(where: str, run: dict[str, Any], lengths: str, total: str) -> float:
    """The mean number of tokens of a run's prompts or answers, from their lengths or else from their
    total.
    """
    tokens = numbers(where, run, lengths)
    if tokens:
        return statistics.fmean(tokens)
    return number(where, run, total) / positive(where, run, "completed")


def _gaps_between_chunks(where: str, run: dict[str, Any]) -> list[float]:
    """Seconds between the chunks of all answers of a detailed file; empty for any other."""
    gaps_s = []
    for of_answer in objects(where, run, "itls"):
        gaps_s += numbers(where, {"itls": of_answer}, "itls")
    return gaps_s


def forward(where: str, case: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The step in a case of ``vllm bench forward --output-json`` (0.33), which runs an exact batch through
    the model as one CUDA graph.

    A decode case gives the time of a baseline step, and a verify case that of a verification with one draft
    length. Prefill and mixed cases give nothing. The times exclude sampling and all work of the host. They
    include the passes of a configured drafter, unless ``--exclude-drafter`` was given (see
    `ranks[0].timing_scope`).
    """
    requests = case["requests"]
    if not isinstance(requests, list) or not requests or not all(isinstance(r, dict) for r in requests):
        raise refuse(where, "requests", "a list of requests", requests)
    contexts = []
    lengths = set()
    is_decoding = True
    for request in requests:
        queries = number(where, request, "query_len")
        tokens = number(where, request, "kv_len")
        drafted = number(where, request, "num_draft_tokens")
        contexts.append(tokens - queries)
        lengths.add(drafted)
        is_decoding &= queries == drafted + 1 and tokens > queries
    if not is_decoding or len(lengths) > 1:
        return []
    ranks = objects(where, case, "ranks") or [{}]
    scope = value_at(ranks[0], "timing_scope") or "target_only"
    timed = scope.replace("_", " ")
    samples_us = numbers(where, ranks[0], "latency_us.samples_us")
    timing = Timing.checked(
        where=where,
        kind="pass_with_draft" if scope == "target_and_drafter" else "pass",
        seconds=positive(where, case, "median_us") / 1e6,
        batch=float(len(requests)),
        context=statistics.fmean(contexts),
        gamma=int(lengths.pop()),
        how=f"median of graph replays, {timed}",
        samples=thinned([us / 1e6 for us in samples_us]),
    )
    return [timing]
