"""The question about one batch of requests instead of a load."""

from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery


def without_load(question: AdviseQuery) -> AdviseQuery:
    """The question about batches instead of a load, with the bound on TPOT that the load has."""
    bound = question.latency_limits_ms.get("tpot")
    whole = replace(question, prefix_len=None, prefix_hits=1.0, max_ttft_ms=None, max_tpot_ms=bound)
    return replace(whole, request_rate=None, clients=None, input_len=None, output_len=None, slo=None)


def at_batch(question: AdviseQuery, batch: int) -> AdviseQuery:
    """The question about the time per token at one batch instead of a load, without bounds."""
    return replace(without_load(question), batch=(batch,), max_tpot_ms=None, objective="latency")
