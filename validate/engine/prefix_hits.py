"""The share of prompt tokens that a server found in its prefix cache."""

import re

from perfmodel.validate.engine.acceptance.prometheus import total
from perfmodel.validate.engine.text import floats

_RATE = re.compile(r"Prefix cache hit rate: (\d+\.?\d*)%")
"""A log line of vLLM. The rate is that of the latest requests."""
_PROMPT = re.compile(r"Prefill batch.*?#new-token: (\d+), #cached-token: (\d+)")
"""A log line of SGLang."""
_QUERIES = "vllm:prefix_cache_queries"
_HITS = "vllm:prefix_cache_hits"


def prefix_hits(where: str, text: str) -> float | None:
    """The share in the last line of vLLM's log, over all lines of SGLang's log, or over all requests of a
    page of vLLM, 0 to 1. None if the text states none.
    """
    if rates := _RATE.findall(text):
        return floats(rates)[-1] / 100
    if prompts := _PROMPT.findall(text):
        new = sum(int(tokens) for tokens, _ in prompts)
        cached = sum(int(tokens) for _, tokens in prompts)
        return cached / (new + cached) if new + cached else None
    queries = total(where, text, _QUERIES)
    return total(where, text, _HITS) / queries if queries else None
