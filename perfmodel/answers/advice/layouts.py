"""Layouts: how GPUs are divided into servers, and the GPUs of a server into attention groups and expert
groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.specs import ModelSpec

MOST_IN_SERVER = 8
"""Devices of the largest server that is searched for a load."""
USUAL_WHOLE_EXPERTS = 4
"""With at least this many one-GPU attention groups, servers usually keep experts whole too (an
assumption).
"""


class Simplicity(NamedTuple):
    """A sort key for layouts: those whose servers are simpler to operate come first. Earlier fields take
    precedence.

    devices: number of devices of a server. at_once: number of its devices that run at the same time.
    mixed_attention: whether a server has several attention groups of several GPUs each. attention_groups:
    their number. unusual_experts: whether experts are divided in another way than is usual for this
    division of attention.
    """

    devices: int
    at_once: int
    mixed_attention: bool
    attention_groups: int
    unusual_experts: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Equal servers behind a router, on `gpus` GPUs. GPUs that do not make up a whole server stay idle.

    server_gpus: GPUs of one server. dp: number of data-parallel attention groups of a server; each group
    attends for its own sequences. ep: number of groups of GPUs that each have a share of the whole
    experts; with 1, every expert is divided over all GPUs. in_turn: number of GPUs among which the layers
    are divided and that run one after another (llama.cpp).
    """

    gpus: int
    replicas: int
    server_gpus: int
    dp: int = 1
    ep: int = 1
    in_turn: int = 1

    @property
    def tp(self) -> int:
        """The number of GPUs of one attention group, among which its heads are divided."""
        return self.server_gpus // self.dp

    @property
    def idle(self) -> int:
        """The number of GPUs that no server uses."""
        return self.gpus - self.replicas * self.server_gpus * self.in_turn

    @property
    def divisions(self) -> tuple[bool, bool, bool]:
        """Whether a server divides heads (TP), sequences (DP) and experts (EP)."""
        return self.tp > 1, self.dp > 1, self.ep > 1

    def is_alike(self, other: "Layout") -> bool:
        """Whether this layout divides nothing (heads, sequences, experts) that the other layout does not
        divide.
        """
        return all(kept <= theirs for kept, theirs in zip(self.divisions, other.divisions, strict=True))

    @property
    def groups(self) -> int:
        """How many kinds of groups must be configured by flags. It is 0 with tensor parallelism alone, 1
        with expert parallelism or data-parallel attention, and 2 if each data-parallel group is also
        tensor-parallel.
        """
        return int(self.ep > 1 or self.dp > 1) + (1 < self.dp < self.server_gpus)

    def is_simpler_than(self, other: "Layout") -> bool:
        """Whether the servers of this layout are simpler to operate than the servers of the other one:
        they have fewer devices or fewer kinds of groups, and not more of either.
        """
        sizes = self.server_gpus * self.in_turn, other.server_gpus * other.in_turn
        groups = self.groups, other.groups
        fewer = sizes[0] < sizes[1] or groups[0] < groups[1]
        return fewer and sizes[0] <= sizes[1] and groups[0] <= groups[1]

    @property
    def simplicity(self) -> "Simplicity":
        """The sort key of the layout by how simple its servers are to operate.

        Attention that is only data-parallel or only tensor-parallel is simpler than both together.
        Usually, experts are kept whole if there are at least `USUAL_WHOLE_EXPERTS` GPUs and each one is an
        attention group, and are divided over the GPUs otherwise.
        """
        mixed = 1 < self.dp < self.server_gpus
        apart = self.dp == self.server_gpus >= USUAL_WHOLE_EXPERTS
        usual_ep = self.server_gpus if apart else 1
        devices = self.server_gpus * self.in_turn
        return Simplicity(devices, self.server_gpus, mixed, self.dp, self.ep != usual_ep)

    def is_usual(self, node: int) -> bool:
        """Whether servers are usually run in this layout: within one node of `node` GPUs or on whole
        nodes, with tensor-parallel attention or with one attention group per GPU.
        """
        size = self.server_gpus
        whole_nodes = size <= node or size % node == 0
        return whole_nodes and self.dp in (1, size)

    def divides_experts_beyond(self, node: int) -> bool:
        """Whether a server on several nodes of `node` GPUs has data-parallel attention but not full expert
        parallelism. Every layer would then gather all tokens over the network; no such deployment is
        known.
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
        """The layout with `replicas` of the same servers and no idle GPUs."""
        return replace(self, replicas=replicas, gpus=replicas * self.server_gpus * self.in_turn)

    def split(self, devices: int) -> "Layout":
        """The layout with the layers of every server divided among `devices` devices that run one after
        another.
        """
        return replace(self, gpus=self.gpus * devices, in_turn=devices)

    def arguments(self) -> dict[str, int]:
        """The parallel degrees of one server, as arguments of a question."""
        return {"tp": self.server_gpus, "dp": self.dp, "ep": self.ep, "layer_split": self.in_turn}


def one_server(server_gpus: int, dp: int, ep: int) -> Layout:
    """The layout of one server with these degrees, without idle GPUs."""
    return Layout(server_gpus, 1, server_gpus, dp, ep)


def of_gpus(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """Every layout of `gpus` GPUs that suits the model, the smallest servers first.

    Data-parallel attention and expert parallelism are only included for models with experts on GPUs with a
    direct link such as NVLink (`linked`). No measurement of the exchange of tokens over PCIe is known.
    Expert parallelism uses all GPUs of a server or is off, because every engine supports these two.
    """
    grouped = linked and model.moe is not None
    return [
        Layout(gpus, gpus // size, size, dp, ep)
        for size in _server_sizes(gpus)
        for dp in (_divisors(size) if grouped else [1])
        for ep in ([1, size] if grouped and size > 1 else [1])
    ]


def in_turn(gpus: int) -> list[Layout]:
    """Every layout of `gpus` GPUs in which the layers of a server are divided among several GPUs that run
    one after another.
    """
    return [Layout(gpus, gpus // size, 1, in_turn=size) for size in _divisors(gpus) if size > 1]


def in_turn_up_to(gpus: int) -> list[Layout]:
    """Layouts of one server whose layers are divided among 2, 4, 8, ... GPUs, up to `gpus`."""
    return [Layout(size, 1, 1, in_turn=size) for size in _powers_of_two(gpus) if size > 1]


def servers_up_to(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """Every layout of one server on 1, 2, 4, ... GPUs, up to `gpus`. linked: as in `of_gpus`."""
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
