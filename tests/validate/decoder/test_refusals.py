"""What a user can get wrong is told in one line, before anything is touched."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from perfmodel.specs import MoE, RopeScaling
from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.decoder import Model, Request, load, make_decoder
from tests.refusals import refused
from tests.validate.decoder.methods import PUBLISHED
from tests.validate.tiny_model import configuration, hugging_face_tensors, tiny_spec

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path, target: Model) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(configuration(target.spec)))
    save_file(hugging_face_tensors(target), tmp_path / "model.safetensors")
    return tmp_path


def read(folder: Path) -> Model:
    return load(str(folder), "checkpoint", CPU, torch.float64)


def without(name: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        del tensors[name]
        save_file(tensors, folder / "model.safetensors")

    return spoil


def cut(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100])


def stated(**changes: object) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return spoil


def indexed(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / INDEX).write_text(text)


def pipe(name: str) -> Callable[[Path], object]:
    """Which is not waited for."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


MIXED = ["sliding_attention", "full_attention"]
INDEX = "model.safetensors.index.json"
NO_FILE = "index.json: weight_map: 'a': must be the name of a file in this folder"


@pytest.mark.parametrize(
    ("says", "spoil"),
    [
        ("must be a whole safetensors file", cut),
        (
            "weights: must be model.safetensors, or .* 'none'",
            lambda folder: (folder / "model.safetensors").unlink(),
        ),
        ("config.json", lambda folder: (folder / "config.json").unlink()),
        ("tensor model.layers.1.mlp.down_proj", without("model.layers.1.mlp.down_proj.weight")),
        ("no lm_head.weight although", without("lm_head.weight")),
        (
            r"gate_proj.weight: must be \[52, 32\] by config.json, given \[48, 32\]",
            stated(intermediate_size=52),
        ),
        ("index.json: must be valid JSON", indexed("{")),
        ("index.json: must not be nested so deeply", indexed("[" * 100_000)),
        ("index.json: weight_map: must be an object", indexed('{"weight_map": 3}')),
        *(
            (NO_FILE, indexed(json.dumps({"weight_map": {"a": name}})))
            for name in (3, "../b.safetensors", "/b.sa", "..")
        ),
        *((f"{name}: must be a readable file", pipe(name)) for name in ("model.safetensors", INDEX)),
        ("hidden_act: must be 'silu' to be run here, given 'gelu'", stated(hidden_act="gelu")),
        ("quantization_config: must be absent", stated(quantization_config={"quant_method": "fp8"})),
        (
            "must have 4 short and as many long factors",
            stated(rope_scaling={"rope_type": "longrope", "factor": 4.0}),
        ),
        (
            r"sliding layers last to be run here, given \[0\]",
            stated(model_type="qwen2", sliding_window=9, layer_types=MIXED, use_sliding_window=True),
        ),
        ("its rope_type is 'dynamic'", stated(rope_scaling={"rope_type": "dynamic", "factor": 2.0})),
        ("layer_types: must be a list of 2 entries", stated(layer_types=5)),
        ("layer_types: must be a list of 2 entries", stated(layer_types=["sliding_attention", 5])),
        ("num_hidden_layers: must be", stated(num_hidden_layers="2", layer_types=["b", "a"])),
    ],
)
def test_a_spoilt_folder(folder, target, says, spoil) -> None:
    """Nothing that would be computed otherwise is ignored."""
    assert torch.equal(read(folder).layers[1].qkv.weight, target.layers[1].qkv.weight)
    spoil(folder)
    refused(says, read, folder)


def test_which_file_is_read(folder, target) -> None:
    """model.safetensors, whatever lies beside it; else the only one."""
    (folder / "consolidated.safetensors").write_bytes(b"no tensors")
    assert torch.equal(read(folder).embedding, target.embedding)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    refused("given 'consolidated.safetensors, other.safet", read, folder)
    (folder / "consolidated.safetensors").unlink()
    assert torch.equal(read(folder).embedding, target.embedding)


@pytest.mark.parametrize(
    ("says", "call"),
    [
        ("--weights: must be", lambda: load("tinyllama-1.1b", "random:x", CPU, torch.float32)),
        ("--checkpoint: must be a folder", lambda: load("tinyllama-1.1b", "checkpoint", CPU, torch.float32)),
        ("must be of family", lambda: load("deepseek-v3", "random:0", CPU, torch.float32)),
        ("rotary width is 3, which must be even", lambda: Model(tiny_spec(**ODD))),
        *(
            (
                "it has latent attention, attention sinks or extra norms",
                lambda has=has: Model(tiny_spec(**has)),
            )
            for has in ({"attention_sinks": True}, {"norms_per_layer": 4})
        ),
        *(
            ("it has shared experts, or biases", lambda has=has: Model(tiny_spec(moe=MoE(**EXPERTS, **has))))
            for has in ({"shared_intermediate_size": 8}, {"router_bias": True}, {"expert_bias": True})
        ),
    ],
)
def test_what_is_refused_at_once(says, call) -> None:
    refused(says, call)


EXPERTS: dict[str, Any] = {"num_experts": 4, "experts_per_token": 2, "intermediate_size": 8}
ODD: dict[str, Any] = {"model_type": "phi3", "partial_rotary_factor": 0.375} | {
    "rope_scaling": RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)
}


def test_prompts(target, prompts) -> None:
    decoder = make_decoder(target, Request(4, 70, 60, 2))
    before = decoder.target.cache.k.clone()
    refused("at most 129 tokens, .* in the caches", lambda: decoder.generate([[1] * 140, [1], [1], [1]], 60))
    refused("must be 4 non-empty lists", lambda: decoder.generate(prompts[:3], 60))
    refused("must be 4 non-empty lists", lambda: decoder.generate([[], [1], [1], [1]], 60))
    refused("tokens must be in 0 .. 60, given 61", lambda: decoder.generate([[61], [1], [1], [1]], 60))
    refused("tokens must be in 0 .. 60, given -1", lambda: decoder.generate([[-1], [1], [1], [1]], 60))
    assert torch.equal(before, decoder.target.cache.k), "a refusal must not touch the cache"
    assert len(decoder.generate(prompts, 60).tokens[0]) == 60, "and the decoder stays usable"


TREE = {"tree": branching("2x2")}


@pytest.mark.parametrize(
    ("says", "changes"),
    [
        *(("--draft", {"draft": draft}) for draft in ("other", "self:3", "ngram:0", "ngram:x", "model")),
        ("KV cache: must fit in the .* GB free on cpu", {"batch": 100000, "context": 10**6}),
        ("draft KV cache: must fit", {"draft_kv": "snapkv:10000000000"}),
        ("h2o can be predicted but not run", {"draft_kv": "h2o:64"}),
        ("copy=False can be predicted but not run", {"draft_kv": "streamingllm:64,copy=false"}),
        (r"above sinks \+ gamma \(6\), given 6", {"draft_kv": "streamingllm:6"}),
        ("own_prefill=true .* fp8 cache", {"draft_kv": PUBLISHED, "kv_dtype": "fp8"}),
        ("bits=3", {"draft_kv": "quantized,bits=3"}),
        ("group=3", {"draft_kv": "quantized,bits=4,group=3"}),
        ("keep_means=False", {"draft_kv": "retrieval:64,every=2,keep_means=false"}),
        ("--tree: must be used with a draft that runs a model", TREE | {"draft": "ngram"}),
        ("tree rates: must be 0 or more and at most 1 in sum", TREE | {"script": (0.5, 0.6)}),
        ("at most the 61 tokens of the vocabulary", {"tree": branching("62"), "gamma": 1}),
    ],
)
def test_what_no_decoder_can_be_made_for(target, says, changes) -> None:
    changes = {"batch": 1, "context": 8, "new_tokens": 8, "gamma": 2} | changes
    refused(says, lambda: make_decoder(target, Request(**changes)))


def test_models_that_do_not_go_together_or_see_too_little(target, make_model) -> None:
    other = make_model(vocab_size=62)
    sliding = make_model(sliding_window=8, num_sliding_layers=2)
    refused(
        "must have the 61 tokens of tiny, given 62", make_decoder, target, Request(1, 8, 8, 2, "model"), other
    )
    says = "--gamma: must be below the window of tiny, 8 tokens, given 8"
    refused(says, make_decoder, sliding, Request(1, 60, 8, 7))
    assert make_decoder(sliding, Request(1, 60, 8, 6))
    says = "own_prefill=true cannot be run with the sliding layers of tiny"
    refused(says, make_decoder, sliding, Request(1, 40, 20, 3, draft_kv=PUBLISHED))
