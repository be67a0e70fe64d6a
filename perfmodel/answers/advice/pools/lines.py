"""Writes the command lines that start the servers of a prefill pool and a decode pool."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.one_server import line_of, nodes_text, serve
from perfmodel.answers.advice.pools.instances import Drafting, Instance
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.advice.servers_needed import fitting_seats
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.answers.question import Named
from perfmodel.specs import engine_of


@dataclass(frozen=True, slots=True)
class PoolServers:
    """Equal servers of one pool.

    - pool: ``prefill`` or ``decode``.
    - layout: the servers in words, such as ``2 x TP 4``.
    - servers: number of servers to start.
    - line: the command line of one server; None if there is no line for the engine of the question.
    - nodes: how the lines of the other nodes of a server differ, in words; empty for one node.
    """

    pool: str
    layout: str
    servers: int
    line: str | None
    nodes: str = ""


def lines_of(
    question: AdviseQuery, drafting: Drafting, pools: TwoPools, rate: float
) -> tuple[PoolServers, ...]:
    """The servers of both pools, the prefill pool first.

    A prefill server also loads the draft, to fill the draft's cache. Its point has the draft length, the
    batch and the TPOT of the decode pool, because the draft's flags depend on nothing else.

    - rate: requests per second of both pools.
    """
    gamma = pools.steps.gamma
    batch = max(1.0, pools.state(min(rate, pools.max_rate)).batch)
    prefill = _instance(drafting.instances, pools.prefill)
    decode = _instance(drafting.instances, pools.decode)
    default = drafting.question.group_seats * prefill.layout.dp
    prompts = min(default, fitting_seats(question, prefill.candidate, gamma))
    sized = (
        ("prefill", pools.prefill, prefill, prompts),
        ("decode", pools.decode, decode, pools.steps.seats),
    )
    found = []
    for name, instances, instance, seats in sized:
        candidate = replace(instance.candidate, layout=instance.candidate.layout.times(instances.count))
        gained = pools.steps.tokens_per_iteration
        tpot_s = float(pools.steps.decode_at(np.asarray(batch))) / gained
        point = PricedPoint(candidate, math.ceil(batch), gamma, gained, tpot_s, -tpot_s, -tpot_s)
        lines = serve(question, point, max(1, seats), pool=name)
        line = None if lines is None else line_of(lines, point)
        nodes = "" if line is None else nodes_text(question, point)
        found.append(PoolServers(name, candidate.layout.label(), instances.count, line, nodes))
    return tuple(found)


def router_of(question: AdviseQuery) -> str:
    """How requests reach separate pools in the engine of the question, in words; empty if no command line of
    such a server is known.
    """
    engine = engine_of(Named.of(question).calibration)
    return servers()[engine].router if engine in servers() else ""


def _instance(instances: Sequence[Instance], wanted: Instances) -> Instance:
    """The instance with the layout of the servers of a pool."""
    return next(each for each in instances if each.layout == replace(wanted, count=1))
