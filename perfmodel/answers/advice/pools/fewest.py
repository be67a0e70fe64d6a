"""Finds the prefill and decode pools with the fewest GPUs that serve a load, to name them beside one pool."""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.pools.instances import Drafting, drafting_of
from perfmodel.answers.advice.pools.lines import lines_of, router_of
from perfmodel.answers.advice.pools.load import PoolLoad, load_of
from perfmodel.answers.advice.pools.pairs import pairs_of
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError

FEWER = 0.9
"""Two pools are named if they need at most this share of the GPUs of one pool, because they take more to
run.
"""


def fewer_in_two_pools(question: AdviseQuery, gpus: float) -> Iterator[Alternative]:
    """Both pools with their command lines, if they serve the load on clearly fewer GPUs than one pool.

    - gpus: number of GPUs that one pool needs; infinite if no number is sufficient.

    There are none for clients without latency limits, whom any number of GPUs serves, for an engine whose
    command lines for pools are not known, or if no link between the pools is known.
    """
    if not router_of(question) or (question.request_rate is None and not question.latency_limits_ms):
        return
    load = load_of(question)
    counted = replace(question, gpus=None)
    try:
        made = drafting_of(counted, find_candidates(counted), load.arguments)
        found = [(pools, drafting) for drafting in made if (pools := _fewest(drafting, load)) is not None]
    except InputError:
        return
    if not found:
        return
    pools, drafting = min(found, key=lambda each: (each[0].devices, each[1].draft is not None))
    if pools.devices > FEWER * gpus or (question.searches_pools and pools.devices <= (question.gpus or 0)):
        return  # two pools on the given devices are the first part of the answer
    row = load.row(pools, drafting.question.limits_s)
    prefill, decode = lines_of(question, drafting, pools, row.request_rate)
    draft = f"{drafting.draft}, gamma {pools.steps.gamma}" if pools.steps.gamma else "no draft"
    times = f"TTFT {seconds(row.ttft_s)}, TPOT {seconds(row.tpot_s)}"
    pair = f"prefill {prefill.layout}, decode {decode.layout}, {draft}, {times}"
    text = f"Two pools of {pools.devices} GPUs suffice: {pair}. The prefill pool{_brackets(prefill.nodes)}"
    yield Alternative(text, prefill.servers, prefill.line)
    yield Alternative(f"The decode pool{_brackets(decode.nodes)}", decode.servers, decode.line)
    yield Alternative(router_of(question), 1, None)


def _brackets(nodes: str) -> str:
    return f" ({nodes})" if nodes else ""


def _fewest(drafting: Drafting, load: PoolLoad) -> TwoPools | None:
    """The pools with the fewest GPUs of one draft, or without a draft."""
    limits_s = drafting.question.limits_s
    return load.fewest_pools(pairs_of(drafting, limits_s), limits_s)
