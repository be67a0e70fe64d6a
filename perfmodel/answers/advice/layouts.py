"""Layouts: how GPUs are divided into servers, and each server into attention groups and expert groups."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.specs import ModelSpec

MOST_IN_SERVER = 8
"""Devices of the largest server that is searched for a load."""
USUAL_WHOLE_EXPERTS = 4
"""GPUs with attention of their own from which servers usually have whole experts too (an assumption)."""


class Simplicity(NamedTuple):
    """Sorts layouts by how hard their servers are to run; an earlier field takes precedence.

    devices: number of devices of a server. at_once: number of devices that run at the same time.
    mixed_attention: whether attention groups are tensor-parallel themselves. unusual_experts: whether
    experts are not divided as the attention suggests.
    """

    devices: int
    at_once: int
    mixed_attention: bool
    attention_groups: int
    unusual_experts: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Equal servers behind a router, on `gpus` GPUs; some of these stay idle if they do not divide evenly.

    server_gpus: GPUs of one server. dp: data-parallel attention groups of a server; each has all of
    attention for its own sequences. ep: groups of a server's GPUs that have whole experts; 1 divides every
    expert over all of them. in_turn: number of GPUs that hold the layers of a server and run in turn
    (llama.cpp); only `server_gpus` of them run at a time.
    """

    gpus: int
    replicas: int
    server_gpus: int
    dp: int = 1
    ep: int = 1
    in_turn: int = 1

    @property
    def tp(self) -> int:
        """GPUs of one attention group, which share its heads."""
        return self.server_gpus // self.dp

    @property
    def idle(self) -> int:
        """GPUs that no server uses."""
        return self.gpus - self.replicas * self.server_gpus * self.in_turn

    @property
    def divisions(self) -> tuple[bool, bool, bool]:
        """Whether a server divides heads (TP), sequences (DP) and experts (EP)."""
        return self.tp > 1, self.dp > 1, self.ep > 1

    def is_alike(self, other: "Layout") -> bool:
        """Whether the servers of two layouts are divided in the same ways, as far as their sizes allow it."""
        return all(kept <= theirs for kept, theirs in zip(self.divisions, other.divisions, strict=True))

    @property
    def groups(self) -> int:
        """Number of kinds of groups in a server, each of which needs flags: 0 with tensor parallelism
        alone, 1 with whole experts or data-parallel attention (usually with whole experts), 2 if
        data-parallel attention is tensor-parallel in each group.
        """
        return int(self.ep > 1 or self.dp > 1) + (1 < self.dp < self.server_gpus)

    def is_simpler_than(self, other: "Layout") -> bool:
        """Whether its servers are easier to run: fewer devices each with no more kinds of groups, or fewer
        kinds of groups on no more devices.
        """
        sizes = self.server_gpus * self.in_turn, other.server_gpus * other.in_turn
        groups = self.groups, other.groups
        fewer = sizes[0] < sizes[1] or groups[0] < groups[1]
        return fewer and sizes[0] <= sizes[1] and groups[0] <= groups[1]

    @property
    def simplicity(self) -> "Simplicity":
        """How hard its servers are to run.

        Either data-parallel or tensor-parallel attention alone is simpler than both together. Experts are
        usually whole on every GPU if each of at least `USUAL_WHOLE_EXPERTS` GPUs has its own attention,
        and divided otherwise.
        """
        mixed = 1 < self.dp < self.server_gpus
        apart = self.dp == self.server_gpus >= USUAL_WHOLE_EXPERTS
        usual_ep = self.server_gpus if apart else 1
        devices = self.server_gpus * self.in_turn
        return Simplicity(devices, self.server_gpus, mixed, self.dp, self.ep != usual_ep)

    def is_usual(self, node: int) -> bool:
        """Whether servers on several nodes are usually run this way: on whole nodes of `node` GPUs or
        within one node, with tensor-parallel attention or with one attention group per GPU.
        """
        size = self.server_gpus
        whole_nodes = size <= node or size % node == 0
        return whole_nodes and self.dp in (1, size)

    def divides_experts_beyond(self, node: int) -> bool:
        """Whether a server on several nodes of `node` GPUs divides every expert over all of them although its
        attention is data-parallel: each layer then gathers all tokens over the network, and nobody runs it.
        """
        return self.server_gpus > node and self.dp > 1 and self.ep < self.server_gpus

    def label(self) -> str:
        """The layout in words: ``8 x TP 1``, ``TP 4 DP 2 EP 8``."""
        sizes = {"TP": self.tp, "DP": self.dp, "EP": self.ep}
        alone = "TP 1" if self.in_turn == 1 else f"layers on {self.in_turn}"
        server = " ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or alone
        servers = f"{self.replicas} x {server}" if self.replicas > 1 else server
        return f"{servers}, {self.idle} idle" if self.idle else servers

    def times(self, replicas: int) -> "Layout":
        """This number of the same servers, without idle GPUs."""
        return replace(self, replicas=replicas, gpus=replicas * self.server_gpus * self.in_turn)

    def split(self, devices: int) -> "Layout":
        """The layout with the layers of every server divided among this many devices."""
        return replace(self, gpus=self.gpus * devices, in_turn=devices)

    def arguments(self) -> dict[str, int]:
        """The arguments of a question about one of the servers."""
        return {"tp": self.server_gpus, "dp": self.dp, "ep": self.ep, "layer_split": self.in_turn}


def one_server(server_gpus: int, dp: int, ep: int) -> Layout:
    """One server on the GPUs that it needs."""
    return Layout(server_gpus, 1, server_gpus, dp, ep)


def of_gpus(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """Every layout of this number of GPUs that the model may have; the smallest servers come first.

    Data-parallel attention and expert parallelism are for models with experts, on GPUs with a link of
    their own (`linked`): nobody serves this way over PCIe, and no exchange of tokens was measured there.
    Experts are divided over all GPUs of a server or over none of them, which every engine runs.
    """
    grouped = linked and model.moe is not None
    return [
        Layout(gpus, gpus // size, size, dp, ep)
        for size in _server_sizes(gpus)
        for dp in (_divisors(size) if grouped else [1])
        for ep in ([1, size] if grouped and size > 1 else [1])
    ]


def in_turn(gpus: int) -> list[Layout]:
    """Every layout of this number of GPUs whose servers have their layers on several of them."""
    return [Layout(gpus, gpus // size, 1, in_turn=size) for size in _divisors(gpus) if size > 1]


def in_turn_up_to(gpus: int) -> list[Layout]:
    """One server with its layers on each number of GPUs, a power of two."""
    return [Layout(size, 1, 1, in_turn=size) for size in _powers_of_two(gpus) if size > 1]


def servers_up_to(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """One server of each layout on up to this number of GPUs, a power of two; `linked` as in `of_gpus`."""
    sizes = _powers_of_two(gpus)
    return [layout for size in sizes for layout in of_gpus(size, model, linked) if layout.replicas == 1]


def _server_sizes(gpus: int) -> list[int]:
    """GPUs of a server to try: the divisors of the number of GPUs, and powers of two, which leave some
    GPUs idle.
    """
    return sorted({*_divisors(gpus), *_powers_of_two(gpus)})


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _powers_of_two(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        size *= 2
