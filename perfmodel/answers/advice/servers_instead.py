"""Servers to start if nothing is feasible, each with the change of the question that gives it, and the server
to run first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.run_first import RunFirst
from perfmodel.answers.advice.servers.base import MODEL
from perfmodel.answers.advice.ways import Way


class ServerOfWay(NamedTuple):
    """A change of the question, and the server after this change."""

    way: Way
    server: Alternative


@dataclass(frozen=True, slots=True)
class Instead:
    """Servers to start if nothing is feasible.

    - alternatives: all servers.
    - of_ways: the servers among them that follow from a change.
    - ways: the changes of these servers that keep the devices of the question, in the order in which to try
      them.
    """

    alternatives: tuple[Alternative, ...]
    of_ways: tuple[ServerOfWay, ...] = ()
    ways: tuple[Way, ...] = ()

    def with_first(self, way: Way, under_load: tuple[Alternative, ...]) -> "Instead":
        """These servers, with those for the load before all others.

        - way: the change of the first server for the load. Its server without a load is left out.
        - under_load: the servers for the load; empty if there are none.
        """
        if not under_load:
            return self
        replaced = [each.server for each in self.of_ways if each.way == way]
        kept = (server for server in self.alternatives if server not in replaced)
        of_other_ways = (each for each in self.of_ways if each.way != way)
        other_ways = (each for each in self.ways if each != way)
        return Instead(
            (*under_load, *kept),
            (ServerOfWay(way, under_load[0]), *of_other_ways),
            (way, *other_ways),
        )

    def with_loads(self, servers: Mapping[str, Alternative]) -> "Instead":
        """These servers, with those for the load in the place of servers without a load.

        - servers: text of a change -> its server for the load.
        """
        of_ways = tuple(
            ServerOfWay(each.way, servers.get(each.way.text, each.server)) for each in self.of_ways
        )
        pairs = [(old.server, new.server) for old, new in zip(self.of_ways, of_ways, strict=True)]
        alternatives = (next((new for old, new in pairs if old == each), each) for each in self.alternatives)
        return Instead(tuple(alternatives), of_ways, self.ways)

    def run_first(self) -> RunFirst | None:
        """The server to run first. It is the server of the first change that keeps the devices of the
        question and has a complete command line. The result is None if there is no such change, or only one
        command line.
        """
        if sum(server.line is not None for server in self.alternatives) <= 1:
            return None
        for way in self.ways:
            if not way.on_given_devices:
                continue
            for each in self.of_ways:
                line = each.server.line
                if each.way == way and line is not None and MODEL not in line.split():
                    return RunFirst(f"Run the server {way.text} first: it needs no other GPUs", line)
        return None


NOTHING = Instead(())
"""No server."""
