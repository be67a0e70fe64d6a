"""All-reduces: between the knots of a table, never below the link, and through the host's memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.costs.kinds.messages import AllReduceOp, LogitsGatherOp
from perfmodel.errors import InputError
from perfmodel.operations import Cost
from perfmodel.specs import load_gpu, read_kernels
from perfmodel.specs.calibrations.constants import AllReduce
from tests.costs.machines import A100, LINK, machine, never_falls

KNOTS = AllReduce(
    knots={2: ((1e4, 1e-5), (1e6, 1e-4)), 8: ((1e4, 2e-5), (1e5, 3e-5), (1e6, 2e-4))},
    source="made up for the test",
)


def allreduce(size, tp: int = 8, **values):
    op = AllReduceOp("all-reduce", 1, Cost(), message_bytes=size, devices=tp)
    return machine(tp, allreduce=KNOTS, **values).op_predicted_s(op)


def test_all_reduce_at_between_and_beyond_its_knots() -> None:
    for size, seconds in KNOTS.knots[8]:
        assert allreduce(size) == pytest.approx(seconds, rel=1e-12)
    # halfway in the logarithms
    geometric_mean_s = (1e-5 * 1e-4) ** 0.5
    assert allreduce(1e5, tp=2) == pytest.approx(geometric_mean_s, rel=1e-12)
    assert allreduce(100.0) == pytest.approx(2e-5)
    assert allreduce(4e6) == pytest.approx(8e-4)
    assert allreduce(1e4, allreduce_multiplier=1.5) == pytest.approx(3e-5)
    # the link is the floor: 1e6 bytes at 300 GB/s
    assert allreduce(1e6, allreduce_multiplier=1e-6) == pytest.approx(1e6 / LINK)


@settings(deadline=None)
@given(st.lists(st.floats(1, 1e12), min_size=2, max_size=20))
def test_all_reduce_never_falls_with_size_nor_below_the_link(sizes) -> None:
    message = np.sort(np.array(sizes))
    seconds = allreduce(message)
    assert never_falls(seconds)
    assert np.all(seconds >= message / LINK)


def test_all_reduce_refuses_device_counts_it_does_not_know() -> None:
    with pytest.raises(InputError, match="has all-reduce times for 2, 8 devices, given 4"):
        allreduce(1e5, tp=4)


def test_without_peer_access_a_message_goes_through_the_hosts_memory() -> None:
    """10 KB take 42 us and 10,000 times 0.52 ns; with peer access, or a link, what the table says."""
    op = AllReduceOp("all-reduce", 1, Cost(), message_bytes=1e4, devices=2)
    pair = machine(2, allreduce=KNOTS, shared_allreduce_s=4.2e-5, shared_allreduce_byte_s=5.2e-10)
    alone = A100.replace(link=None, peer_access=False)
    through_memory = replace(pair, gpu=alone)
    assert through_memory.op_predicted_s(op) == pytest.approx(4.2e-5 + 1e4 * 5.2e-10)
    linked = replace(pair, gpu=A100.replace(peer_access=False))
    assert linked.op_predicted_s(op) == pytest.approx(1e-5)
    assert not load_gpu("rtx-5090").peer_access
    assert load_gpu("rtx-pro-6000").peer_access


@pytest.mark.parametrize(("generation", "faster"), [("4", 1), ("5", 2), ("6", 4)])
def test_devices_without_a_link_have_the_times_of_l40s_by_the_rate_of_their_pcie(
    generation: str, faster: int
) -> None:
    """The servers of the table have PCIe 4.0. The shortest message takes as long over any PCIe."""
    table = read_kernels("l40s-48gb.literature").allreduce
    knots = table.knots[2][:3]
    pair = replace(
        machine(2, allreduce=KNOTS), gpu=load_gpu(f"h100-pcie:pcie{generation}").replace(link=None)
    )
    for message_bytes, seconds in knots:
        op = AllReduceOp("all-reduce", 1, Cost(), message_bytes=message_bytes, devices=2)
        shortest_s = knots[0][1]
        assert pair.op_predicted_s(op) == pytest.approx(shortest_s + (seconds - shortest_s) / faster)


def test_an_all_gather_takes_half_of_an_all_reduce() -> None:
    """Of the same bytes, which is also half of the lower bound."""
    shared = {"kernels": 1, "cost": Cost(), "message_bytes": 1e5, "devices": 8}
    eight = machine(8, allreduce=KNOTS)
    gather, reduce = LogitsGatherOp("logits", **shared), AllReduceOp("all-reduce", **shared)
    assert eight.op_predicted_s(gather) == pytest.approx(eight.op_predicted_s(reduce) / 2, rel=1e-12)
    assert gather.lower_s(eight) == pytest.approx(reduce.lower_s(eight) / 2, rel=1e-12)
