"""Lists the layouts that `advise` searches for a question."""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import (
    MOST_IN_SERVER,
    Layout,
    in_turn,
    in_turn_up_to,
    of_gpus,
    one_server,
    servers_up_to,
)
from perfmodel.answers.question import Named
from perfmodel.specs import GPUSpec, ModelSpec
from perfmodel.specs.devices.links import devices_of_node

NODES = (2, 3, 4)
"""Numbers of nodes that are tried for a server that is too large for one node."""


def searched_layouts(query: AdviseQuery, model: ModelSpec, gpu: GPUSpec) -> list[Layout]:
    """The layouts to search. If the question states a number of devices, all layouts of these devices are
    searched. Otherwise, one server of each size is searched for a load, and one server of each stated size
    without a load. Over PCIe, attention groups and expert groups are only searched if the question names
    them. In llama.cpp, the layers of a server may be divided among devices that run one after another.
    """
    layouts = [layout.split(query.layer_split) for layout in _unsplit(query, model, gpu)]
    if not _divides_layers(query):
        return layouts
    return layouts + (in_turn_up_to(MOST_IN_SERVER) if query.gpus is None else in_turn(query.gpus))


def over_nodes(query: AdviseQuery) -> list[Layout]:
    """Layouts with one server on two, three or four nodes. These layouts are for a load that no number of
    servers within one node can serve. Only models with experts have such layouts. The result is empty if the
    question states a number of devices or parallel degrees.
    """
    named = Named.of(query)
    node = devices_of_node(named.gpu)
    stated = query.gpus or query.tp or query.dp or query.ep or query.layer_split > 1
    if (
        stated
        or node is None
        or node < 2
        or named.target.moe is None
        or not searches_groups(query, named.gpu)
    ):
        return []
    layouts = [each for nodes in NODES for each in of_gpus(nodes * node, named.target)]
    return [each for each in layouts if each.replicas == 1 and not each.divides_experts_beyond(node)]


def may_have_groups(query: AdviseQuery) -> bool:
    """Whether the engine can divide a server into attention groups and expert groups."""
    engine = query.served_by
    return engine is None or engine.runs_groups


def searches_groups(query: AdviseQuery, gpu: GPUSpec) -> bool:
    """Whether layouts with attention and expert groups are searched. The engine must support them, and
    either the devices must have a direct link or the question must name the groups.
    """
    return may_have_groups(query) and (not gpu.over_host(2) or bool(query.dp or query.ep))


def _divides_layers(query: AdviseQuery) -> bool:
    """Whether servers with layers on several devices are searched. The engine must run such servers, and the
    question must not state the number of devices of a server.
    """
    names_sizes = query.layer_split > 1 or query.tp or query.dp or query.ep
    if names_sizes or not (query.gpus or query.has_load):
        return False
    engine = query.served_by
    return engine is not None and engine.divides_layers and not Named.of(query).gpu.in_turn


def _unsplit(query: AdviseQuery, model: ModelSpec, gpu: GPUSpec) -> list[Layout]:
    """The layouts before their layers are divided among the devices of `layer_split`."""
    linked = searches_groups(query, gpu)
    if query.gpus is not None:
        layouts = _asked(query, of_gpus(query.gpus // query.layer_split, model, linked))
        if query.dp or query.ep:
            return layouts
        node = devices_of_node(gpu) or query.gpus
        return [layout for layout in layouts if not layout.divides_experts_beyond(node)]
    if query.has_load:
        return _asked(query, servers_up_to(MOST_IN_SERVER, model, linked))
    return [
        one_server(tp, dp, ep)
        for tp in query.tp or (1,)
        for dp in query.dp or (1,)
        for ep in query.ep or (1,)
    ]


def _asked(query: AdviseQuery, layouts: list[Layout]) -> list[Layout]:
    """The layouts with the degrees that the question states. A degree that the question does not state may
    have any value.
    """
    return [
        layout
        for layout in layouts
        if layout.server_gpus in (query.tp or (layout.server_gpus,))
        and layout.dp in (query.dp or (layout.dp,))
        and layout.ep in (query.ep or (layout.ep,))
        and (query.dp or _runs(query, layout))
    ]


def _runs(query: AdviseQuery, layout: Layout) -> bool:
    """Whether the engine has attention groups of this size."""
    engine = query.served_by
    return engine is None or engine.has_groups(layout.dp, layout.server_gpus)
