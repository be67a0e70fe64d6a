"""Reads files of llama.cpp: ``llama-bench -o json``, ``llama-batched-bench --output-format jsonl``, and
answers of its server.
"""

from dataclasses import replace
from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import number, numbers, optional, positive, step
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, drafted_length, speculation


def bench(where: str, row: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The baseline step in a row of a benchmark that only decodes; empty for other rows.

    llama-bench decodes one sequence of `n_gen` tokens after `n_depth` cached tokens. llama-batched-bench
    decodes `pl` sequences of `tg` tokens after `pp` cached tokens.
    """
    if "pl" in row:
        tokens = number(where, row, "tg")
        prompt = number(where, row, "pp")
        seconds = number(where, row, "t_tg")
        batch = number(where, row, "pl")
    else:
        tokens = number(where, row, "n_gen")
        prompt = optional(where, row, "n_depth") or 0.0
        if number(where, row, "n_prompt"):
            return []
        seconds = number(where, row, "avg_ns") / 1e9
        batch = 1.0
    if not tokens:
        return []
    samples = tuple(ns / 1e9 / tokens for ns in numbers(where, row, "samples_ns"))
    lengths = RequestLengths(prompt, tokens)
    how = "mean time of a token"
    return [step(where, seconds / tokens, batch, lengths, how=how, samples=samples)]


def server(where: str, answer: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """The step in the answer to one request. The ``timings`` of the answer count the tokens of prompt and
    answer.

    Requests are assumed to run one at a time, unless the user gives ``batch=N``. The first token comes from
    the prompt's pass. With a draft model, every iteration gains the accepted tokens and one more.
    """
    timings = answer.get("timings", answer)
    tokens = number(where, timings, "predicted_n") - 1
    prompt = number(where, timings, "prompt_n") + (optional(where, timings, "cache_n") or 0.0)
    accepted = optional(where, timings, "draft_n_accepted") or 0.0
    iterations = tokens - accepted
    if iterations <= 0:
        raise refuse(
            where, "draft_n_accepted", "below predicted_n, which counts a token of each iteration", accepted
        )
    seconds = positive(where, timings, "predicted_ms") / 1e3 / iterations
    if draft_tokens := optional(where, timings, "draft_n"):
        length = facts.gamma or drafted_length(draft_tokens / iterations)
        gained = min(tokens / iterations, length + 1.0)
        drafted = speculation(where, replace(facts, gamma=length), gained, None)
    else:
        drafted = speculation(where, facts, None, None)
    lengths = RequestLengths(prompt, tokens)
    how = "decoding time over iterations"
    timing = step(where, seconds, facts.batch or 1.0, lengths, drafted, how=how)
    return [timing.replace(output=tokens + 1)]
