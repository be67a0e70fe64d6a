"""Reads the answers of the servers of LM Studio and Ollama, which contain their times. Requests are assumed
to run one at a time, unless the user gives ``batch=N``.
"""

from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import number, optional, positive, step
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

HOW = "decoding time over iterations"


def iterations_of(where: str, tokens: float, accepted: float) -> float:
    """Number of iterations of an answer. Each iteration gives the accepted tokens and one more. Raises
    InputError.
    """
    iterations = tokens - accepted
    if iterations < 1:
        raise refuse(where, "accepted_draft_tokens_count", f"below the {tokens:g} tokens", accepted)
    return iterations


def lm_studio(where: str, answer: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """Reads an answer of LM Studio's REST API (``/api/v0``). Its ``stats`` count the accepted tokens of a
    draft.
    """
    tokens = positive(where, answer, "usage.completion_tokens")
    prompt = number(where, answer, "usage.prompt_tokens")
    rate = positive(where, answer, "stats.tokens_per_second")
    accepted = optional(where, answer, "stats.accepted_draft_tokens_count")
    drafted = optional(where, answer, "stats.total_draft_tokens_count")
    gained = tokens / iterations_of(where, tokens, accepted or 0.0) if drafted else None
    speculated = speculation(where, facts, gained, None)
    seconds = speculated.tokens_per_iteration / rate
    first_s = optional(where, answer, "stats.time_to_first_token") or None
    lengths = RequestLengths(prompt, tokens)
    return [step(where, seconds, facts.batch or 1.0, lengths, speculated, how=HOW, ttft_s=first_s)]


def ollama(where: str, answer: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """Reads an answer of Ollama's API (``/api/generate``, ``/api/chat``), whose times are in nanoseconds."""
    tokens = positive(where, answer, "eval_count")
    token_s = positive(where, answer, "eval_duration") / 1e9 / tokens
    prompt = needed(where, "input", optional(where, answer, "prompt_eval_count") or facts.input)
    speculated = speculation(where, facts, None, None)
    seconds = token_s * speculated.tokens_per_iteration
    lengths = RequestLengths(prompt, tokens)
    return [step(where, seconds, facts.batch or 1.0, lengths, speculated, how=HOW)]
