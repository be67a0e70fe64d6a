"""Decoding on several nodes, or on a rack: properties of the model that no measurement is needed for."""

import sys
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError

V3: dict[str, Any] = {
    "model": "deepseek-v3",
    "hardware": "h200",
    "engine": "sglang",
    "context": 4096,
    "gamma": 0,
}


def step(**changes: Any) -> float:
    return pm.whatif(**V3 | changes).target_step.predicted_s


def operation(name: str, **changes: Any) -> Any:
    operations = pm.ops(**V3 | changes).ops
    return next(op for op in operations if op.name == name)


@pytest.mark.parametrize("layout", [{"tp": 8}, {"tp": 8, "ep": 8}, {"tp": 8, "ep": 8, "dp": 8}])
@pytest.mark.parametrize("batch", [1, 64, 1000])
def test_one_node_is_the_box(layout: dict[str, int], batch: int) -> None:
    boxed = pm.whatif(**V3 | layout, batch=batch)
    assert step(**layout, batch=batch, nodes="1x8") == boxed.target_step.predicted_s


@pytest.mark.parametrize("each", [1, 4, 16, 128])
def test_more_ranks_never_read_more_experts(each: int) -> None:
    read = []
    for ranks in (16, 32, 64, 128):
        nodes = f"{ranks // 8}x8"
        whole = {"nodes": nodes, "ep": ranks, "dp": ranks, "batch": each * ranks}
        experts = operation("experts", weights="fp8", **whole)
        read.append(experts.weight_bytes)
    assert read == sorted(read, reverse=True)


def test_all_local_experts_are_read_so_verification_pays_payload_only() -> None:
    wide = {"nodes": "8x8", "ep": 64, "dp": 64, "batch": 64 * 16}
    plain = operation("experts", **wide)
    verified = operation("experts", **wide | {"gamma": 3, "stage": "verify", "draft": "mtp"})
    assert verified.weight_bytes == pytest.approx(plain.weight_bytes, rel=0.01)
    sent = operation("dispatch", **wide)
    verifying = operation("dispatch", **wide | {"gamma": 3, "stage": "verify", "draft": "mtp"})
    assert verifying.predicted_s > 1.5 * sent.predicted_s


def test_messages_have_the_bytes_of_a_ranks_tokens() -> None:
    """16 tokens of a rank go to 8 experts each, with 7,168 values; no other operation sends any."""
    wide = {"nodes": "8x8", "ep": 64, "dp": 64, "batch": 64 * 16}
    sent = {op.name: op.message_bytes for op in pm.ops(**V3 | wide).ops if op.message_bytes}
    assert sent == dict.fromkeys(("dispatch", "combine"), 16 * 8 * 7168)


def test_the_devices_of_a_group_share_its_messages() -> None:
    """Two devices attend for 16 tokens: each sends 8 of them to 8 experts."""
    groups_of_two = {"nodes": "2x8", "ep": 16, "dp": 8, "batch": 8 * 16}
    assert operation("dispatch", **groups_of_two).message_bytes == 8 * 8 * 7168


def test_a_token_goes_to_each_rank_once_where_ranks_are_fewer_than_its_experts() -> None:
    few = {"hardware": "b300", "nodes": "2x2", "ep": 4, "dp": 4, "batch": 4 * 16}
    assert operation("dispatch", **few).message_bytes == 16 * 4 * 7168


def test_a_pass_of_four_stages_sends_its_tokens_three_times() -> None:
    """16 sequences, four in each stage, with a state of 7,168 values of two bytes."""
    sent = operation("stage send", nodes="4x8", pp=4, batch=16)
    assert sent.kernels == 3
    assert sent.message_bytes == 4 * 7168 * 2


def test_latent_attention_of_whole_heads_computes_when_it_verifies() -> None:
    long = {"context": 32768, "gamma": 1, "stage": "verify", "draft": "mtp"}
    on_nodes = {"nodes": "2x8", "ep": 16, "dp": 16, "batch": 256}
    wide = operation("attention (full)", **V3 | long | on_nodes)
    boxed = operation("attention (full)", **V3 | long | {"tp": 8, "batch": 16})
    assert wide.limiter == "flops"
    assert boxed.limiter == "kv_load"


def test_two_micro_batches_pay_when_messages_are_long_and_not_when_weights_are() -> None:
    wide = {"nodes": "9x8", "ep": 72, "dp": 72, "redundant_experts": 32}
    for each, pays in ((256, True), (4, False)):
        batch = 72 * each
        cut = step(**wide, batch=batch, overlap="two-batch")
        assert (cut < step(**wide, batch=batch)) == pays


def test_the_parts_of_a_pass_with_overlap_sum_to_its_time() -> None:
    answer = pm.whatif(
        **V3, nodes="4x8", ep=32, dp=32, batch=32 * 128, overlap="two-batch", redundant_experts=32
    )
    assert sum(answer.target_step.terms_s.values()) == pytest.approx(answer.target_step.predicted_s)


def test_pipeline_stages_hold_a_part_of_the_weights_and_do_not_shorten_a_token() -> None:
    one = pm.whatif(**V3, tp=8, batch=8)
    two = pm.whatif(**V3, nodes="2x8", pp=2, batch=16)
    assert two.memory.weight_bytes < 0.55 * one.memory.weight_bytes
    assert two.target_step.predicted_s >= one.target_step.predicted_s
    assert two.ar_throughput_tokens_per_s > one.ar_throughput_tokens_per_s


def test_tp_beyond_a_box_assumes_nodes_and_says_so() -> None:
    answer = pm.whatif(**V3, tp=16, batch=1)
    assert any("2 nodes of 8" in w for w in answer.warnings)
    assert any("between nodes are assumed" in w for w in answer.warnings)
    assert answer.ar_tpot_interval is not None
    low, high = answer.ar_tpot_interval
    boxed = pm.whatif(**V3, tp=8, batch=1).ar_tpot_interval
    assert boxed is not None
    assert high / low > boxed[1] / boxed[0]


def test_the_batch_of_a_rank_is_said() -> None:
    answer = pm.whatif(**V3, nodes="2x8", ep=16, dp=16, batch=40)
    assert "batch 40 counts the sequences of all 16 ranks: 3 on the fullest" in answer.warnings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": "2x8", "tp": 8}, "nodes: must be as many devices as tp 8, given '2x8'"),
        ({"nodes": "two"}, "nodes: must be NODESxDEVICES"),
        ({"nodes": "9x8", "ep": 72, "dp": 72}, "see redundant_experts"),
        ({"hardware": "gb200-nvl72", "nodes": "2x64"}, "nvl72.yaml has no table between racks"),
        ({"model": "qwen3-8b", "redundant_experts": 8}, "must be 0 for qwen3-8b, which has no experts"),
        ({"model": "llama-3.2-1b", "pp": 17}, "pp: must be at most the 16 layers of llama-3.2-1b, given 17"),
        ({"hardware": "mi300x", "nodes": "2x8"}, "rdma-amd.yaml has no table allreduce"),
        (
            {"nodes": "2x8", "ep": 16, "dp": 16, "overlap": "two-batch", "engine": "trtllm"},
            "no overlap of trtllm",
        ),
        ({"tp": 8, "overlap": "two-batch"}, "overlap: must be auto or none without a dispatch"),
        (
            {"hardware": "tpu-v5p", "engine": None, "calibration": "ideal", "nodes": "2x8"},
            "has no table of links",
        ),
    ],
)
def test_what_is_missing_is_named_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        pm.whatif(**V3 | {"batch": 1} | changes)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


DRAFTED = {"gamma": 3, "draft": "mtp", "alpha": 0.7}
WIDE = {"nodes": "4x8", "ep": 32, "dp": 32}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (WIDE | {"batch": 64}, "measured from 128 tokens per rank on; for 2 the time"),
        (WIDE | {"batch": 64} | DRAFTED, "measured from 128 tokens per rank on; for 8 the time"),
        (WIDE, "assumed to have 1.76 times the mean tokens, as published without redundant experts"),
        (
            WIDE | {"redundant_experts": 32},
            "assumed to have 1.18 times the mean tokens, as published with red",
        ),
        (
            {"hardware": "gb200", "tp": 72, "ep": 72, "dp": 72, "redundant_experts": 32},
            "measured on up to 64 ranks, given 72",
        ),
        ({"pp": 2, "tp": 8} | DRAFTED, "few versions of engines combine pipeline stages and speculation"),
    ],
)
def test_what_was_not_measured_is_a_warning(changes: dict[str, Any], warning: str) -> None:
    answer = pm.whatif(**V3 | {"batch": 4096} | changes)
    assert any(warning in said for said in answer.warnings)


def test_what_is_usual_is_no_warning() -> None:
    """Pipeline stages without a draft, 128 tokens of each rank, and nodes that can have only one device."""
    staged = pm.whatif(**V3, tp=8, pp=2, batch=8)
    assert not any("pipeline stages and speculation" in warning for warning in staged.warnings)
    full = pm.whatif(**V3, **WIDE, batch=32 * 128)
    assert not any("measured from" in warning for warning in full.warnings)
    sparks = pm.whatif("qwen3-32b", "dgx-spark", 1, 4096, 0, tp=2, weights="fp8")
    assert not any("no --nodes was given" in warning for warning in sparks.warnings)


def test_redundant_experts_never_make_the_fullest_rank_fuller() -> None:
    """Two ranks of 64 experts each are more even than the published 1.18 of 32 ranks with copies."""
    two = {"model": "qwen3-30b-a3b", "nodes": "2x1", "ep": 2, "dp": 2, "batch": 512}
    plain, copies = (pm.whatif(**V3 | two, redundant_experts=count) for count in (0, 2))
    of_plain, of_copies = (resolve(answer.query).layout.imbalance for answer in (plain, copies))
    assert of_copies <= of_plain < 1.18


def test_cards_without_a_direct_link_are_one_node_whatever_their_number() -> None:
    assert resolve(Query("qwen3-32b", "l40s", 1, 4096, gamma=0, tp=16)).machine.fabric is None


def calls_of(**question: Any) -> int:
    """Python calls of an answer, the second time it is asked."""
    pm.whatif(**question)
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    pm.whatif(**question)
    sys.setprofile(None)
    return counted


def test_an_answer_about_nodes_costs_at_most_twice_that_about_a_box() -> None:
    drafted = V3 | {"gamma": 3, "draft": "mtp", "alpha": 0.7, "batch": 64}
    boxed = calls_of(**drafted, tp=8)
    assert calls_of(**drafted, nodes="2x8", ep=16, dp=16) <= 2 * boxed


def test_an_assumed_all_reduce_makes_answers_under_load_wider_too() -> None:
    question = V3 | {"input_len": 2048, "output_len": 256, "request_rate": 0.2, "closed_form": True}
    question = {name: value for name, value in question.items() if name != "context"}

    def width(tp: int) -> float:
        interval = pm.traffic(**question, tp=tp).rows[0].tpot_interval
        assert interval is not None
        low, high = interval
        return high / low

    assert width(16) > 1.5 * width(8)


def test_devices_of_a_rack_are_one_node_and_nothing_is_assumed_of_nodes() -> None:
    """More than the rack has are nodes of the usual size, which a warning says."""
    query = Query("deepseek-v3", "gb200", 64, 4096, gamma=0, tp=16, engine="sglang")
    assert str(resolve(query).machine.fabric) == "1 x 16 over nvl72"
    in_rack = pm.whatif(**V3 | {"hardware": "gb200", "tp": 16, "batch": 64})
    assert not any("no --nodes was given" in warning for warning in in_rack.warnings)
    beyond = pm.whatif(**V3, tp=16, batch=64)
    assert any("2 nodes of 8 h200-sxm-141gb are assumed" in warning for warning in beyond.warnings)


def test_devices_are_those_of_all_pipeline_stages() -> None:
    load = {"request_rate": 0.1, "input_len": 2048, "output_len": 300, "gamma": 0, "price": 1.0}
    one, two = (pm.traffic("llama-3.3-70b", "h100", tp=2, pp=pp, **load) for pp in (1, 2))
    assert two.headline().endswith("on 4 x h100-sxm-80gb")
    assert two.verdicts[0].dollars_per_million_tokens == 2 * one.verdicts[0].dollars_per_million_tokens
