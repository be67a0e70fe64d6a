"""A pasted command that starts a server has no times: it is answered with the question about it."""

import pytest

from perfmodel.validate.engine.serve_command import question_of

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
            f"--model a/B-GGUF:Q4_K_M --gpu-layers 20 --draft mtp --gamma 2 --engine llamacpp {END}",
        ),
        ("llama-server -m x.gguf -ngl 99", f"--model x.gguf --engine llamacpp {END}"),
        ("trtllm-serve nvidia/x --tp_size 2", f"--model nvidia/x --tp 2 --engine trtllm {END}"),
        ("trtllm-serve meta-llama/x", f"--model meta-llama/x --engine trtllm {END}"),
        ("vllm serve", f"--engine vllm {END}"),
        ("vllm serve --tensor-parallel-size=2", f"--tp 2 --engine vllm {END}"),
    ],
)
def test_the_question_about_a_server(command: str, asks: str) -> None:
    assert question_of(command) == f"perfmodel whatif --hardware DEVICE {asks}"


@pytest.mark.parametrize("text", ["vllm serve x --speculative-config '{open", "I run vllm here", ""])
def test_any_other_text_is_no_command(text: str) -> None:
    assert question_of(text) is None
