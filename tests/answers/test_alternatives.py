"""What an answer names beside its choice, or instead of one: each comes with the line that starts it."""

import json
import re
from pathlib import Path

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.load.traffic import traffic
from perfmodel.cli.advise_words import headline
from tests.answers.advise.loads import alternative

QWEN3_14B = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "head_dim": 128,
    "hidden_size": 5120, "intermediate_size": 17408, "num_attention_heads": 40, "num_hidden_layers": 40,
    "num_key_value_heads": 8, "max_position_embeddings": 40960, "vocab_size": 151936, "hidden_act": "silu",
}  # fmt: skip
LINE = r"(?:VLLM_\w+=\w+ )?vllm serve "


@pytest.mark.parametrize(
    "question",
    [
        {"model": "llama-3.3-70b", "hardware": "a100", "gpus": 8},
        {"model": "gpt-oss-120b", "hardware": "2xh100", "clients": 32, "input_len": 2048, "output_len": 800},
        {"model": "llama-3.1-8b", "hardware": "rtx-4090", "context": 65_536},
        {"model": "gemma-3-27b", "hardware": "a100", "context": 16_384, "max_tpot_ms": 30},
        {"model": "deepseek-v3", "hardware": "8xh200", "clients": 64, "input_len": 4096, "output_len": 500}
        | {"max_tpot_ms": 20},
    ],
)
def test_every_alternative_has_a_line(question: dict[str, object]) -> None:
    """All but the hint that a draft may be measured, which is for any of them, and that about a router."""
    answer = advise(**question)
    hints = ("No draft of ", "A router sends ")
    servers = [each for each in answer.alternatives if not each.text.startswith(hints)]
    assert servers
    for each in servers:
        assert re.match(LINE, each.line), each.text
        assert each.servers >= 1


def test_a_config_that_names_no_checkpoint_has_lines_with_a_placeholder(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(QWEN3_14B))
    one = advise(str(config), "h100", context=8192, weights="awq")
    assert one.serve.vllm_line.startswith("vllm serve MODEL ")
    assert "MODEL stands for the checkpoint of the model, in awq-g128" in one.serve.remarks["vllm"]
    load = {"clients": 40, "input_len": 3000, "output_len": 600, "slo": {"ttft": 2000, "tpot": 40}}
    answer = advise(str(config), "2xl40s", **load)
    assert answer.verdict == "infeasible"
    for each in answer.alternatives:
        assert each.line.startswith("vllm serve MODEL "), each.text
        assert "(MODEL stands for such a checkpoint)" in each.text


def test_one_note_about_a_shorter_draft_where_several_servers_are_named() -> None:
    load = {"request_rate": 1.5, "input_len": 12_000, "output_len": 500, "slo": {"ttft": 5000, "tpot": 50}}
    answer = advise("qwen3-32b", "a100", gpus=2, **load)
    assert sum(each.text.startswith("A shorter draft") for each in answer.alternatives) == 1


def test_a_change_that_makes_room_has_the_line_of_the_changed_question() -> None:
    """Each way that the reason names is followed by the server that `advise` chooses after it."""
    answer = advise("llama-3.1-8b", "rtx-4090", context=65_536)
    assert len(answer.alternatives) == answer.reason.count("with --") + answer.reason.count(" on ")
    cache = alternative(answer, "With --kv-dtype fp8: ")
    assert " --kv-cache-dtype fp8 " in cache.line
    assert cache.line == advise("llama-3.1-8b", "rtx-4090", context=65_536, kv_dtype="fp8").serve.vllm_line
    two = alternative(answer, "With --tp 2: ")
    assert " --tensor-parallel-size 2 " in two.line


def test_the_fastest_server_is_named_where_no_one_keeps_the_bound() -> None:
    answer = advise("llama-3.3-70b", "h100", tp=(4,), context=8192, max_tpot_ms=2)
    assert answer.verdict == "infeasible"
    nearest = alternative(answer, "The nearest: TP 4, ")
    assert f"{answer.reason.split('lowest TPOT is ')[1].split(',')[0]} per token" in nearest.text
    assert " --tensor-parallel-size 4 " in nearest.line


def test_a_switch_is_told_with_its_gain_over_the_choice_and_a_line() -> None:
    """Two backends make the draft pay off alike: one is named, at its best batch, with its defect."""
    question = {"model": "qwen3-32b", "hardware": "a100", "context": 16_384, "weights": "awq-g128"}
    answer = advise(**question)
    assert len([r for r in answer.remedies if "backend" in r.switch]) == 2
    (named,) = [each for each in answer.alternatives if "--attention-backend" in each.text]
    there = advise(attention_backend="flashinfer", **question).chosen
    gain = there.throughput_tokens_per_s / answer.chosen.throughput_tokens_per_s
    assert named.text.startswith("With --attention-backend flashinfer: TP 1, eagle3, ")
    assert f"{gain:.2f} times the choice (known defect: FlashInfer" in named.text
    head = answer.headline()
    assert head.startswith("Too close to call with the default attention backend (flash-attn2): ")
    (change,) = [each for each in answer.better_changes if "backend" in each.flags]
    low, high = change.gain_interval
    turned = (
        f"with --attention-backend flashinfer {gain:.2f} times as good ({low:.2f} to {high:.2f}): eagle3, "
    )
    assert turned in head, "the headline names the remedy, not only the last lines"
    assert " --attention-backend FLASHINFER " in named.line
    assert f'"num_speculative_tokens": {there.gamma}' in named.line


def test_a_switch_surely_pays_only_if_its_whole_interval_is_above_one() -> None:
    answer = advise("qwen3-30b-a3b", "rtx-4090", tp=(2,), context=32_768, weights="fp8")
    (low, _), *_ = [remedy.speedup_interval for remedy in answer.remedies if "flashinfer" in remedy.switch]
    assert low < 1.0
    named = alternative(answer, "flashinfer")
    assert named.text.startswith("With --attention-backend flashinfer, where the draft may pay off: ")


@pytest.mark.parametrize(
    ("question", "flags"),
    [
        ({"model": "devstral-2-123b", "hardware": "8xh100", "context": 131_072}, ["--kv-dtype fp8"]),
        (
            {"model": "qwen3.5-397b", "hardware": "8xb200", "engine": "sglang"},
            ["--weights fp8", "--model nvidia/Qwen3.5-397B-A17B-NVFP4"],
        ),
        ({"model": "llama-3.1-70b", "hardware": "4xh100", "objective": "latency"}, None),
        ({"model": "llama-3.3-70b", "hardware": "8xh100"}, []),
    ],
)
def test_a_much_better_format_is_named_with_its_best_draft(question: dict, flags: list[str] | None) -> None:
    answer = advise(**question)
    found = [change.flags for change in answer.better_changes]
    assert flags is None or found == flags
    for change in answer.better_changes:
        assert change.gain > 1.2
        name, value = change.flags.removeprefix("--").split()
        there = advise(**question | {name.replace("-", "_"): value}).chosen
        assert (there.draft, there.gamma, there.batch) == (change.draft, change.gamma, change.batch)
        better = there.objective / answer.chosen.objective
        assert change.gain == pytest.approx(1 / better if answer.objective.name == "latency" else better)


def test_a_shorter_draft_is_a_sentence_because_only_its_length_changes() -> None:
    answer = advise(
        "llama-3.3-70b", "rtx-pro-6000", weights="nvfp4", context=4096, batch=2, tp=2, draft=["eagle3"]
    )
    named = alternative(answer, "A shorter draft")
    assert f"gamma {answer.shorter.gamma} keeps" in named.text
    assert named.line is None


def test_no_queue_stands_for_missing_servers() -> None:
    """Two GPUs kept the bound on TPOT by letting 198 of 200 clients wait, 17 minutes each."""
    load = {"clients": 200, "input_len": 8192, "output_len": 500, "max_tpot_ms": 40}
    chosen = advise("llama-3.3-70b", "h100", **load).chosen
    assert chosen.gpus > 8
    assert chosen.ttft_s < 5
    rate = {"request_rate": 1, "input_len": 8192, "output_len": 500, "max_tpot_ms": 60}
    p = advise("llama-3.3-70b", "h100", **rate).chosen
    assert p.ttft_s < 5


def test_the_line_takes_requests_four_times_as_long_as_the_mean_one() -> None:
    load = {"clients": 8, "input_len": 4096, "output_len": 500}
    usual = advise("llama-3.1-8b", "h100", **load)
    assert " --max-model-len 18384 " in usual.serve.vllm_line
    assert usual.chosen.kv_cache.max_model_len == 18_384
    stated = advise("llama-3.1-8b", "h100", max_model_len=4596, **load)
    assert usual.chosen.kv_cache.kv_tokens == stated.chosen.kv_cache.kv_tokens
    short = advise("qwen3-8b", "h100", clients=8, input_len=20_000, output_len=500)
    assert " --max-model-len 40960 " in short.serve.vllm_line


def test_smaller_weights_that_save_gpus_are_named_with_their_line() -> None:
    load = {"request_rate": 4, "input_len": 4096, "output_len": 500, "slo": "ttft:2000,tpot:30"}
    answer = advise("llama-3.3-70b", "h100", **load)
    named = alternative(answer, "With --weights fp8 ")
    gpus = int(re.search(r"fp8 (\d+) GPUs suffice", named.text)[1])
    assert gpus < answer.chosen.gpus
    assert "-FP8-dynamic " in named.line
    assert advise("llama-3.3-70b", f"{gpus}xh100", weights="fp8", **load).chosen is not None


def test_commands_that_convert_a_head_are_said_to_be_untested_beside_an_alternative_too() -> None:
    place = {"hardware": "rtx-4090", "engine": "llamacpp", "weights": "q4_k_m"}
    answer = advise("qwen3-32b", context=16_384, **place)
    named = alternative(answer, "With --kv-dtype q8_0: ")
    assert "convert_hf_to_gguf.py" in named.line
    assert named.text.endswith(" (the commands that convert the head were not tested)")


def test_a_model_that_no_node_holds_gets_the_fewest_nodes() -> None:
    """Kimi-K2 in FP8 does not fit on 8 H100. On 16 it does, beside the caches of two attention groups."""
    load = {"request_rate": 2, "input_len": 4096, "output_len": 500}
    answer = advise("kimi-k2", "h100", **load)
    p = answer.chosen
    assert (p.gpus, p.layout) == (16, "TP 8 DP 2 EP 16")
    seats = int(answer.traffic_command.rpartition("--max-num-seqs ")[2].split()[0])
    alone = traffic("kimi-k2", "h100", tp=16, dp=2, ep=16, draft="eagle3", max_num_seqs=seats, **load)
    row = next(row for row in alone.rows if row.gamma == p.gamma)
    assert p.tpot_s == pytest.approx(row.tpot_s.mean)


def test_smaller_weights_are_tried_on_every_kind_of_device() -> None:
    """The best kind with FP8 weights need not be the best one without."""
    question = {"model": "llama-3.3-70b", "context": 8192, "gpus": 8, "draft": ["ngram"]}
    answer = advise(hardware="h100,h200", price=(2.5, 3.5), **question)
    named = alternative(answer, "With --weights fp8 ")
    kinds = {"h100": 2.5, "h200": 3.5}
    costs = {
        kind: advise(hardware=kind, price=price, weights="fp8", **question).chosen.cost_per_million_tokens
        for kind, price in kinds.items()
    }
    assert f" on {min(costs, key=costs.get)}, " in named.text
    gain = answer.chosen.cost_per_million_tokens / min(costs.values())
    assert f"{gain:.2f} times as good" in named.text
    assert "-FP8-dynamic " in named.line


def test_a_draft_that_is_too_close_to_call_has_the_line_without_it_and_its_interval() -> None:
    answer = advise("gpt-oss-120b", "4xh100", clients=200, input_len=2048, output_len=500)
    assert answer.verdict == "too_close_to_call"
    assert answer.chosen.gamma
    gain, low = answer.robustness.gain_over_baseline, answer.robustness.gain_over_baseline_interval[0]
    assert low < 1.0 < gain
    assert f"; decoding alone at its mean batch {gain:.2f}x ({low:.2f} to " in headline(answer)
    assert "--speculative-config" in answer.serve.vllm_line
    assert "--speculative-config" not in answer.serve_option.vllm_line
