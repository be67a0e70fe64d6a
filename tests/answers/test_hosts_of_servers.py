"""Servers over several hosts: nodes, compute trays of a rack, and devices that are whole machines."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.point.ops import ops
from perfmodel.answers.point.whatif import whatif
from tests.commands import run


@pytest.mark.parametrize(
    ("question", "line", "others"),
    [
        (
            {"engine": "vllm", "dp": 16},
            "--data-parallel-size-local 8 --data-parallel-address HEAD --data-parallel-size 16",
            "node 1 adds --headless --data-parallel-start-rank 8",
        ),
        (
            {"engine": "vllm", "dp": 1},
            "--nnodes 2 --node-rank 0 --master-addr HEAD --enable-expert-parallel --tensor-parallel-size 16",
            "node 1 adds --headless --node-rank 1",
        ),
        (
            {"engine": "sglang", "dp": 16},
            "--nnodes 2 --node-rank 0 --dist-init-addr HEAD:5000 --attn-dp-size 16",
            "node 1 has --node-rank 1",
        ),
    ],
)
def test_a_server_over_two_nodes_says_what_each_of_them_starts(question, line, others) -> None:
    served = advise(model="deepseek-v3.1", hardware="h100", tp=16, ep=16, draft=[], **question).serve
    assert line in served.lines[question["engine"]]
    assert others in served.remarks[question["engine"]]


@pytest.mark.parametrize("hardware", ["gb200", "gb300"])
def test_a_server_over_two_compute_trays_of_a_rack_starts_on_two_hosts(hardware: str) -> None:
    """All GPUs of an NVL72 rack share NVLink, but a host has four of them."""
    asked = {
        "model": "deepseek-r1",
        "hardware": hardware,
        "weights": "nvfp4",
        "draft": [],
        "engine": "sglang",
    }
    two = advise(**asked, tp=8).serve
    assert "--nnodes 2 --node-rank 0 --dist-init-addr HEAD:5000" in two.sglang_line
    assert "node 1 has --node-rank 1" in two.remarks["sglang"]
    assert "--nnodes" not in advise(**asked, tp=4).serve.sglang_line
    assert "--nnodes" not in advise(**asked | {"hardware": "b200"}, tp=8).serve.sglang_line


def test_devices_that_are_whole_machines_are_not_taken_for_one_box() -> None:
    """Two Macs are two hosts, whose link was not measured."""
    said = "each of the 2 devices is a machine of its own"
    in_turn = {"engine": "llamacpp", "draft": []}
    macs = advise("gpt-oss-120b", "apple-m4-max-128gb", layer_split=2, **in_turn)
    assert any(note.startswith(said) for note in macs.warnings)
    assert "-sm layer --rpc HOST1:50052" in macs.serve.lines["llamacpp"]
    assert "HOST1 stands for the address of the other machine" in macs.serve.remarks["llamacpp"]
    with_a_card = advise("gpt-oss-120b", "strix-halo+rtx-3090", **in_turn)
    assert not any("a machine of its own" in note for note in with_a_card.warnings)
    assert "--rpc" not in with_a_card.serve.lines["llamacpp"]


def test_two_dgx_sparks_are_two_nodes_whose_link_was_never_measured() -> None:
    """``--tp 2`` and ``--nodes 2x1`` are the same question. The interval is
    wider than that of one system.
    """
    asked = {"model": "qwen3-32b", "weights": "fp8", "draft": [], "hardware": "dgx-spark"}
    one, two, named = advise(**asked), advise(**asked, tp=2), advise(**asked, tp=2, nodes="2x1")
    assert "--nnodes 2 --node-rank 0 --master-addr HEAD" in two.serve.vllm_line
    assert "node 1 adds --headless --node-rank 1" in two.serve.remarks["vllm"]
    assert named.serve.vllm_line == two.serve.vllm_line
    assert named.chosen.tpot_s == two.chosen.tpot_s
    assert named.warnings == two.warnings
    assert any("no all-reduce between two DGX Sparks is published" in note for note in two.warnings)
    assert "--nnodes" not in one.serve.vllm_line
    assert not any("all-reduce" in note for note in one.warnings)

    def width(tp: int) -> float:
        low, high = whatif("qwen3-32b", "dgx-spark", 1, 4096, 0, tp=tp, weights="fp8").ar_tpot_interval
        return high / low

    assert width(2) > width(1)


def test_between_two_dgx_sparks_large_messages_take_the_rate_of_the_card() -> None:
    """128 all-reduces of 512 tokens with 5,120 values of two bytes, at 25 GB/s."""
    passes = ops("qwen3-32b", "dgx-spark", 512, 1024, 0, tp=2, weights="fp8")
    (sent,) = [op for op in passes.ops if op.name == "all-reduce"]
    assert sent.message_bytes == 512 * 5120 * 2
    assert 1.0 < sent.predicted_s / (128 * sent.message_bytes / 25e9) < 1.5


def test_a_server_on_two_half_nodes_sends_over_the_network() -> None:
    """Eight H100 in two servers are slower than eight in one."""
    asked = {"model": "qwen3-32b", "hardware": "h100", "batch": 8, "context": 4096, "gamma": 0, "tp": 8}
    boxed, apart = whatif(**asked), whatif(**asked, nodes="2x4")
    assert apart.ar_tpot_s > boxed.ar_tpot_s
    assert any("all-reduces between nodes are assumed" in note for note in apart.warnings)


def test_a_what_if_about_several_macs_says_what_the_other_one_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = "whatif -m qwen3-8b --hardware m4-max --layer-split 2 -b 1 -c 8k --gamma 0"
    out = run(capsys, *asked.split())
    assert " -sm layer --rpc HOST1:50052\n" in out
    remark = "HOST1 stands for the address of the other machine, which runs `rpc-server "
    assert remark in " ".join(out.split())
