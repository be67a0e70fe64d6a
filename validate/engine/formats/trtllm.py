"""Reads the report that ``trtllm-bench throughput --report_json`` writes (names recalled)."""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, speculation

_GAINED = "decoding_stats.acceptance_length_percentiles.average"


def report(where: str, run: dict[str, Any], facts: GivenFacts) -> list[Timing]:
    """A report is one run. Its concurrency is the mean number of concurrent requests. Reports of runs without
    streaming have no TPOT and are refused.
    """
    tpot_ms = optional(where, run, "streaming_metrics.avg_tpot_ms")
    if not tpot_ms:
        raise InputError(f"{where}: holds no TPOT: run trtllm-bench with --streaming")
    requests = positive(where, run, "request_info.num_requests")
    lengths = RequestLengths(
        number(where, run, "request_info.avg_input_length"),
        number(where, run, "request_info.avg_output_length"),
    )
    batch = facts.batch or number(where, run, "request_info.avg_num_concurrent_requests")
    ttft_ms = optional(where, run, "streaming_metrics.avg_ttft_ms")
    ttft_s = None if ttft_ms is None else ttft_ms / 1e3
    drafted = speculation(where, facts, optional(where, run, _GAINED), None)
    return [of_client(where, tpot_ms / 1e3, drafted, batch, lengths, ttft_s, requests)]
