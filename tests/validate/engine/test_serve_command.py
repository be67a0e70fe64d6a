"""A pasted command that starts a server has no times: it is answered with the question about it."""

import pytest

from perfmodel.cli import run
from perfmodel.validate.engine.serve_command import question_of, slowed_by, to_be_stated

CONFIG = """'{"method": "mtp", "num_speculative_tokens": 3}'"""
DRAFT_MODEL = """'{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}'"""
END = "--batch 1 --context 8k"


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        (
            f"$ vllm serve Qwen/Qwen3.5-27B \\\n --tensor-parallel-size 2 --speculative-config {CONFIG}",
            f"--model Qwen/Qwen3.5-27B --tp 2 --draft mtp --gamma 3 --engine vllm {END}",
        ),
        (
            f"vllm serve Qwen/Qwen3-32B --speculative-config={DRAFT_MODEL}",
            f"--model Qwen/Qwen3-32B --draft Qwen/Qwen3-0.6B --gamma 4 --engine vllm {END}",
        ),
        (
            "python -m sglang.launch_server --model-path m --tp-size=4 --speculative-algorithm NEXTN",
            f"--model m --tp 4 --draft mtp --engine sglang {END}",
        ),
        (
            "llama-server -hf a/B-GGUF:Q4_K_M -ngl 20 --spec-type draft-mtp --spec-draft-n-max 2",
            "--model a/B-GGUF:Q4_K_M --gpu-layers 20 --draft mtp --gamma 2 --host-bandwidth 80 "
            f"--engine llamacpp {END}",
        ),
        ("llama-server -m x.gguf -ngl 99", f"--model x.gguf --engine llamacpp {END}"),
        ("trtllm-serve nvidia/x --tp_size 2", f"--model nvidia/x --tp 2 --engine trtllm {END}"),
        ("trtllm-serve meta-llama/x", f"--model meta-llama/x --engine trtllm {END}"),
        (
            f"docker run --gpus all vllm/vllm-openai:v0.27.1 --model Q/W --kv-cache-dtype auto "
            f"--speculative-config {CONFIG}",
            f"--model Q/W --draft mtp --gamma 3 --engine vllm@0.27.1 {END}",
        ),
        ("docker run vllm/vllm-openai:latest Q/W -tp 2", f"--model Q/W --tp 2 --engine vllm {END}"),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model Q/W --data-parallel-size 2",
            f"--model Q/W --dp 2 --engine vllm {END}",
        ),
        (
            "llama-server -m x.gguf --spec-type draft-mtp -md head.gguf -c 8192",
            f"--model x.gguf --draft mtp --engine llamacpp {END}",
        ),
        (
            "llama-server -m x.gguf -md small.gguf --draft-max 4",
            f"--model x.gguf --draft small.gguf --gamma 4 --engine llamacpp {END}",
        ),
        (
            "sglang serve --model-path m --speculative-algorithm STANDALONE "
            "--speculative-draft-model-path small --speculative-num-steps 5",
            f"--model m --draft small --gamma 5 --engine sglang {END}",
        ),
        (
            "llama-server -m x.gguf --spec-type draft-simple -md small.gguf",
            f"--model x.gguf --draft small.gguf --engine llamacpp {END}",
        ),
        (
            "mlx_lm.generate --model a/B-4bit --draft-model a/C-4bit --num-draft-tokens 3",
            f"--model a/B-4bit --draft a/C-4bit --gamma 3 --engine mlx {END}",
        ),
        (
            "vllm serve Q/W --speculative-config.method mtp --speculative-config.num-speculative-tokens=3",
            f"--model Q/W --draft mtp --gamma 3 --engine vllm {END}",
        ),
        (
            "sglang serve --model-path Q/W --tp 8 --dp 8 --enable-dp-attention --speculative-algorithm EAGLE",
            f"--model Q/W --tp 8 --dp 8 --draft mtp --engine sglang {END}",
        ),
        (
            "sglang serve --model-path Q/W --speculative-algorithm EAGLE --speculative-draft-model-path a/h",
            f"--model Q/W --draft eagle --engine sglang {END}",
        ),
        (
            "llama-server -m /there/Qwen3-32B-UD-Q4_K_XL.gguf -md /there/Qwen3-0.6B-Q8_0.gguf --draft-max 4",
            f"--model Qwen3-32B --weights ud-q4_k_xl --draft Qwen3-0.6B --gamma 4 --engine llamacpp {END}",
        ),
        ("ollama run qwen3:8b --verbose", f"--model qwen3:8b --engine llamacpp {END}"),
        ("vllm serve", f"--engine vllm {END}"),
        ("vllm serve --tensor-parallel-size=2", f"--tp 2 --engine vllm {END}"),
    ],
)
def test_the_question_about_a_server(command: str, asks: str) -> None:
    assert question_of(command) == f"perfmodel whatif --hardware DEVICE {asks}"


def test_a_tree_is_asked_as_a_tree() -> None:
    flags = "--speculative-num-steps 5 --speculative-eagle-topk {} --speculative-num-draft-tokens {}"
    command = f"python -m sglang.launch_server --model m --speculative-algorithm EAGLE3 {flags}"
    asked = question_of(command.format(8, 32), "a6000")
    assert asked.startswith("perfmodel tree --hardware a6000 --model m --draft eagle3 --engine sglang")
    assert asked.endswith("--given 5x8x32 --rates 0.7,0.1,0.05")
    assert "whatif" in question_of(command.format(1, 6))
    assert "--gamma 5" in question_of(command.format(1, 6))


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--enforce-eager", "CUDA graphs are off"),
        ("--disable-cuda-graph", "CUDA graphs are off"),
        ("--disable-cuda-graph-padding", ""),
        ("--cuda-graph-max-bs 2", "more than 2 requests run without CUDA graphs"),
        ("--no-async-scheduling", "asynchronous scheduling is off"),
        ("--disable-overlap-schedule", "the overlap of host and device is off"),
        ("--disable-custom-all-reduce", "the custom all-reduce is off"),
        ("--cpu-offload-gb 8", "weights lie in host memory"),
        ("-fa off", "flash attention is off"),
        ("-fa on", ""),
        ("# use '--enforce-eager' in the CLI", ""),
    ],
)
def test_flags_that_slow_a_server_are_named(flag: str, says: str) -> None:
    words = "; ".join(slowed_by(f"vllm serve Q/W {flag}"))
    assert words.startswith(says) if says else not words


def test_the_question_has_what_the_user_gave_where_the_command_states_nothing(tmp_path, capsys) -> None:
    path = tmp_path / "command.txt"
    ask = ["validate", "engine", "--model", "qwen3-32b", "--hardware", "h100", "--from", f"{path},batch=4"]
    ask += ["--context", "1k", "--tp", "2", "--weights", "fp8", "--engine", "vllm@0.20.1"]
    for command, tp, engine in (
        ("vllm serve Q/W", 2, "vllm@0.20.1"),
        ("vllm serve Q/W -tp 8", 8, "vllm@0.20.1"),
        ("docker run vllm/vllm-openai:v0.27.1 --model Q/W", 2, "vllm@0.27.1"),
        ("sglang serve --model-path Q/W", 2, "sglang"),
    ):
        path.write_text(command)
        assert run(ask) == 2
        question = capsys.readouterr().err.partition("or ask: perfmodel whatif ")[2].split()
        flags = dict(zip(question[::2], question[1::2], strict=True))
        assert flags == {
            "--hardware": "h100",
            "--model": "Q/W",
            "--tp": str(tp),
            "--weights": "fp8",
            "--engine": engine,
            "--batch": "4",
            "--context": "1024",
        }


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("-ngl 20", ["--host-bandwidth 80 is an example: give the GB/s of the host's memory"]),
        ("--spec-draft-p-min 0.75", ["not in this question: --spec-draft-p-min (drafts then stop early"]),
        (
            "-ts 3,1 -ot=exps=CPU",
            ["not in this question: -ot (--cpu-moe N with --host-bandwidth GB/S), -ts (--layer-split N"],
        ),
        ("-ngl 99 -fa on --spec-draft-p-min 0", []),
    ],
)
def test_what_the_question_does_not_have_from_the_command_is_said(flags: str, says: list[str]) -> None:
    command = f"llama-server -m x.gguf --spec-type draft-mtp {flags}"
    stated = to_be_stated(command, question_of(command))
    assert len(stated) == len(says)
    assert all(words.startswith(begins) for words, begins in zip(stated, says, strict=True))


def test_what_the_question_does_not_have_from_a_declared_server_is_said_too() -> None:
    declared = 'command: ["llama-server", "-m", "x.gguf", "-ot", "exps=CPU"]'
    (stated,) = (words for words in to_be_stated(declared, question_of(declared)) if "not in" in words)
    assert stated.startswith("not in this question: -ot")


def test_a_pasted_command_is_answered_for_the_device_of_the_question(tmp_path, capsys) -> None:
    path = tmp_path / "start.sh"
    path.write_text("vllm serve Qwen/Qwen3-32B --enforce-eager\n")
    ask = ["validate", "engine", "--model", "qwen3-32b", "--hardware", "h200", "--from", str(path)]
    assert run(ask) == 2
    said = capsys.readouterr().err
    assert "ask: perfmodel whatif --hardware h200 --model Qwen/Qwen3-32B" in said
    assert "the server is slower than predicted: CUDA graphs are off" in said


@pytest.mark.parametrize("text", ["vllm serve x --speculative-config '{open", "I run vllm here", ""])
def test_any_other_text_is_no_command(text: str) -> None:
    assert question_of(text) is None


@pytest.mark.parametrize(("layers", "asked"), [("98", "--gpu-layers 98"), ("99", ""), ("all", "")])
def test_a_count_of_99_layers_means_all_of_them(layers: str, asked: str) -> None:
    question = question_of(f"llama-server -m x.gguf -ngl {layers}")
    assert question is not None
    assert ("--gpu-layers" in question) is bool(asked)
    assert asked in question


def test_the_name_of_an_image_alone_is_no_question() -> None:
    assert question_of('repository: "vllm/vllm-openai"\ntag: "v0.29.0"') is None
