"""Times of messages between nodes: values between the knots of a table, and what counts as one node."""

import pytest

import perfmodel as pm
from perfmodel.costs.fabric import along, by_ranks

BATCH = {"context": 4096, "batch": 4, "gamma": 0}


def test_a_curve_goes_on_with_its_last_slope_and_a_single_time_is_constant() -> None:
    knots = ((0.0, 10.0), (100.0, 20.0), (200.0, 40.0))
    assert [float(along(knots, at)) for at in (0.0, 50.0, 150.0, 300.0)] == [10.0, 15.0, 30.0, 60.0]
    assert float(along(((64.0, 7.0),), 1000.0)) == 7.0


def test_ranks_between_two_tables_lie_between_them_by_their_logarithm() -> None:
    """16 is halfway from 8 to 32; outside, the nearest table counts."""
    tables = {8: ((0.0, 10.0),), 32: ((0.0, 30.0),)}
    found = {ranks: float(by_ranks(tables, ranks, 5.0)) for ranks in (2, 8, 16, 32, 128)}
    assert found == pytest.approx({2: 10.0, 8: 10.0, 16: 20.0, 32: 30.0, 128: 30.0})


def test_an_all_reduce_over_nodes_takes_longer_than_in_one_node() -> None:
    """Also over few devices, for which the calibration has times in one node."""
    steps = {
        nodes: pm.whatif("llama-3.3-70b", "h100", tp=4, nodes=nodes, **BATCH) for nodes in ("1x4", "2x2")
    }
    sent_s = {nodes: answer.target_step.terms_s["comm"] for nodes, answer in steps.items()}
    assert sent_s["2x2"] > 1.5 * sent_s["1x4"]


def test_a_bridge_joins_the_boards_of_each_node() -> None:
    """The bridge of an H100 PCIe joins two boards, so messages within a node of two cross no PCIe."""
    of_four = {"tp": 4, "nodes": "2x2", **BATCH}
    bounds = {
        name: next(
            op.lower_s for op in pm.ops("llama-3.3-70b", name, **of_four).ops if op.name == "all-reduce"
        )
        for name in ("h100-pcie", "h100-pcie:nvlink")
    }
    assert bounds["h100-pcie:nvlink"] < 0.3 * bounds["h100-pcie"]


def test_a_link_without_an_all_reduce_still_sends_to_the_next_stage() -> None:
    at = {"engine": "sglang", "tp": 8, "pp": 2, "nodes": "2x8", "weights": "fp8"}
    answer = pm.whatif("llama-3.3-70b", "mi300x", **at, **BATCH)
    assert answer.target_step.terms_s["comm"] > 0


def test_tokens_of_fewer_bytes_are_dispatched_sooner() -> None:
    """The results that come back are in 16 bits in both."""
    wide = {"engine": "sglang", "nodes": "4x8", "ep": 32, "dp": 32} | BATCH | {"batch": 32 * 128}
    times = {
        weights: {
            op.name: op.predicted_s for op in pm.ops("deepseek-v3", "h200", weights=weights, **wide).ops
        }
        for weights in ("bf16", "fp8-block")
    }
    assert times["fp8-block"]["dispatch"] < 0.7 * times["bf16"]["dispatch"]
    assert times["fp8-block"]["combine"] == times["bf16"]["combine"]
