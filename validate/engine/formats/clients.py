"""Reads the files of clients that report medians of a whole run: the time per token and the time to the first
token.

All of them define the time per token as (time of the last token - time of the first token) / (tokens - 1).
Only SGLang's client reports acceptance. That of aiperf follows from its chunks.
"""

from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import (
    check_in_flight,
    number,
    numbers,
    of_client,
    optional,
    positive,
    step,
    unfailed,
    value_at,
)
from perfmodel.validate.engine.text import is_count
from perfmodel.validate.engine.timing import (
    GivenFacts,
    RequestLengths,
    SpeculatedTokens,
    Timing,
    needed,
    speculation,
)

SECONDS = {"s/token": 1.0, "ms/token": 1e-3, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6}
"""Unit of a latency, as clients write it -> its length in seconds. ``us`` means microseconds."""


def _seconds(where: str, place: Any, name: str, unit: str) -> float:
    """The median of a latency that states its unit; the mean if there is no median."""
    stated_unit = value_at(place, unit)
    if stated_unit not in SECONDS:
        raise refuse(where, f"{name}.{unit}", " or ".join(SECONDS), stated_unit)
    median = optional(where, place, "p50")
    latency = number(where, place, "mean") if median is None else median
    return latency * SECONDS[stated_unit]


def sglang(where: str, run: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """``python -m sglang.bench_serving --output-file`` (0.5): one JSON object per run.

    `accept_length` is tokens per iteration including the bonus token. The draft length is in the server's own
    arguments.
    """
    accepted = optional(where, run, "accept_length")
    served = {"server_info": run.get("server_info")}
    if value_at(served, "server_info.speculative_adaptive"):
        raise InputError(
            f"{where}: speculative_adaptive is on: the draft length changed during the run; serve one"
        )
    steps = optional(where, served, "server_info.speculative_num_draft_tokens") if accepted else None
    drafted = speculation(where, facts, accepted or None, int(steps) - 1 if steps else None)
    unfailed(where, run, "failed")
    completed = positive(where, run, "completed")
    prompt = number(where, run, "total_input_tokens") / completed
    output = number(where, run, "total_output_tokens") / completed
    tpot = positive(where, run, "median_tpot_ms") / 1e3
    ttft = number(where, run, "median_ttft_ms") / 1e3
    batch = optional(where, run, "max_concurrency") or facts.batch or number(where, run, "concurrency")
    batch = min(batch, completed)
    check_in_flight(where, run, batch, completed, output)
    return [of_client(where, tpot, drafted, batch, RequestLengths(prompt, output), ttft, completed)]


def sglang_speculative(where: str, run: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The lines that SGLang's ``bench_speculative.py`` writes: one object per server, with the time of an
    iteration. The user gives the context with ``input=N``.
    """
    nodes = int(number(where, run, "num_draft_tokens"))
    levels = int(number(where, run, "steps"))
    children = int(number(where, run, "topk"))
    if children > 1:
        tree = f"{levels}x{children}x{nodes}"
        raise InputError(f"{where}: topk: must be 1, a chain; of a tree, ask `perfmodel tree --given {tree}`")
    drafted = SpeculatedTokens(levels, number(where, run, "acc_length") if levels else 1.0)
    lengths = RequestLengths(needed(where, "input", facts.input), facts.output or 1.0)
    batch = positive(where, run, "batch_size")
    seconds = positive(where, run, "step_time")
    return [step(where, seconds, batch, lengths, drafted, how="time of an iteration")]


def sglang_costs(where: str, table: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The cost table of SGLang's ``dspark_sps_profiler`` (0.5.23): iterations per second by verified tokens.

    Each request verifies gamma + 1 tokens. The user gives the draft length with ``gamma=N`` and the context
    with ``input=N``.
    """
    gamma = needed(where, "gamma", facts.gamma)
    prompt = needed(where, "input", facts.input)
    tokens = numbers(where, table, "sample_batch_tokens")
    rates = numbers(where, table, "sample_steps_per_sec")
    if len(tokens) != len(rates) or not all((*tokens, *rates)):
        raise refuse(where, "sample_steps_per_sec", "a rate above 0 for each of sample_batch_tokens", rates)
    lengths = RequestLengths(prompt, facts.output or 0.0)
    drafted = SpeculatedTokens(int(gamma), 1.0)
    steps = []
    for verified, rate in zip(tokens, rates, strict=True):
        batch = verified / (gamma + 1)
        steps.append(step(where, 1.0 / rate, batch, lengths, drafted, how="of a cost table"))
    return steps


def guidellm(where: str, report: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """``guidellm benchmark run`` reports (0.8, JSON): one benchmark per concurrency."""
    runs = report["benchmarks"]
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{where}: benchmarks: must be a list of one or more benchmarks")
    return [_guidellm(f"{where}: benchmark {n}", run, facts) for n, run in enumerate(runs, 1)]


def _guidellm(where: str, run: dict[str, Any], facts: GivenFacts) -> Timing:
    def figure(metric: str, statistic: str = "median") -> float:
        return number(where, run, f"metrics.{metric}.successful.{statistic}")

    unfailed(where, run, "metrics.request_totals.errored")
    prompt = figure("prompt_token_count", "mean")
    output = figure("output_token_count", "mean")
    tpot_s = figure("inter_token_latency_ms") / 1e3
    ttft_s = figure("time_to_first_token_ms") / 1e3
    concurrency = optional(where, run, "config.strategy.streams")
    prompts = figure("prompt_token_count", "count")
    batch = concurrency or facts.batch or figure("request_concurrency", "mean")
    drafted = speculation(where, facts, None, None)
    return of_client(where, tpot_s, drafted, batch, RequestLengths(prompt, output), ttft_s, prompts)


def aiperf(where: str, run: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """``aiperf profile`` exports (0.13, ``profile_export_aiperf.json``): one run per file.

    The time between chunks over the time per token is the number of tokens per chunk. If the server sends one
    chunk per iteration, these are the tokens of an iteration.
    """
    unfailed(where, run, "error_request_count.avg")
    prompt = number(where, run, "input_sequence_length.avg")
    output = number(where, run, "output_sequence_length.avg")
    tpot_s = _seconds(where, run.get("inter_token_latency"), "inter_token_latency", "unit")
    ttft_s = _seconds(where, run.get("time_to_first_token"), "time_to_first_token", "unit")
    chunk_ms = optional(where, run, "inter_chunk_latency.avg") if facts.gamma else None
    gained = chunk_ms / positive(where, run, "inter_token_latency.avg") if chunk_ms else None
    batch = needed(where, "batch", _concurrency(run.get("input_config")) or facts.batch)
    prompts = number(where, run, "request_count.avg")
    drafted = speculation(where, facts, gained, None)
    return [of_client(where, tpot_s, drafted, batch, RequestLengths(prompt, output), ttft_s, prompts)]


def _concurrency(config: Any) -> float | None:
    """The outermost `concurrency` of the configuration, because versions keep it in different places."""
    sections = [config]
    for section in sections:  # the loop appends the sections inside
        if isinstance(section, dict):
            value = section.get("concurrency")
            if is_count(value) and value:
                return float(value)
            sections += section.values()
        elif isinstance(section, list):
            sections += section
    return None


def llmd(where: str, report: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """Benchmark reports of llm-d (0.2 and 0.2.1, JSON or YAML; ``llmd-benchmark-report``): one run per
    file.
    """
    requests = "results.request_performance.aggregate.requests"
    unfailed(where, report, f"{requests}.failures")
    prompt = number(where, report, f"{requests}.input_length.mean")
    output = number(where, report, f"{requests}.output_length.mean")
    prompts = number(where, report, f"{requests}.total")
    latency = "results.request_performance.aggregate.latency"
    tpot = f"{latency}.time_per_output_token"
    ttft = f"{latency}.time_to_first_token"
    tpot_s = _seconds(where, value_at(report, tpot), tpot, "units")
    ttft_s = _seconds(where, value_at(report, ttft), ttft, "units")
    concurrency = optional(where, report, "scenario.load.standardized.concurrency")
    batch = needed(where, "batch", concurrency or facts.batch)
    drafted = speculation(where, facts, None, None)
    return [of_client(where, tpot_s, drafted, batch, RequestLengths(prompt, output), ttft_s, prompts)]
