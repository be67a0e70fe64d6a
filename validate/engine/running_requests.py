"""Reads the number of running requests from a page of metrics or a log."""

import re

from perfmodel.answers.question import Query
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.logged_load import LoggedLoad

_RANK = re.compile(r"Engine \d{3}: Avg|\bDP\d+\b.*Decode batch")
"""A line about the load of one data-parallel rank in a log of vLLM or SGLang."""
GAUGES = ("vllm:num_requests_running", "sglang:num_running_reqs")
"""The present number of running requests on a page of vLLM or SGLang, one value per data-parallel rank."""
REQUEST_ITERATIONS = "vllm:inter_token_latency_seconds_count"
"""The number of iterations, summed over requests."""
ITERATIONS = "vllm:iteration_tokens_total_count"
"""The number of iterations of the server."""


def running(where: str, text: str) -> float | None:
    """The number of running requests; None if it is missing or 0. It is the mean over all iterations of a
    page, or else the gauge of the page. For a log, it is the median of the lines under load.
    """
    of_requests = total(where, text, REQUEST_ITERATIONS)
    iterations = total(where, text, ITERATIONS)
    if of_requests and iterations:
        return max(of_requests / iterations, 1.0)
    gauges = [value for name in GAUGES for _, value in samples(where, text, name)]
    if gauges:
        return sum(gauges) or None
    load = LoggedLoad.of(text)
    return None if load is None else load.running


def of_all_ranks(requests: float | None, query: Query, text: str) -> float | None:
    """Number of running requests on all data-parallel ranks. None if `requests` is None.

    - requests: the number that the text states; if the text is a log with a line per rank, this is the number
      on one rank.
    """
    if requests is None or _RANK.search(text) is None:
        return requests
    return requests * query.dp
