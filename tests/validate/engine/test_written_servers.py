"""Servers that are declared in YAML or started in Python are answered like the command that starts them."""

import pytest

from perfmodel.validate.engine.serve_command import question_of
from perfmodel.validate.engine.written_servers import LONGEST_CALL, as_command

END = "--batch 1 --context 8k"
COMPOSE = """
services:
  vllm:
    image: vllm/vllm-openai:v0.24.0
    runtime: nvidia
    ports:
      - "8000:8000"
    command: >
      --model Qwen/Qwen3-32B-AWQ
      --max-model-len 32768
      --speculative-config '{"method": "eagle3", "num_speculative_tokens": 5}'
    environment:
      - HF_HOME=/data
"""
KUBERNETES = """
containers:
- name: vllm
  image: vllm/vllm-openai:v0.26.0
  command: ["vllm", "serve"]
  args:
    - "meta-llama/L-70B"
    - "--tensor-parallel-size"
    - "4"
    - --speculative-config
    - '{"method":"eagle3","num_speculative_tokens":3}'
  resources:
    limits:
      nvidia.com/gpu: "4"
"""
ARGS = """
image: vllm/vllm-openai:v0.26.0
args: ["--model", "Qwen/Qwen3-32B", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']
"""
DOCKERFILE = """FROM ghcr.io/x/y
CMD ["python3", "-m", "sglang.launch_server", "--model-path", "Q/W", "--tp", "2"]
"""
IMAGE_OF_VLLM = """FROM vllm/vllm-openai:v0.26.0
ENTRYPOINT ["vllm", "serve", "Q/W", "--tensor-parallel-size", "2"]
"""
SHELL = """
containers:
- command: ["/bin/sh", "-c"]
  args: ["exec vllm serve Q/W --tensor-parallel-size 2 --speculative-config '{\\"method\\": \\"mtp\\"}'"]
  image: vllm/vllm-openai:v0.26.0
"""
SEVERAL_IMAGES = """
images:
  - name: vllm/vllm-openai
    newTag: v0.26.0
---
containers:
  - args: ["--model", "Q/W", "--tensor-parallel-size", "2"]
    image: vllm/vllm-openai:v0.25.0
"""
SHELL_OF_LINES = """
command:
- /bin/bash
- -c
- |
  vllm serve Q/W \\
    --tensor-parallel-size 2 && sleep 5
image: vllm/vllm-openai:v0.26.0
"""
SHELL_WORDS = 'command: [sh, -c, "exec python3 -m sglang.launch_server --model-path Q/W --tp 4"]'
SHELL_OF_DOCKER = 'docker run --entrypoint sh vllm/vllm-openai:v0.26.0 -c "vllm serve Q/W -tp 2"'
ARGUMENTS_FIRST = """
- args:
  - --model
  - Q/W

  - --tensor-parallel-size
  - "2"
  image: vllm/vllm-openai:v0.26.0
  name: one
- args: [--model, Q/V, --data-parallel-size, "4"]
  image: vllm/vllm-openai:v0.27.0
"""
TWO_SERVICES = """
services:
  one:
    image: vllm/vllm-openai:v0.26.0
    command: --model Q/W --tensor-parallel-size 2
  two:
    image: vllm/vllm-openai:v0.27.0
    command: --model Q/V
"""
OTHER_COMMAND = """
cmd: nvidia-smi

vllm serve Q/W --tensor-parallel-size 2
"""
COMMENTED = """
image: vllm/vllm-openai:v0.26.0
args:
  - --model
  # don't change
  - Q/W
"""
SWAP = """
models:
  "qwen":
    cmd: |
      /app/llama-server --port ${PORT}
      -hf a/B-GGUF:Q4_K_M --n-gpu-layers 99 --spec-type draft-mtp --spec-draft-n-max 2
"""
LLAMA_IMAGE = """
  image: ghcr.io/ggml-org/llama.cpp:server-cuda
  command: -m /models/Qwen3-32B-Q4_K_M.gguf -ngl 99 -np 1
"""
TENSORRT = """
speculative_config:
  decoding_type: Eagle
  max_draft_len: 3
  speculative_model_dir: nvidia/Llama-3.3-70B-Instruct-Eagle3
kv_cache_config:
  enable_block_reuse: false

trtllm-serve nvidia/L-FP8 --tp_size 4 --extra_llm_api_options extra.yml
"""
VLLM_PYTHON = """
from vllm import LLM, SamplingParams
llm = LLM(
    model="meta-llama/Llama-3.1-8B-Instruct",
    tensor_parallel_size=2,
    enforce_eager=True,
    enable_prefix_caching=False,
    dtype=torch.bfloat16,
    speculative_config={"method": "ngram", "num_speculative_tokens": 5},
)
outputs = llm.generate(prompts)
"""
IMAGE_IN_A_COMMENT = """
# as vllm/vllm-openai:v0.25.0, with our own packages
image: registry.example/own
command: vllm serve Q/W --tensor-parallel-size 2
"""
SGLANG_PYTHON = """
llm = sgl.Engine(model_path="m", speculative_algorithm="EAGLE3", speculative_draft_model_path="h",
                 speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)
"""
TENSORRT_PYTHON = """
from tensorrt_llm import LLM
from tensorrt_llm.llmapi import MTPDecodingConfig
draft = MTPDecodingConfig(num_nextn_predict_layers=3)
llm = LLM("nvidia/x", tensor_parallel_size=8, speculative_config=draft)
"""


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (COMPOSE, f"--model Qwen/Qwen3-32B-AWQ --draft eagle3 --gamma 5 --engine vllm@0.24.0 {END}"),
        (
            KUBERNETES,
            f"--model meta-llama/L-70B --tp 4 --draft eagle3 --gamma 3 --engine vllm@0.26.0 {END}",
        ),
        (ARGS, f"--model Qwen/Qwen3-32B --draft mtp --gamma 1 --engine vllm@0.26.0 {END}"),
        (DOCKERFILE, f"--model Q/W --tp 2 --engine sglang {END}"),
        (IMAGE_OF_VLLM, f"--model Q/W --tp 2 --engine vllm@0.26.0 {END}"),
        (SHELL, f"--model Q/W --tp 2 --draft mtp --engine vllm@0.26.0 {END}"),
        (SEVERAL_IMAGES, f"--model Q/W --tp 2 --engine vllm@0.25.0 {END}"),
        (IMAGE_IN_A_COMMENT, f"--model Q/W --tp 2 --engine vllm {END}"),
        (SHELL_OF_LINES, f"--model Q/W --tp 2 --engine vllm@0.26.0 {END}"),
        (SHELL_WORDS, f"--model Q/W --tp 4 --engine sglang {END}"),
        (SHELL_OF_DOCKER, f"--model Q/W --tp 2 --engine vllm@0.26.0 {END}"),
        (ARGUMENTS_FIRST, f"--model Q/W --tp 2 --engine vllm@0.26.0 {END}"),
        (TWO_SERVICES, f"--model Q/W --tp 2 --engine vllm@0.26.0 {END}"),
        (OTHER_COMMAND, f"--model Q/W --tp 2 --engine vllm {END}"),
        (COMMENTED, f"--model Q/W --engine vllm@0.26.0 {END}"),
        (SWAP, f"--model a/B-GGUF:Q4_K_M --draft mtp --gamma 2 --engine llamacpp {END}"),
        (LLAMA_IMAGE, f"--model Qwen3-32B --weights q4_k_m --engine llamacpp {END}"),
        (
            TENSORRT,
            f"--model nvidia/L-FP8 --tp 4 --draft eagle3 --gamma 3 --engine trtllm {END}",
        ),
        (
            VLLM_PYTHON,
            f"--model meta-llama/Llama-3.1-8B-Instruct --tp 2 --draft ngram --gamma 5 --engine vllm {END}",
        ),
        (SGLANG_PYTHON, f"--model m --draft eagle3 --gamma 3 --engine sglang {END}"),
        (TENSORRT_PYTHON, f"--model nvidia/x --tp 8 --draft mtp --gamma 3 --engine trtllm {END}"),
    ],
)
def test_the_question_about_a_declared_server(text: str, asks: str) -> None:
    assert question_of(text) == f"perfmodel whatif --hardware DEVICE {asks}"


@pytest.mark.parametrize(
    "text",
    [
        "LLM(model='m'",
        "LLM(" + "(" * 300 + ")",
        "LLM(model='m', " + " " * LONGEST_CALL + ")",
        "my LLM(s) are slow",
        "my engine reads args: none",
    ],
)
def test_a_text_that_declares_no_server_is_left_as_it_is(text: str) -> None:
    assert as_command(text) == text
    assert question_of(text) is None


def test_a_broken_list_is_no_command() -> None:
    assert question_of("args: [broken, 'list]") is None


@pytest.mark.parametrize(
    "path",
    [
        r"C:\models\Qwen3.8-27B-UD-Q4_K_XL.gguf",
        r'"D:\my models\Qwen3.8-27B-UD-Q4_K_XL.gguf"',
        r"'D:\my models\Qwen3.8-27B-UD-Q4_K_XL.gguf'",
    ],
)
def test_a_path_of_windows_names_the_model_and_the_format(path: str) -> None:
    asked = question_of(f"llama-server.exe -m {path} -ngl 999 -np 1")
    assert asked is not None
    assert "--model Qwen3.8-27B --weights ud-q4_k_xl" in asked
