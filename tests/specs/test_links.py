"""Links between boxes: which of them join a device, and which engines use theirs within a box."""

import pytest

from perfmodel.specs import load_gpu
from perfmodel.specs.devices.links import all_links, devices_of_node, dispatches_in_box, link_of
from tests.refusals import refused


def test_only_the_engine_that_was_measured_so_dispatches_within_a_box() -> None:
    """TensorRT-LLM on devices of an NVL72 rack; no other engine there, and none in another box."""
    (rack,) = [link for link in all_links() if link.name == "nvl72"]
    assert rack.exchange.within_box == ("trtllm",)
    for name in rack.devices:
        assert dispatches_in_box(load_gpu(name), "trtllm")
        assert not dispatches_in_box(load_gpu(name), "vllm")
    assert not dispatches_in_box(load_gpu("h100"), "trtllm")


@pytest.mark.parametrize(
    ("device", "nodes"),
    [("h100", 8), ("gb200", 72), ("dgx-spark", 1), ("apple-m4-max-128gb", None), ("rtx-4090", None)],
)
def test_devices_of_a_node_are_those_of_the_link_that_joins_them(device: str, nodes: int | None) -> None:
    gpu = load_gpu(device)
    assert devices_of_node(gpu) == nodes
    if nodes is None:
        refused(f"--nodes: hardware/links has no table of links between servers of {gpu.name}", link_of, gpu)
    else:
        assert link_of(gpu).joins(gpu)
