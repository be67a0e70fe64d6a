"""Lines that `advise` prints start vLLM (CPU) on a tiny random model of their family, and the server answers.

``python -m tests.engine.starts ENGINE_FOLDER`` exits with 1 where a line does not start. A line keeps all its
flags; only the repositories are replaced, by configurations whose weights vLLM makes up.
"""

import json
import shlex
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from perfmodel.answers.advice.advise import advise
from tests.engine.install import main as install
from tests.engine.servers import started

DUMMY = ("--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager")
"""What stands in for the weights, and starts without compilation."""
BASE = {
    "vocab_size": 320,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
CONFIGS: dict[str, dict[str, object]] = {
    # an EAGLE-3 head reads three layers of its target: 2, n / 2 and n - 3
    "dense": BASE | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 8},
    "experts": BASE | EXPERTS | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"},
    "latent": BASE
    | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_key_value_heads": 4,
        "num_nextn_predict_layers": 1,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 64,
        "v_head_dim": 32,
    },
    "recurrent": BASE
    | EXPERTS
    | {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "shared_expert_intermediate_size": 128,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "num_nextn_predict_layers": 1,
    },
    "sliding": BASE
    | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 64,
        "rope_local_base_freq": 10000.0,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "eagle3": BASE
    | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": 320,
    },
}
"""Tiny models by family, and a head."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question to `advise`, and the tiny models that take the place of its repositories.

    answers: whether vLLM's CPU backend runs its passes; those of recurrent layers with a draft need Triton.
    pays: whether the draft pays, so that the line has it.
    """

    name: str
    model: str
    draft: str
    rate: str
    family: str
    head: str | None = None
    answers: bool = True
    pays: bool = True


CASES = (
    Case("n-gram", "llama-3.1-8b", "ngram", "0.7", "dense"),
    Case("draft model", "qwen3-32b", "qwen3-0.6b", "0.8", "dense", "dense"),
    Case("EAGLE-3", "llama-3.1-8b", "eagle3", "0.7", "dense", "eagle3"),
    Case("routed experts", "qwen3-30b-a3b", "ngram", "0.7", "experts"),
    Case("MLA with MTP", "glm-4.7-flash", "mtp", "0.8", "latent"),
    Case("recurrent layers", "qwen3.5-27b", "ngram", "0.7", "recurrent", answers=False),
    Case("recurrent layers with MTP", "qwen3.5-27b", "mtp", "0.8", "recurrent", answers=False),
    Case("sliding windows", "gemma-3-27b", "ngram", "0.7", "sliding"),
    Case("no draft", "llama-3.1-8b", "ngram", "0.01", "dense", pays=False),
    Case("no draft over experts", "qwen3-30b-a3b", "ngram", "0.01", "experts", pays=False),
    Case("no draft over MLA", "glm-4.7-flash", "ngram", "0.01", "latent", pays=False),
)


def write_models(engine: Path) -> Path:
    """The folder of the tiny configurations, each with the tokenizer of the tiny target."""
    folder = engine / "models" / "starts"
    for name, config in CONFIGS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name / file).write_text((engine / "models" / "target" / file).read_text())
    return folder


def words_of(case: Case, models: Path) -> list[str]:
    """The words of the printed line, with the tiny models in the place of the repositories."""
    advice = advise(
        model=case.model,
        hardware="h200",
        context=2048,
        batch=4,
        draft=[case.draft],
        rate={case.draft: case.rate},
        draft_path="some/head" if case.draft == "eagle3" else None,
    )
    if advice.serve is None or "vllm" not in advice.serve.lines:
        raise SystemExit(f"{case.name}: no line ({advice.serve and advice.serve.notes})")
    words = shlex.split(advice.serve.lines["vllm"])
    if ("--speculative-config" in words) is not case.pays:
        raise SystemExit(f"{case.name}: whether the line has a draft is not {case.pays}: {shlex.join(words)}")
    words[2] = str(models / case.family)
    if not case.pays:
        return [*words, *DUMMY]
    config = json.loads(words[-1])
    if case.head is not None:
        config["model"] = str(models / case.head)
    return [*words[:-1], json.dumps(config), *DUMMY]


def complete(url: str, model: str) -> int:
    """Tokens of one answer of the server."""
    body = {"model": model, "prompt": "one two three one two", "max_tokens": 16, "ignore_eos": True}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return int(json.load(answer)["usage"]["completion_tokens"])


def main(engine: Path, names: tuple[str, ...] = ()) -> int:
    """Start every case, or those named; 1 where one does not answer."""
    install(engine)
    models = write_models(engine)
    failed = 0
    for case in CASES:
        if names and case.name not in names:
            continue
        words = words_of(case, models)
        log = engine / f"start-{case.name.replace(' ', '-')}.log"
        try:
            with started([engine / "bin" / "vllm", *words[1:]], log) as url:
                tokens = complete(url, words[2]) if case.answers else 0
            print(f"{case.name}: started, {tokens} tokens", flush=True)
        except (RuntimeError, OSError) as error:
            failed += 1
            print(f"{case.name}: does not start: {shlex.join(words)}\n{str(error)[-600:]}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), tuple(sys.argv[2:])))
