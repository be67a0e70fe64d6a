"""Turns a question about a load into a question about batches."""

from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery


def without_load(question: AdviseQuery) -> AdviseQuery:
    """The question without its load. The limit on TPOT under the load becomes the bound on TPOT."""
    bound = question.latency_limits_ms.get("tpot")
    whole = replace(question, prefix_len=None, prefix_hits=1.0, max_ttft_ms=None, max_tpot_ms=bound)
    return replace(whole, request_rate=None, clients=None, input_len=None, output_len=None, slo=None)


def at_batch(question: AdviseQuery, batch: int) -> AdviseQuery:
    """A question about the lowest time per token at one batch size, without a load and without bounds."""
    return replace(without_load(question), batch=(batch,), max_tpot_ms=None, objective="latency")
