"""Lines that start a server: one contract for every engine that has one, and what makes a line start."""

import re
import shlex
from typing import Any

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.engine_lines import line_of_file
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.advice.servers.base import ANSWER_TOKENS
from perfmodel.answers.question import Query
from perfmodel.cli import run
from perfmodel.specs import engine_attention, serving_engines

DEVICES = {"llamacpp": "rtx-5090", "mlx": "m5-max"}
"""Engine -> a device, where it is not the usual one."""
DRAFTS = {
    "ngram": "ngram",
    "model": "llama-3.2-1b",
    "eagle3": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    "mtp": "mtp",
}
"""Kind of draft -> a draft for the questions to an engine, the preferred kind first."""


def question(word: str) -> dict[str, object]:
    """An ordinary question to an engine."""
    return {
        "model": "llama-3.1-8b",
        "hardware": DEVICES.get(word, "h100"),
        "engine": word,
        "context": 4096,
    }


@pytest.mark.parametrize("word", servers())
def test_every_engine_has_a_line_for_each_verb(word: str) -> None:
    """The line names the engine's own word for the draft, and its flags stand once each."""
    server = servers()[word]
    assert server.title == serving_engines()[word].title
    methods = serving_engines()[word].drafts
    kind = next(kind for kind in DRAFTS if kind in methods)
    draft = DRAFTS[kind]
    advice = advise(**question(word), rate={draft: "0.95"}, draft=[draft], batch=2)
    table = schedule(**question(word), rate="0.95", draft=draft, max_batch=2).tables[0]
    for export in (advice.serve, table.export):
        line = export.lines[word]
        assert methods[kind].method in line
        flags = [each for each in shlex.split(line) if re.fullmatch(r"--?[a-z][a-z-]+", each)]
        assert len(flags) == len(set(flags))
        longest = 4096 + ANSWER_TOKENS
        assert not server.states_length or str(longest) in line or str(2 * longest) in line


@pytest.mark.parametrize("word", servers())
def test_an_unknown_version_is_refused_with_what_is_allowed(word: str, capsys) -> None:
    command = "whatif -m qwen3-8b -b 1 -c 1k --alpha 0.7 --draft ngram --hardware"
    assert run([*command.split(), DEVICES.get(word, "h100"), "--engine", f"{word}@latest"]) == 2
    said = capsys.readouterr().err
    assert f"--engine: must be {word}" in said or "ENGINE@VERSION" in said


def test_the_longest_sequence_is_what_the_memory_and_the_model_allow() -> None:
    """8192 tokens and an answer; no more than the model's limit; less room where the cache has none."""

    def longest(**changes: object) -> int:
        line = advise(**({"model": "llama-3.1-8b", "hardware": "h100"} | changes)).serve.lines["vllm"]
        return int(re.search(r"--max-model-len (\d+)", line)[1])  # type: ignore[index]

    assert longest() == 8192 + ANSWER_TOKENS
    assert longest(context=131072) == 131072
    assert 47_000 < longest(hardware="rtx-4090", context=47_000, batch=1) < 47_000 + ANSWER_TOKENS


@pytest.mark.parametrize(
    ("model", "weights", "repository"),
    [
        ("qwen3-32b", "awq-g128", "Qwen/Qwen3-32B-AWQ"),
        ("qwen3-32b", "int4-g128", "Qwen/Qwen3-32B-AWQ"),
        ("qwen3-8b", "fp8-block", "Qwen/Qwen3-8B-FP8"),
        ("qwen3-14b", "fp8", "Qwen/Qwen3-14B-FP8"),
        ("qwen3.6-27b", "fp8", "Qwen/Qwen3.6-27B-FP8"),
        ("kimi-k2.5", "int4-g32", "moonshotai/Kimi-K2.5"),
        ("qwen3-32b", "int4", "Qwen/Qwen3-32B-AWQ"),
    ],
)
def test_a_quantised_checkpoint_is_a_known_one(model: str, weights: str, repository: str) -> None:
    """No line serves the unquantised checkpoint of a question about another."""
    served = advise(model=model, hardware="h200", tp=8, weights=weights).serve
    assert served.lines["vllm"].startswith(f"vllm serve {repository} ")
    told = any("the prediction is for" in remark for remark in served.remarks.values())
    assert told == (weights in ("int4", "int4-g128", "int4-g32", "fp8")), (
        "another format of the same size is said"
    )


def test_an_unknown_checkpoint_has_a_placeholder_and_the_nearest_known_one() -> None:
    question = {"model": "qwen3.6-27b", "hardware": "rtx-5090", "weights": "int4-g128"}
    served = advise(**question).serve
    assert served.lines["vllm"].startswith("vllm serve MODEL ")
    assert served.remarks["vllm"] == (
        "MODEL stands for a checkpoint of Qwen/Qwen3.6-27B in int4-g128 (--model-path); the nearest "
        "known one is nvidia/Qwen3.6-27B-NVFP4"
    )
    named = advise(model_path="me/quantised", **question).serve
    assert named.lines["vllm"].startswith("vllm serve me/quantised ")
    far = advise(**question | {"model": "llama-3.1-70b", "weights": "int8"}).alternatives
    assert all("MODEL" not in (each.line or "") for each in far)


def test_no_line_divides_the_blocks_of_a_checkpoint_or_loads_more_than_fits() -> None:
    """Experts of 768 in blocks of 128 on 2 and on 8 devices; 61 GB of BF16 on one of 48 GB."""

    def served(**changes: object) -> Any:
        question = {"model": "qwen3-30b-a3b", "hardware": "h100", "weights": "fp8"} | changes
        return advise(**question).serve  # type: ignore[arg-type]

    assert " Qwen/Qwen3-30B-A3B-FP8 " in served(tp=2).lines["vllm"]
    assert " Qwen/Qwen3-30B-A3B --tensor-parallel-size 8 --quantization fp8 " in served(tp=8).lines["vllm"]
    small = {"model": "glm-4.7-flash", "hardware": "l40s", "draft": ["ngram"], "rate": {"ngram": "0.4x3"}}
    assert "--quantization fp8" in served(**small).lines["vllm"], "it quantises layer by layer"
    assert "sglang" not in served(**small).lines
    assert any("SGLang loads all weights before" in note for note in served(**small).notes)


def test_a_line_that_quantises_on_load_says_that_the_unquantised_weights_do_not_fit() -> None:
    """63 GB of BF16 on a device of 48 GB, and on one of 141 GB."""
    question = {"model": "nemotron-3-nano-30b-a3b", "context": 8192, "tp": 1}
    told = "63.2 GB of unquantised weights per device do not fit in 47.7 GB"
    small = advise(hardware="l40s", weights="fp8", **question).serve
    assert "--quantization fp8" in small.lines["vllm"]
    assert told in small.remarks["vllm"]
    (changed,) = [
        each
        for each in advise(hardware="l40s", **question).alternatives
        if "--quantization" in (each.line or "")
    ]
    assert told in changed.text
    large = advise(hardware="h200", weights="fp8", **question).serve
    assert "--quantization fp8" in large.lines["vllm"]
    assert "unquantised" not in large.remarks.get("vllm", "")


@pytest.mark.parametrize(
    ("draft", "engine", "told"),
    [
        ("eagle3", "sglang", True),
        ("qwen3-0.6b", "sglang", True),
        ("ngram", "sglang", False),
        ("eagle3", "sglang@0.5.6", False),
    ],
)
def test_a_draft_keeps_its_format_beside_a_target_that_sglang_quantises(
    draft: str, engine: str, told: bool
) -> None:
    """Experts of 768 on 8 devices cannot have blocks of 128, so the line serves the BF16 checkpoint."""
    question = {"hardware": "h100", "tp": 8, "weights": "fp8", "context": 4096, "batch": 2}
    served = advise(
        "qwen3-30b-a3b", **question, engine=engine, draft=[draft], rate={draft: "0.9"}, draft_path="a/head"
    ).serve
    line = served.lines["sglang"]
    assert "--quantization fp8" in line
    assert ("--speculative-draft-model-quantization unquant" in line) == told
    assert any("quantises the draft with its target" in note for note in served.notes) == ("@" in engine)


def test_a_module_of_the_target_is_quantised_with_it() -> None:
    question = {"hardware": "h100", "weights": "fp8", "context": 4096, "batch": 2, "engine": "sglang"}
    line = advise("mimo-7b", **question, draft=["mtp"], rate={"mtp": "0.9"}).serve.lines["sglang"]
    assert "--quantization fp8" in line
    assert "--speculative-algorithm NEXTN" in line
    assert "--speculative-draft-model-quantization" not in line


def test_the_version_is_that_of_the_newest_flag_of_the_line() -> None:
    """MTP runs since 0.4.6, but ``--attn-dp-size`` is of 0.5.22; a named older version has the older flag."""
    layout = {"model": "deepseek-r1", "hardware": "h200", "tp": 8, "ep": 8, "batch": 64}
    groups, alone = (advise(**layout, dp=dp, engine="sglang") for dp in (8, 1))
    assert "--attn-dp-size 8" in groups.serve.lines["sglang"]
    drafted = [p for p in (groups.chosen, groups.option) if p is not None and p.runs_in]
    assert [p.runs_in for p in drafted] == ["SGLang >= 0.5.22"]
    drafted = [p for p in (alone.chosen, alone.option) if p is not None and p.runs_in]
    assert [p.runs_in for p in drafted] == ["SGLang >= 0.4.6"]


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("vllm", "--tensor-parallel-size 1 --data-parallel-size 8, which multiply"),
        ("sglang", "--tp 8 --attn-dp-size 8, which divides"),
        ("sglang@0.5.18", "--tp 8 --dp 8 --enable-dp-attention, which divides"),
    ],
)
def test_degrees_are_said_in_the_engines_meaning(word, words) -> None:
    """Eight devices are 1 x 8 in vLLM and 8 in 8 groups in SGLang."""
    served = advise(model="deepseek-r1", hardware="h200", tp=8, dp=8, ep=8, engine=word).serve
    assert words in served.remarks[word.partition("@")[0]]


def test_a_head_in_a_file_of_its_own_is_named_in_llama_cpp() -> None:
    line = advise(model="gemma-4-31b", hardware="rtx-5090", engine="llamacpp", weights="q4_k_m").serve.lines
    assert "--spec-type draft-mtp -md gemma-4-31B-it-assistant.gguf" in line["llamacpp"]
    question = Query("gemma-4-31b", "rtx-5090", 1, 4096, draft="mtp", engine="llamacpp", weights="q4_k_m")
    own, _ = line_of_file(question, 3) or ("", "")
    assert "-md gemma-4-31B-it-assistant.gguf" in own


def test_a_head_is_converted_to_gguf_before_the_server_starts() -> None:
    question = {"model": "gemma-4-31b", "hardware": "rtx-5090", "engine": "llamacpp"}
    *commands, server = advise(**question, weights="q4_k_m").serve.lines["llamacpp"].splitlines()
    name = "gemma-4-31B-it-assistant"
    assert commands == [
        f"hf download google/{name} --local-dir {name}",
        f"python convert_hf_to_gguf.py {name} --outtype bf16 --outfile {name}-bf16.gguf",
        f"llama-quantize {name}-bf16.gguf {name}.gguf Q4_K_M",
    ]
    assert server.startswith("llama-server")
    assert f"-md {name}.gguf" in server


def test_an_eagle_head_takes_the_tokenizer_of_its_target() -> None:
    table = schedule(
        "llama-3.1-8b", "rtx-5090", context=4096, max_batch=1, rate="0.9", weights="q8_0", engine="llamacpp",
        draft="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    ).tables[0]  # fmt: skip
    *commands, server = table.export.lines["llamacpp"].splitlines()
    name = "EAGLE3-LLaMA3.1-Instruct-8B"
    of_target = "--target-model-dir Llama-3.1-8B-Instruct"
    assert commands == [
        f"hf download yuhuili/{name} --local-dir {name}",
        "hf download meta-llama/Llama-3.1-8B-Instruct --local-dir Llama-3.1-8B-Instruct --include '*.json'",
        f"python convert_hf_to_gguf.py {name} {of_target} --outtype q8_0 --outfile {name}.gguf",
    ]
    assert server.startswith("llama-server")


def test_the_head_that_an_answer_names_is_taken_as_a_draft() -> None:
    named = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    line = advise(model="llama-3.1-8b", hardware="h100", draft=[named], batch=4).serve.lines["vllm"]
    assert f'"method": "eagle3", "model": "{named}"' in line


@pytest.mark.parametrize(
    ("engine", "flag"),
    [
        ("vllm", "--mamba-ssm-cache-dtype bfloat16"),
        ("sglang", "--mamba-ssm-dtype bfloat16"),
        ("trtllm", "mamba_ssm_cache_dtype"),
    ],
)
def test_a_line_states_the_format_of_recurrent_states_that_was_asked_for(engine: str, flag: str) -> None:
    question = {"engine": engine, "weights": "nvfp4", "batch": 4, "draft": ["mtp"]}
    asked = advise("qwen3.8-27b", "b200", state_dtype="bf16", **question).serve
    plain = advise("qwen3.8-27b", "b200", **question).serve
    assert flag in str(asked)
    assert flag not in str(plain)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("--tp 4 --ep 4", "--tensor-parallel-size 4 --expert-parallel-size 4"),
        ("--tp 4 --dp 4 --ep 4", "--tp-size 4 --dp-size 4 --ep-size 4"),
        ("--gamma 3 --kv-dtype fp8", "--num-speculative-tokens 3 --kv-cache-dtype fp8_e4m3"),
        ("--gamma 3 --memory-fraction 0.9", "--speculative-num-steps 3 --mem-fraction-static 0.9"),
        ("--draft ngram --max-num-seqs 64", "--speculative-algorithm NGRAM --max-running-requests 64"),
        ("--weights fp8 --memory-fraction 0.9", "--quantization fp8 --gpu-memory-utilization 0.9"),
    ],
)
def test_the_engines_own_flags_are_taken(ours: str, theirs: str, capsys) -> None:
    command = "whatif -m qwen3-30b-a3b --hardware h200 -b 8 -c 4k --alpha 0.7 --json"
    if "--draft" not in ours:
        command += " --draft eagle3"
    answers = []
    for flags in (ours, theirs):
        assert run(f"{command} {flags}".split()) == 0, flags
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_a_server_for_latency_runs_as_many_sequences_as_its_draft_pays_for() -> None:
    """One sequence is the fastest, and the line still lets others run beside it; a named batch is kept."""
    question = {"model": "gpt-oss-120b", "hardware": "h100", "tp": 4, "objective": "latency"}
    advice = advise(**question)
    assert advice.chosen.batch == 1
    on = advice.on_off
    most = on.looked_to if on.off_from is None else on.off_from - 1
    assert most > 10
    assert f"--max-num-seqs {most} " in advice.serve.lines["vllm"]
    assert "--max-num-seqs 2 " in advise(**question, batch=2).serve.lines["vllm"]


def test_the_line_of_an_mi300x_turns_on_the_kernels_that_were_priced() -> None:
    line = advise("qwen3-32b", "mi300x", draft=["eagle3"]).serve.vllm_line
    assert line.startswith("VLLM_ROCM_USE_AITER=1 vllm serve Qwen/Qwen3-32B ")
    assert "--attention-backend ROCM_AITER_FA" in line
    latent = advise("deepseek-r1", "8xmi300x", draft=["mtp"]).serve.vllm_line
    assert latent.startswith("VLLM_ROCM_USE_AITER=1 vllm serve deepseek-ai/DeepSeek-R1 ")
    assert "--attention-backend ROCM_AITER_MLA" in latent
    assert "AITER" not in advise("qwen3-32b", "h100", draft=["eagle3"]).serve.vllm_line


def test_sglang_on_an_mi300x_turns_on_the_kernels_that_were_priced() -> None:
    for model, hardware in (("qwen3-32b", "mi300x"), ("deepseek-r1", "8xmi300x")):
        served = advise(model, hardware, engine="sglang", draft=[]).serve
        assert served.sglang_line.startswith("SGLANG_USE_AITER=1 python -m sglang.launch_server ")
        assert "SGLANG" not in (served.vllm_line or "")


def test_remedies_are_backends_of_the_device_itself() -> None:
    """An RTX 5090 has FlashInfer's own kernels and not TensorRT-LLM's; one word names both."""
    vllm = engine_attention()["vllm"]
    assert set(vllm.choices("Blackwell GB202", "NVIDIA", "usual")) == {"flash-attn2", "flashinfer", "triton"}
    assert "trtllm" in vllm.choices("Blackwell", "NVIDIA", "usual")


def test_a_device_without_bf16_is_told_to_compute_in_fp16() -> None:
    line = advise("qwen2.5-7b", "t4", weights="awq-g128", draft=["ngram"], context=4096).serve.vllm_line
    assert "--dtype half" in line
    assert "--dtype" not in advise("qwen2.5-7b", "a10", draft=["ngram"], context=4096).serve.vllm_line


def test_a_short_name_of_a_coder_is_the_model_that_follows_instructions() -> None:
    line = advise("qwen2.5-coder-32b", "h100", draft=["ngram"], context=4096).serve.vllm_line
    assert line.startswith("vllm serve Qwen/Qwen2.5-Coder-32B-Instruct ")


def test_tokens_are_dispatched_by_the_library_that_was_priced() -> None:
    question = {"model": "deepseek-r1", "draft": ["mtp"], "context": 4096}
    assert "--all2all-backend deepep_low_latency" in advise(hardware="16xh100", **question).serve.vllm_line
    sglang = advise(hardware="16xh100", engine="sglang", **question).serve.sglang_line
    assert "--moe-a2a-backend deepep" in sglang
    amd = advise(hardware="16xmi300x", dp=16, ep=16, **question).serve.vllm_line
    assert "--all2all-backend mori_low_latency" in amd
    assert "all2all" not in advise(hardware="8xh200", **question).serve.vllm_line
    gathered = advise(hardware="16xh100", all_to_all="gather", **question).serve.vllm_line
    assert "all2all" not in gathered


@pytest.mark.parametrize("hardware", ["8xa100", "8xmi300x"])
def test_an_fp8_checkpoint_of_nvidia_is_for_its_devices_that_compute_in_fp8(hardware: str) -> None:
    question = {"model": "nemotron-3-super-120b-a12b", "weights": "fp8", "draft": ["ngram"], "context": 4096}
    repository = " nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8 "
    assert repository in advise(hardware="8xh100", **question).serve.vllm_line
    other = advise(hardware=hardware, **question).serve.vllm_line
    assert repository not in other
    assert "--quantization fp8" in other


def test_no_line_measures_a_draft_whose_head_nobody_named() -> None:
    question = {"engine": "llamacpp", "weights": "q4_k_m", "context": 16384}
    unknown = advise("devstral-small-2-24b", "rtx-5090", **question)
    assert unknown.likely[0].worth_measuring
    measures = unknown.serve_option.lines["llamacpp"]
    assert "--spec-type ngram-simple" in measures
    assert "-md" not in measures
    named = advise("devstral-small-2-24b", "rtx-5090", draft_path="head.gguf", **question)
    assert "-md head.gguf" in named.serve_option.lines["llamacpp"]
