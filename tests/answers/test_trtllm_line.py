"""TensorRT-LLM: what a shell does with the printed line, and which servers have none."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.specs.boundary.strict_yaml import read_yaml


def pasted(line: str, folder: Path) -> tuple[list[str], Any]:
    """The arguments of the server that a line starts, and the options in the file that it writes."""
    server = folder / "trtllm-serve"
    server.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    server.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    shown = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return shown.stdout.split(), read_yaml((folder / "trtllm.yaml").read_text())


def test_an_eagle_head_and_the_limits_of_the_server(tmp_path: Path) -> None:
    table = schedule(
        "llama-3.3-70b", "b200", tp=2, context=4096, max_batch=8, draft="eagle3", rate="0.8", weights="nvfp4",
        kv_dtype="fp8", engine="trtllm", max_gamma=3, draft_path="someone/a head",
    ).tables[0]  # fmt: skip
    words, options = pasted(table.export.lines["trtllm"], tmp_path)
    assert words == [
        "nvidia/Llama-3.3-70B-Instruct-NVFP4", "--tp_size", "2", "--extra_llm_api_options", "trtllm.yaml"
    ]  # fmt: skip
    assert options == {
        "max_batch_size": 8,
        "max_seq_len": 6144,
        "kv_cache_config": {"dtype": "fp8"},
        "speculative_config": {
            "decoding_type": "Eagle3",
            "max_draft_len": table.best_constant,
            "speculative_model_dir": "someone/a head",
        },
    }
    assert [note for note in table.export.notes if "parse" in note] == [
        "lines of this form were not checked with the parser of TensorRT-LLM"
    ]


def test_a_draft_model_and_an_ngram_draft_have_lines(tmp_path: Path) -> None:
    """A draft model under a load is DraftTarget, with the usual checkpoint of the draft."""
    answer = advise(
        "llama-3.1-405b", "8xh200", weights="fp8", clients=16, input_len=2048, output_len=1024,
        engine="trtllm", draft=["llama-3.2-1b"], rate={"llama-3.2-1b": "0.75"},
    )  # fmt: skip
    assert answer.verdict == "likely_speculate"
    assert answer.chosen.runs_in == "TensorRT-LLM >= 1.0"
    _, options = pasted(answer.serve.lines["trtllm"], tmp_path)
    assert options["speculative_config"] == {
        "decoding_type": "DraftTarget",
        "max_draft_len": answer.chosen.gamma,
        "speculative_model_dir": "meta-llama/Llama-3.2-1B-Instruct",
    }
    table = schedule(
        "qwen3-8b", "h100", context=4096, max_batch=1, draft="ngram", rate="0.6", engine="trtllm"
    )
    _, options = pasted(table.tables[0].export.lines["trtllm"], tmp_path)
    assert options["speculative_config"]["decoding_type"] == "NGram"
    assert options["speculative_config"]["max_draft_len"] == table.tables[0].best_constant


def test_data_parallel_attention_counts_the_sequences_of_a_device(tmp_path: Path) -> None:
    answer = advise(
        "deepseek-r1", "h200", tp=8, dp=8, ep=8, batch=64, context=4096, draft=["mtp"], max_gamma=1,
        rate={"mtp": "0.8"}, engine="trtllm",
    )  # fmt: skip
    assert answer.serve is not None
    words, options = pasted(answer.serve.lines["trtllm"], tmp_path)
    assert words[1:3] == ["--tp_size", "8"]
    assert options["enable_attention_dp"]
    assert options["moe_expert_parallel_size"] == 8
    assert options["max_batch_size"] == 8
    assert options["speculative_config"]["decoding_type"] == "MTP"
    assert options["speculative_config"]["num_nextn_predict_layers"] == 1
    assert "--tp_size 8 with enable_attention_dp" in answer.serve.remarks["trtllm"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"draft": "dflash"}, "calls the draft DFlash; its other options are not known"),
        ({"model": "qwen2.5-7b", "weights": "fp8"}, "pass --model-path to name"),
    ],
)
def test_a_server_without_a_line_says_why(changed: dict[str, str], why: str) -> None:
    question = {"model": "qwen3-8b", "hardware": "h100", "draft": "eagle3", "engine": "trtllm", "rate": "0.8"}
    export = schedule(**(question | changed), context=4096, max_batch=2).tables[0].export
    assert "trtllm" not in export.lines
    assert any(why in note for note in export.notes), export.notes


def test_only_questions_about_it_have_its_line() -> None:
    export = (
        schedule("qwen3-8b", "mi300x", context=4096, max_batch=2, draft="ngram", rate="0.8").tables[0].export
    )
    assert "vllm" in export.lines
    assert "trtllm" not in export.lines


def test_no_checkpoint_in_compressed_tensors_is_named() -> None:
    """RedHatAI's are; vLLM loads them, TensorRT-LLM does not."""

    def line(model: str, engine: str) -> str:
        return advise(model, "8xh200", engine=engine, weights="fp8").serve.lines.get(engine, "")

    assert "\ntrtllm-serve nvidia/Llama-3.1-405B-Instruct-FP8 " in line("llama-3.1-405b", "trtllm")
    assert line("gemma-3-27b", "trtllm") == ""
    assert "vllm serve RedHatAI/gemma-3-27b-it-FP8-dynamic " in line("gemma-3-27b", "vllm")


def test_no_line_names_a_checkpoint_of_autoawq() -> None:
    """TensorRT-LLM reads what ModelOpt wrote: the line has a placeholder, and the answer says why."""
    answer = advise("llama-3.3-70b", "h100", context=4096, weights="awq-g128", engine="trtllm", draft=[])
    assert answer.serve is not None
    assert "trtllm-serve MODEL " in answer.serve.lines["trtllm"]
    why = "reads 4-bit integers that ModelOpt wrote, and not casperhansen/llama-3.3-70b-instruct-awq"
    assert why in answer.serve.remarks["trtllm"]
    unquantised = advise("qwen3-32b", "h100", context=4096, engine="trtllm")
    assert not any("AWQ" in (each.line or "") for each in unquantised.alternatives)
    assert "Qwen/Qwen3-32B-AWQ " in advise("qwen3-32b", "h100", weights="awq-g128", draft=[]).serve.vllm_line


def test_a_line_without_a_draft_does_not_say_that_none_gains_at_any_batch() -> None:
    """The answer about batch 1024 has one that may pay off below it."""
    answer = advise("gpt-oss-120b", "4xb200", engine="trtllm", context=4096)
    assert not answer.chosen.gamma
    assert answer.on_off is not None
    assert not any("in any range" in note for note in answer.serve.notes)


def test_searched_attention_groups_are_one_per_device() -> None:
    """`enable_attention_dp` has no degree, so TP 4 with two groups is no server of TensorRT-LLM."""
    load = {"clients": 16, "input_len": 2048, "output_len": 2048, "weights": "nvfp4", "objective": "latency"}
    a = advise("deepseek-r1", "8xb200", engine="trtllm", **load)
    layouts = [pick.layout for pick in a.layouts]
    assert any("DP" in layout for layout in layouts)
    assert not any("TP" in layout and "DP" in layout for layout in layouts)
    assert "enable_attention_dp: true" in a.serve.lines["trtllm"]
