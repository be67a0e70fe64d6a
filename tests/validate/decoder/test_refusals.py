"""What a user can get wrong is told in one line, before anything is touched."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from perfmodel.errors import InputError
from perfmodel.specs.model import RopeScaling
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.weights import load, save_tensors
from perfmodel.validate.studies.train import configuration
from tests.validate.tiny_spec import tiny_spec

CPU = torch.device("cpu")


def refused(says: str, call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, target: Model) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(configuration(target.spec)))
    save_file(save_tensors(target), tmp_path / "model.safetensors")
    return tmp_path


def read(folder: Path) -> Model:
    return load(str(folder), "checkpoint", CPU, torch.float64)


def test_a_good_folder_loads(folder: Path, target: Model) -> None:
    assert torch.equal(read(folder).layers[1].qkv.weight, target.layers[1].qkv.weight)


def without(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def stated(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize(("spoil", "says"), [
    (lambda folder: cut(folder / "model.safetensors"), "must be a whole safetensors file"),
    (lambda folder: (folder / "model.safetensors").unlink(), "weights: must be model.safetensors, or .* 'none'"),
    (lambda folder: (folder / "config.json").unlink(), "config.json"),
    (lambda folder: without(folder, "model.layers.1.mlp.down_proj.weight"), "tensor model.layers.1.mlp.down_proj"),
    (lambda folder: without(folder, "lm_head.weight"), "no lm_head.weight although"),
    (lambda folder: stated(folder, intermediate_size=52),
     r"gate_proj.weight: must be \[52, 32\] by config.json, given \[48, 32\]",),
])  # fmt: skip
def test_a_spoilt_folder(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(folder)
    refused(says, lambda: read(folder))


@pytest.mark.parametrize(("says", "call"), [
    ("--weights: must be", lambda: load("tinyllama-1.1b", "random:x", CPU, torch.float32)),
    ("--checkpoint: must be a folder", lambda: load("tinyllama-1.1b", "checkpoint", CPU, torch.float32)),
    ("must be of family", lambda: load("deepseek-v3", "random:0", CPU, torch.float32)),
    ("--batch: must be 1 or more, given 0", lambda: Request(0, 8, 8, 1)),
    ("--context: must be 1 or more, given 0", lambda: Request(1, 0, 8, 1)),
    ("--gamma: must be 0 or more, given -1", lambda: Request(1, 8, 8, -1)),
    ("rotary width is 3, which must be even", lambda: Model(tiny_spec(**ODD))),
])  # fmt: skip
def test_what_is_refused_at_once(says: str, call: Callable[[], object]) -> None:
    refused(says, call)


ODD = {"model_type": "phi3", "partial_rotary_factor": 0.375} | {
    "rope_scaling": RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)
}


@pytest.mark.parametrize("draft", ["other", "self:3", "ngram:0", "ngram:x", "model"])
def test_bad_drafts(target: Model, draft: str) -> None:
    refused("--draft", lambda: make_decoder(target, Request(1, 8, 8, 2, draft)))


@pytest.mark.parametrize(("text", "fault"), [
    ("{", "must be valid JSON"), ("[" * 100_000, "must not be nested so deeply"),
    ('{"weight_map": 3}', "weight_map: must be an object"),
    ('{"weight_map": {"a": 3}}', "weight_map: 'a': must be the name of a file in this folder"),
    ('{"weight_map": {"a": "../b.safetensors"}}', "weight_map: 'a': must be the name of a file in this folder"),
    ('{"weight_map": {"a": "/b.safetensors"}}', "weight_map: 'a': must be the name of a file in this folder"),
    ('{"weight_map": {"a": ".."}}', "weight_map: 'a': must be the name of a file in this folder"),
])  # fmt: skip
def test_a_broken_index(folder: Path, text: str, fault: str) -> None:
    (folder / "model.safetensors.index.json").write_text(text)
    refused(rf"model.safetensors.index.json: {fault}", lambda: read(folder))


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(f"{name}: must be a readable file", lambda: read(folder))


def test_prompts(target: Model, prompts: list[list[int]]) -> None:
    made = make_decoder(target, Request(4, 70, 60, 2))
    before = made.target.cache.k.clone()
    refused("prompt: must be at most", lambda: made.generate([[1] * 2000, [1], [1], [1]], 60))
    refused("positions of tiny", lambda: make_decoder(target, Request(1, 2000, 60)).generate([[1] * 2000], 60))
    refused("in the caches", lambda: made.generate([[1] * 140, [1], [1], [1]], 60))
    refused("must be 4 non-empty lists", lambda: made.generate(prompts[:3], 60))
    refused("must be 4 non-empty lists", lambda: made.generate([[], [1], [1], [1]], 60))
    refused("tokens must be in 0 .. 60, given 61", lambda: made.generate([[61], [1], [1], [1]], 60))
    refused("tokens must be in 0 .. 60, given -1", lambda: made.generate([[-1], [1], [1], [1]], 60))
    refused("--new-tokens", lambda: made.generate(prompts, 0))
    assert torch.equal(before, made.target.cache.k), "a refusal must not touch the cache"
    assert len(made.generate(prompts, 60).tokens[0]) == 60, "and the decoder stays usable"


def test_mixed_vocabularies(target: Model, make_model: Callable[..., Model]) -> None:
    other = make_model(vocab_size=62)
    refused(
        "must have the 61 tokens of tiny, given 62", lambda: make_decoder(target, Request(1, 8, 8, 2, "model"), other)
    )


def test_out_of_memory(target: Model) -> None:
    refused("KV cache: must fit in the .* GB free on cpu", lambda: make_decoder(target, Request(100000, 10**6, 8)))
    refused(
        "draft KV cache: must fit", lambda: make_decoder(target, Request(1, 8, 8, 2, draft_kv="snapkv:10000000000"))
    )


def test_a_window_shorter_than_an_iteration(make_model: Callable[..., Model]) -> None:
    model = make_model(sliding_window=8, num_sliding_layers=2)
    refused(
        "sees 8 tokens and must be given fewer in one pass, given 8", lambda: make_decoder(model, Request(1, 60, 8, 7))
    )
    assert make_decoder(model, Request(1, 60, 8, 6))


@pytest.mark.parametrize(("says", "changes"), [
    ("hidden_act: must be 'silu' to be run here, given 'gelu'", {"hidden_act": "gelu"}),
    ("quantization_config: must be absent", {"quantization_config": {"quant_method": "fp8"}}),
    ("must have 4 short and as many long factors", {"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}),
    ("sliding layers last to be run here, given \\[0\\]", {"model_type": "qwen2", "sliding_window": 9,
     "layer_types": ["sliding_attention", "full_attention"]} | {"use_sliding_window": True},),
    ("its rope_type is 'dynamic'", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
    ("layer_types: must be a list of 2 entries", {"layer_types": 5}),
    ("layer_types: must be a list of 2 entries", {"layer_types": ["sliding_attention", 5]}),
    ("num_hidden_layers: must be", {"num_hidden_layers": "2", "layer_types": ["b", "a"]}),
])  # fmt: skip
def test_what_would_be_computed_otherwise_is_not_ignored(folder: Path, says: str, changes: dict[str, object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    refused(says, lambda: read(folder))
