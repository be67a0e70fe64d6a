"""Counts to seconds: bounds that always hold, the calibration's parts one by one, the names of limiters."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.answers.question import Query, resolve
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.kinds.messages import AllReduceOp
from perfmodel.costs.kinds.small import SmallOp
from perfmodel.costs.kinds.state import StateOp
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.costs.roofline import Machine
from perfmodel.errors import InputError
from perfmodel.operations import Cost
from perfmodel.specs import WEIGHT_FORMATS, Calibration, files, load_gpu
from perfmodel.specs.calibrations.engine_constants import Curves
from perfmodel.specs.models.formats import KV_FORMATS
from tests.costs.machines import (
    A100,
    BW,
    CALIBRATIONS,
    HAIR,
    IDEAL,
    LINK,
    F,
    attention,
    calibrated,
    linear,
    machine,
)

QUESTIONS = {
    "model": files.bundled_names("models"),
    "hardware": files.bundled_names("gpus"),
    "calibration": CALIBRATIONS,
    "weights": sorted(WEIGHT_FORMATS),
    "kv_dtype": sorted(KV_FORMATS),
    "tp": [1, 2, 4, 8, 16],
    "draft_kv": ["full", "streamingllm:512", "quest:1024", "quantized", "topk:256"],
    "kv_reread": [None, None, 1.0, 2.5, 16.0],
}


@settings(max_examples=150, deadline=None)
@given(
    question=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in QUESTIONS.items()}),
    at=st.tuples(st.integers(1, 4096), st.integers(1, 2**21), st.integers(1, 33)),
)
def test_bounds_hold(question, at) -> None:
    batch, context, query = map(float, at)
    try:
        s = resolve(Query(**question, batch=batch, context=context, alpha=0.8))
        times = [s.target_step(batch, context, query), s.draft_step(batch, context)]
    except InputError:
        return
    for t in times:
        assert 0 < t.lower_s <= t.predicted_s * (1 + HAIR)
        assert t.lower_s <= t.serial_s * (1 + HAIR)
        assert t.serial_s <= 2 * t.lower_s * (1 + HAIR)
        longest_s = max(t.param_load_s, t.kv_load_s, t.flop_s, t.activation_s)
        assert longest_s <= t.lower_s * (1 + HAIR)
        assert max(t.comm_s, t.fixed_s) <= t.predicted_s * (1 + HAIR)
        assert np.isfinite(t.predicted_s)
        assert sum(t.terms_s.values()) == pytest.approx(t.predicted_s, rel=HAIR)
        assert min(t.terms_s.values()) >= 0
        largest_s = max(t.terms_s.values())
        assert t.terms_s[str(t.limiter)] == largest_s
        assert tuple(t.terms_s) == tuple(LIMITERS)
        if question["calibration"] == "ideal" and question["kv_reread"] is None:
            assert t.predicted_s == pytest.approx(t.lower_s, rel=HAIR)


def test_a_pass_of_all_kinds_of_ops_at_peak_rates() -> None:
    """3 s of weights beside 1 s of compute, 2 s of activations, 10 messages of 1 s; nothing of the three
    overlaps.
    """
    small = SmallOp("norms", 1, Cost(activation_bytes=2 * BW))
    sent = AllReduceOp("all-reduce", 10, Cost(), message_bytes=LINK, devices=2)
    ops = [linear(3.0, 1.0), small, sent, attention(0.5, 0.25)]
    t = machine(2).time(ops, 1.0)
    assert t.param_load_s == pytest.approx(3.0)
    assert t.kv_load_s == pytest.approx(0.5)
    assert t.activation_s == pytest.approx(2.0)
    assert t.flop_s == pytest.approx(1.25)
    assert t.lower_s == pytest.approx(3 + 2 + 10 + 0.5)
    assert t.serial_s == pytest.approx(4 + 2 + 10 + 0.75)
    assert t.comm_s == pytest.approx(10.0)
    assert sent.lower_s(machine(2)) == pytest.approx(10.0)
    assert small.lower_s(machine(2)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("op", "share"),
    [
        (attention(1.0), 0.8),
        (attention(1.0, narrow=True), 0.4),
        (attention(1.0, latent=True), 0.2),
        (attention(1.0, latent=True, narrow=True), 0.1),
        (StateOp("state", 0, Cost(kv_bytes=BW)), 0.8),
    ],
)
def test_the_share_of_the_bandwidth_of_each_kind_of_cache(op: Op, share: float) -> None:
    shares = {
        "attention_bandwidth_fraction": 0.8,
        "attention_bandwidth_fraction_fp8": 0.4,
        "latent_bandwidth_fraction": 0.2,
        "latent_bandwidth_fraction_fp8": 0.1,
    }
    assert machine(**shares).op_predicted_s(op) == pytest.approx(1 / share)
    assert machine(attention_bandwidth_fraction=0.8).op_predicted_s(op) == pytest.approx(1 / 0.8)
    # none passes the device
    fast = machine(**shares | {"attention_bandwidth_fraction_fp8": 1.05})
    assert fast.op_predicted_s(attention(1.0, narrow=True)) == pytest.approx(1.0)


def test_only_mamba_2_copies_its_state() -> None:
    """The state takes one second to read at the full bandwidth."""
    copying = machine(attention_bandwidth_fraction=1.0, scan_copies=3.0)
    for scans, seconds in ((True, 3.0), (False, 1.0)):
        state = StateOp("state", 0, Cost(kv_bytes=BW), scans=scans)
        assert copying.op_predicted_s(state) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("op", "further"),
    [
        (attention(1.0, kernels=7, query=4.0), 0.0),
        (attention(1.0, kernels=7, query=4.0, latent=True), 0.02),
        (StateOp("state", 7, Cost(kv_bytes=BW), query=1.0), 0.3),
        (StateOp("state", 7, Cost(kv_bytes=BW), query=4.0), 0.7),
    ],
)
def test_a_layer_with_a_latent_or_a_state_starts_later(op: Op, further: float) -> None:
    added = {"attention_fixed_s": 0.1, "latent_layer_s": 0.02, "state_layer_s": 0.3, "state_verify_s": 0.4}
    fixed_s = 7 * (0.1 + further)
    assert machine(**added).op_predicted_s(op) == pytest.approx(1 + fixed_s)


def test_a_curve_of_gemms_has_factors_and_ends_at_the_peak() -> None:
    """0.5 of the roofline at 8 rows; fp8 times its own factor as well; 1.6 times 0.8 is 1. fp8 has no peak on
    A100.
    """
    h100 = load_gpu("h100-sxm-80gb")
    knots = {"bf16": ((1.0, 0.5), (16.0, 0.5)), "fp8": ((1.0, 0.4), (16.0, 0.4))}
    curves = Curves(knots=knots, source="by hand")
    plain = calibrated(gemm_factor=1.2, gemm_factor_fp8=1.5, quantise_s=0.25).replace(gemm_efficiency=curves)

    def seconds(compute: str, c: Calibration = plain, **kind) -> float:
        cost = Cost(weight_bytes=h100.memory_bandwidth_bytes_per_s)
        op = GemmOp("x", 1, cost, compute=compute, form=compute, rows=8.0, **kind)
        return float(Machine(h100, c).op_predicted_s(op))

    assert seconds("bf16") == pytest.approx(1 / (0.5 * 1.2))
    fp8_s = 1 / (0.4 * 1.2 * 1.5)
    assert seconds("fp8") == pytest.approx(fp8_s)
    assert seconds("fp8", quantisations=2) == pytest.approx(fp8_s + 0.5)
    fast = plain.replace(gemm_factor=plain.gemm_factor.replace(value=3.0))
    assert seconds("bf16", fast) == pytest.approx(1.0)
    one_second = Cost(flops=h100.peak_flops("fp8"))
    flops = GemmOp("x", 1, one_second, compute="fp8", form="fp8", rows=0.5)
    assert Machine(h100, plain).op_predicted_s(flops) == pytest.approx(fp8_s)


@pytest.mark.parametrize(
    ("power", "weights", "compute"),
    [
        (1.0, 3.0, 4.0),
        (2.0, 9 / 5, 16 / 5),
        (3.0, 27 / 91 ** (2 / 3), 64 / 91 ** (2 / 3)),
        (float("inf"), 0.0, 4.0),
    ],
)
def test_what_overlaps_is_shared_out_by_what_it_adds(power, weights, compute) -> None:
    """x dt/dx of t = (3^p + 4^p)^(1/p): x^p / t^(p-1)."""
    terms = machine(gemm_blend_power=power).time([linear(3.0, 4.0)], 1.0).terms_s
    assert terms["param_load"] == pytest.approx(weights)
    assert terms["flops"] == pytest.approx(compute)


def rereads(m: Machine, *queries: float) -> list[float]:
    """How many times the cache is read, for each number of queries."""
    return [float(m.attention.reread(query)) for query in queries]


def test_reread_counts_for_more_than_one_query_only() -> None:
    rereading = machine(kv_reread=3.0)
    assert rereads(rereading, 1.0, 2.0, 3.0, 8.0) == [1, 2, 3, 3]
    assert rereads(machine(kv_reread_per_query=0.5), 1.0, 2.0, 5.0) == [1, 1.5, 3]
    assert rereads(machine(kv_reread_per_query=4.0), 1.0, 2.0, 5.0) == [1, 2, 5]
    assert rereads(machine(kv_reread=1.0, kv_reread_per_query=1.0), 4.0) == [1]
    assert rereading.op_predicted_s(attention(1.0, query=8.0)) == pytest.approx(3)
    assert rereading.op_predicted_s(attention(1.0, 2.0, query=1.0)) == pytest.approx(2)
    # physics does not re-read
    assert attention(1.0, query=8.0).lower_s(rereading) == pytest.approx(1)


@pytest.mark.parametrize(
    ("limiter", "ops", "values"),
    [
        ("param_load", [linear(3.0, 1.0), attention(2.0)], {}),
        ("kv_load", [linear(1.0, 1.0), attention(2.0)], {}),
        ("flops", [linear(1.0, 3.0), attention(2.0)], {}),
        ("activations", [linear(1.0, 1.0), SmallOp("norms", 1, Cost(activation_bytes=2 * BW))], {}),
        (
            "comm",
            [linear(1.0, 1.0), AllReduceOp("all-reduce", 10, Cost(), message_bytes=LINK, devices=2)],
            {},
        ),
        ("fixed", [linear(1.0, 1.0, 10)], {"gemm_fixed_s": 1.0}),
    ],
)
def test_limiter_of_a_pass_and_of_its_largest_op(limiter, ops, values) -> None:
    m = machine(2, **values)
    assert m.time(ops, 1.0).limiter == limiter
    largest = max(ops, key=lambda op: float(m.op_predicted_s(op)))
    assert m.op_limiter(largest) == limiter


@pytest.mark.parametrize(
    ("pieces", "moved_s", "computed_s", "expected"),
    [
        (3, 1, 0, 1),
        (215, 1, 0, 1),
        (216, 1, 0, 1),
        (220, 1, 0, 324 / 220),
        (350, 1, 0, 1),
        (432, 1, 0, 1),
        (220, 1, 1.4, 324 / 220),
        (256, 1, 1.4, 1.4),
    ],
)
def test_attention_in_waves(pieces: float, moved_s: float, computed_s: float, expected: float) -> None:
    """108 multiprocessors with 2 blocks each take 216 pieces at once; 220 leave 4 for a last wave, which
    lasts as if all 108 had one: (216 + 108) / 220. Fewer than 216 are cut up and fill the device. What is
    computed is no slower.
    """
    m = machine(attention_blocks_per_multiprocessor=2.0)
    op = attention(moved_s, computed_s).replace(work_items=pieces)
    assert m.op_predicted_s(op) == pytest.approx(expected)
    no_cache = Cost(op.cost.flops, activation_bytes=op.cost.kv_bytes)
    assert m.op_predicted_s(op.replace(cost=no_cache)) == pytest.approx(expected)
    assert m.op_limiter(op) == ("flops" if expected == computed_s else "kv_load")
    again = machine(kv_reread=2.0, attention_blocks_per_multiprocessor=2.0)
    verified = attention(1.0, query=2.0).replace(work_items=220.0)
    assert again.op_predicted_s(verified) == pytest.approx(2 * 324 / 220)


def test_a_device_whose_multiprocessors_nobody_counted_has_no_waves_and_no_longest_sequence() -> None:
    bare = A100.replace(multiprocessors=None)
    c = calibrated(attention_blocks_per_multiprocessor=2.0, multiprocessor_bandwidth=0.5)
    op = attention(1.0).replace(work_items=220.0, padded_items=220.0)
    assert Machine(bare, c).op_predicted_s(op) == pytest.approx(1.0)
    assert Machine(A100, c).op_predicted_s(op) > 1.4
    assert Machine(A100, IDEAL).tensor_parallel == 1


def test_the_longest_sequence_is_read_by_as_many_as_a_batch_leaves() -> None:
    """Each of 108 multiprocessors reads half of its share of the bandwidth.

    8 items on 8 rows: 13 pieces each, so that 1/8 of 1 s is read by 13 at half the rate: 1/8 / 13 x 108 /
    0.5. 216 items on 216 rows are not cut, and two follow each other on each multiprocessor: 2/216 x 108 /
    0.5 = 2 s.
    """
    m = machine(multiprocessor_bandwidth=0.5)
    few = attention(1.0).replace(work_items=8.0, padded_items=8.0)
    assert m.op_predicted_s(few) == pytest.approx(108 / 8 / 13 / 0.5)
    # all of them at the full rate
    even = few.replace(longer_bytes=-0.9 * BW / 8)
    assert m.op_predicted_s(even) == pytest.approx(1.0)
    whole = attention(1.0).replace(work_items=216.0, padded_items=216.0)
    assert m.op_predicted_s(whole) == pytest.approx(2.0)


def test_output_columns_cost_a_cpu_kernel_time_beside_its_bytes() -> None:
    """1 s of loading, 200 columns of 1 ms: 1.2 s of which 0.2 s is no load; loading and columns both beside
    compute.
    """
    op = GemmOp("gemm", 0, Cost(flops=2.0 * F, weight_bytes=BW), columns=200)
    time = machine(gemm_column_s=1e-3, gemm_blend_power=1.0).time([op], 1.0)
    assert time.predicted_s == pytest.approx(1.2 + 2.0)
    assert time.fixed_s == pytest.approx(0.2)
    assert time.lower_s == pytest.approx(2.0)


def test_unpacking_is_time_of_the_weights() -> None:
    """1 s of loading, 1 s of unpacking 1e9 weights and 3 s of computing at p = 1: 5 s, of which 2 for the
    weights.
    """
    op = GemmOp("gemm", 0, Cost(flops=3.0 * F, weight_bytes=BW), packed_weights=1e9)
    time = machine(weight_unpack_s=1e-9, gemm_blend_power=1.0).time([op], 1.0)
    assert time.predicted_s == pytest.approx(5.0)
    assert time.terms_s["param_load"] == pytest.approx(2.0)
    assert time.terms_s["flops"] == pytest.approx(3.0)
    assert machine(weight_unpack_s=1e-8, gemm_blend_power=1.0).op_limiter(op) == "param_load"
