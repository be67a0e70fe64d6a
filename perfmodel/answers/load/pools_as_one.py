"""Alternatives to separate pools: servers with the layout of the decode pool that also do prefill, and KV
caches on another tier.
"""

from dataclasses import replace
from typing import Any

from perfmodel.answers.load.offload import Offload, offload_of
from perfmodel.answers.load.pool_prices import decoder_of, prompting_of, runs_draft
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.traffic_query import TrafficQuery


def one_server(question: TrafficQuery) -> TrafficQuery:
    """The question about one server with the layout of the decode pool that also does prefill. The server
    gets the share of the load that it would have if all devices were in such servers.
    """
    question = decoder_of(question)
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    share = decode.gpus / (prefill.devices + decode.devices)
    rates = question.request_rate and tuple(rate * share for rate in question.request_rate)
    clients = question.max_concurrency
    if clients is not None:
        clients = tuple(max(round(each * share), 1) for each in clients)
    alone: dict[str, Any] = {
        "prefill": None,
        "decode": None,
        "kv_link": None,
        "prefill_draft": "run",
        "decode_draft": "run",
    }
    layout: dict[str, Any] = {"tp": decode.gpus, "dp": decode.dp, "ep": decode.ep}
    return replace(question, request_rate=rates, max_concurrency=clients, **alone, **layout)


def tier_of_prefill(question: TrafficQuery, gamma: int) -> Offload:
    """The comparison of `offload_of` for a prefill instance, whose caches of earlier prompts are on another
    tier.

    - gamma: the longest draft.
    """
    prefill = Instances.of(question.prefill or "", "--prefill")
    reads_too = runs_draft(question, gamma > 0)
    return offload_of(replace(question, dp=prefill.dp), prompting_of(question, prefill), int(reads_too))
