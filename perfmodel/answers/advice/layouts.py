"""Layouts: how GPUs are divided into servers, and how the GPUs of a server are divided into attention groups
and expert groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmodel.specs import ModelSpec

MOST_IN_SERVER = 8
"""Number of devices of the largest server that is searched for a load."""
USUAL_WHOLE_EXPERTS = 4
"""Smallest number of one-GPU attention groups with which servers usually keep experts whole. This is an
assumption.
"""


class Simplicity(NamedTuple):
    """A sort key for layouts. Layouts with simpler servers come first. Earlier fields take precedence.

    - devices: number of devices of a server.
    - at_once: number of devices of a server that run at the same time.
    - mixed_attention: whether a server has several attention groups of several GPUs each.
    - attention_groups: number of attention groups.
    - unusual_experts: whether the division of experts is unusual for this division of attention.
    """

    devices: int
    at_once: int
    mixed_attention: bool
    attention_groups: int
    unusual_experts: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Equal servers behind a router, on `gpus` GPUs. GPUs that do not make up a whole server stay idle.

    - replicas: number of servers.
    - server_gpus: GPUs of one server.
    - dp: number of data-parallel attention groups of a server. Each group has its own sequences.
    - ep: number of expert-parallel groups of a server. Each group has a share of the experts; with 1, every
      expert is divided over all GPUs.
    - in_turn: number of GPUs that share the layers of a server and run one after another (llama.cpp).
    """

    gpus: int
    replicas: int
    server_gpus: int
    dp: int = 1
    ep: int = 1
    in_turn: int = 1

    @property
    def tp(self) -> int:
        """The number of GPUs of one attention group. The heads are divided among these GPUs."""
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
        """Whether everything that this layout divides (heads, sequences, experts) is also divided in the
        other layout.
        """
        return all(kept <= theirs for kept, theirs in zip(self.divisions, other.divisions, strict=True))

    @property
    def groups(self) -> int:
        """The number of kinds of groups that flags must configure. The number is 0 with tensor parallelism
        alone, 1 with expert parallelism or data-parallel attention, and 2 if each data-parallel group is also
        tensor-parallel.
        """
        return int(self.ep > 1 or self.dp > 1) + (1 < self.dp < self.server_gpus)

    def is_simpler_than(self, other: "Layout") -> bool:
        """Whether the servers of this layout are simpler to operate than those of the other layout. Simpler
        servers have fewer devices or fewer kinds of groups. They do not have more of the other.
        """
        sizes = self.server_gpus * self.in_turn, other.server_gpus * other.in_turn
        groups = self.groups, other.groups
        fewer = sizes[0] < sizes[1] or groups[0] < groups[1]
        return fewer and sizes[0] <= sizes[1] and groups[0] <= groups[1]

    def is_plainer_than(self, other: "Layout") -> bool:
        """Whether this layout has tensor parallelism alone, and the other layout has attention groups or
        expert groups.
        """
        return self.groups == 0 < other.groups

    @property
    def simplicity(self) -> "Simplicity":
        """The sort key of the layout by how simple its servers are to operate.

        Attention that is only data-parallel or only tensor-parallel is simpler than a mixture of both.
        Experts are usually kept whole if there are at least `USUAL_WHOLE_EXPERTS` GPUs and each of them is an
        attention group. Otherwise, experts are usually divided over the GPUs.
        """
        mixed = 1 < self.dp < self.server_gpus
        apart = self.dp == self.server_gpus >= USUAL_WHOLE_EXPERTS
        usual_ep = self.server_gpus if apart else 1
        devices = self.server_gpus * self.in_turn
        return Simplicity(devices, self.server_gpus, mixed, self.dp, self.ep != usual_ep)

    def divides_experts_beyond(self, node: int) -> bool:
        """Whether a server on several nodes of `node` GPUs has data-parallel attention but not full expert
        parallelism. Every layer would then gather all tokens over the network. No such deployment is known.
        """
        return self.server_gpus > node and self.dp > 1 and self.ep < self.server_gpus

    def label(self) -> str:
        """The layout in words, such as ``8 x TP 1`` or ``TP 4 DP 2 EP 8``."""
        sizes = {"TP": self.tp, "DP": self.dp, "EP": self.ep}
        alone = "TP 1" if self.in_turn == 1 else f"layers on {self.in_turn}"
        server = " ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or alone
        servers = f"{self.replicas} x {server}" if self.replicas > 1 else server
        return f"{servers}, {self.idle} idle" if self.idle else servers

    def times(self, replicas: int) -> "Layout":
        """A layout with `replicas` of the same servers and without idle GPUs."""
        return replace(self, replicas=replicas, gpus=replicas * self.server_gpus * self.in_turn)

    @property
    def halved(self) -> "Layout | None":
        """The layout with twice as many servers of half as many GPUs; None if a server has an odd number of
        GPUs or several attention groups.
        """
        if self.server_gpus % 2 or self.dp > 1:
            return None
        size = self.server_gpus // 2
        return replace(self, replicas=2 * self.replicas, server_gpus=size, ep=min(self.ep, size))

    def split(self, devices: int) -> "Layout":
        """A layout in which `devices` devices share the layers of each server and run one after another."""
        return replace(self, gpus=self.gpus * devices, in_turn=devices)

    def arguments(self) -> dict[str, int]:
        """The parallel degrees of one server, as arguments of a question."""
        return {"tp": self.server_gpus, "dp": self.dp, "ep": self.ep, "layer_split": self.in_turn}


def one_server(server_gpus: int, dp: int, ep: int) -> Layout:
    """The layout of one server with these degrees, without idle GPUs."""
    return Layout(server_gpus, 1, server_gpus, dp, ep)


def of_gpus(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """Every layout of `gpus` GPUs that suits the model. The layouts with the smallest servers come first.

    Data-parallel attention and expert parallelism are only included for models with experts on GPUs with a
    direct link such as NVLink (`linked`). The reason is that no measurement of the exchange of tokens over
    PCIe is known. Expert parallelism either uses all GPUs of a server or is off, because every engine
    supports both of these.
    """
    grouped = linked and model.moe is not None
    return [
        Layout(gpus, gpus // size, size, dp, ep)
        for size in _server_sizes(gpus)
        for dp in (_divisors(size) if grouped else [1])
        for ep in ([1, size] if grouped and size > 1 else [1])
    ]


def in_turn(gpus: int) -> list[Layout]:
    """Every layout of `gpus` GPUs in which several GPUs share the layers of a server and run one after
    another.
    """
    return [Layout(gpus, gpus // size, 1, in_turn=size) for size in _divisors(gpus) if size > 1]


def in_turn_up_to(gpus: int) -> list[Layout]:
    """Layouts of one server whose layers are divided among 2, 4, 8 and so on up to `gpus` GPUs."""
    return [Layout(size, 1, 1, in_turn=size) for size in _powers_of_two(gpus) if size > 1]


def servers_up_to(gpus: int, model: ModelSpec, linked: bool = True) -> list[Layout]:
    """Every layout of one server on 1, 2, 4 and so on up to `gpus` GPUs.

    - linked: as in `of_gpus`.
    """
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
