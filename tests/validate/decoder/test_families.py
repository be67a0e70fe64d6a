"""Logits equal `transformers`' own implementation on tiny random models of each family: fp32, 1e-4."""

from typing import Any

import pytest
import torch

from perfmodel.specs import MoE
from perfmodel.validate.decoder import RandomWeights, Request, build, load, make_decoder
from tests.validate.tiny_model import tiny_spec

transformers = pytest.importorskip("transformers")

SHAPE: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "vocab_size": 99,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
STATED = {"attention_factor": 1.3, "beta_fast": 4, "beta_slow": 1e-7, "original_max_position_embeddings": 32}
PARTLY = {"original_max_position_embeddings": 32, "tie_word_embeddings": True}
LITTLE = {"original_max_position_embeddings": 32, "max_position_embeddings": 48}
EXPERTS = {"head_dim": 16, "moe_intermediate_size": 32}


def longrope(before: int, pairs: int = 4) -> dict[str, Any]:
    """One factor a pair of dimensions, short and long."""
    short = [1.0 + 0.1 * i for i in range(pairs)]
    long = [1.5 + 0.9 * i for i in range(pairs)]
    stated = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": before}
    return stated | {"short_factor": short, "long_factor": long}


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-3": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "llama-3.1": ("Llama", {"rope_parameters": LLAMA3}),
    "llama-3.1-blended": ("Llama", {"rope_parameters": LLAMA3 | {"original_max_position_embeddings": 16}}),
    "llama-3.2": (
        "Llama",
        {"rope_parameters": LLAMA3 | {"factor": 32.0}, "tie_word_embeddings": True, "head_dim": 16},
    ),
    "llama-with-biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-2-32k": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 8.0}}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2.5-yarn": ("Qwen2", {"rope_parameters": YARN}),
    "qwen3-yarn-as-stated": ("Qwen3", {"head_dim": 16, "rope_parameters": YARN | STATED}),
    "llama-yarn-with-mscales": ("Llama", {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.2}}),
    "llama-yarn-with-one-mscale": ("Llama", {"rope_parameters": YARN | {"mscale": 0.7}}),
    "llama-yarn-of-little": ("Llama", {"rope_parameters": YARN | {"factor": 1.5}}),
    "llama-yarn-of-nothing": ("Llama", {"rope_parameters": YARN | {"factor": 0.5}}),
    "phi3-4k": ("Phi3", {"sliding_window": 17}),
    "phi3-128k": ("Phi3", {"rope_parameters": longrope(32), "original_max_position_embeddings": 32}),
    "phi3-128k-in-4k": ("Phi3", {"rope_parameters": longrope(128), "original_max_position_embeddings": 128}),
    "phi3-just-in-48": ("Phi3", {"rope_parameters": longrope(48), "original_max_position_embeddings": 48}),
    "phi3-of-little": ("Phi3", {"rope_parameters": longrope(32), **LITTLE}),
    "phi4-mini": ("Phi3", {"rope_parameters": longrope(32, 3) | {"partial_rotary_factor": 0.75}, **PARTLY}),
    "mistral-7b-v0.1": ("Mistral", {"sliding_window": 9, "head_dim": 16}),
    "qwen2-half-sliding": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1},
    ),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3-moe": (
        "Qwen3Moe",
        {**EXPERTS, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True},
    ),
    "qwen3-moe-first-dense": (
        "Qwen3Moe",
        {
            **EXPERTS,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "norm_topk_prob": False,
            "mlp_only_layers": [0],
        },
    ),
    "qwen3": (
        "Qwen3",
        {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    ),
}


MOE_AFTER_ONE = MoE(num_experts=4, experts_per_token=2, intermediate_size=16, first_dense_layers=1)


def theirs(family: str) -> Any:
    kind, changes = FAMILIES[family]
    torch.manual_seed(3)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **changes})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_logits_prefill_and_step_by_step(family, tmp_path) -> None:
    reference = theirs(family)
    reference.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1, "sharded weights are part of the test"
    model = load(str(tmp_path), "checkpoint", torch.device("cpu"), torch.float32)
    tokens = torch.randint(99, (2, 40), generator=torch.Generator().manual_seed(0))
    wanted = reference(tokens).logits
    runner = make_decoder(model, Request(2, 40, 8)).target
    if not model.spec.num_sliding_layers:  # else no pass may be longer than the window
        torch.testing.assert_close(model.logits(runner.extend(tokens)), wanted, rtol=1e-4, atol=1e-4)
        runner.cache.set_lengths(torch.zeros(2, dtype=torch.int64), 0, exact=True)
    runner.prefill_chunk = 7
    last, _ = runner.prefill(tokens[:, :23], torch.tensor([23, 23]), 0)
    torch.testing.assert_close(model.logits(last), wanted[:, 22], rtol=1e-4, atol=1e-4)
    for step in range(23, 40, 2):
        logits = model.logits(runner.extend(tokens[:, step : step + 2]))
        torch.testing.assert_close(logits, wanted[:, step : step + 2], rtol=1e-4, atol=1e-4)
        runner.cache.advance(torch.tensor([2, 2]), 2)
        if step % 4 == 3:
            runner.cache.tighten()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"qkv_bias": True, "mlp_bias": True, "output_bias": True},
        {"qk_norm": True, "tie_word_embeddings": True},
        {"model_type": "phi3"},
        {"model_type": "mixtral", "moe": MoE(num_experts=4, experts_per_token=2, intermediate_size=48)},
        {"model_type": "qwen3_moe", "moe": MOE_AFTER_ONE},
    ],
)
def test_every_parameter_of_a_spec_is_there(changes) -> None:
    spec = tiny_spec(**changes)
    model = build(spec, RandomWeights(0, torch.device("cpu"), torch.float32))
    assert sum(p.numel() for p in model.parameters()) == spec.total_params
    assert not any(p.is_meta for p in model.parameters())
