"""Compares the size of the KV cache that a server prints at its start with the predicted size."""

import re

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.speculation import kv_cache_of

TITLE = "the size of a server's KV cache"
_SIZE = re.compile(r"GPU KV cache size: ([\d,]*\d) tokens|\bmax_total_num_tokens=(\d+)")
"""Lines of vLLM and SGLang."""
_LENGTH = re.compile(r"(?:num_spec_tokens|num_speculative_tokens|speculative_num_steps)['\"]?\s*[=:]\s*(\d+)")


def printed_cache_tokens(text: str) -> int | None:
    """The size of the KV cache in a log, in tokens; None if the log does not state it."""
    printed = _SIZE.search(text)
    if printed is None:
        return None
    return int((printed[1] or printed[2]).replace(",", ""))


def printed_draft_length(text: str) -> int | None:
    """The draft length in a server's configuration, as the log prints it; None if it does not."""
    printed = _LENGTH.search(text)
    return None if printed is None else int(printed[1])


def compared_cache(query: Query, text: str, gamma: int) -> str:
    """The printed and the predicted size of the KV cache in words; empty if the text prints none.

    - gamma: the draft length; 0 without a draft.
    """
    tokens = printed_cache_tokens(text)
    if tokens is None:
        return ""
    cache = kv_cache_of(resolve_costs(query), gamma, query.memory_fraction)
    predicted = cache.kv_tokens / cache.groups
    words = f"KV cache: {tokens:,} tokens in the log; predicted {predicted:,.0f}"
    return f"{words} ({tokens / predicted:.2f} times)" if predicted else words
