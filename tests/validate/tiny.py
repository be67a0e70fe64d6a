"""A tiny Llama, Hugging Face folder, plan and record, and what a refusal is; torch is not needed for all."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec
from perfmodel.validate.records import KernelRow, Plan, PointRow, Record, load_plan, read_record


def refused(says: str, call: Callable[..., object], *given: Any, **named: Any) -> None:
    """The call raises InputError, whose one line has what the pattern says."""
    with pytest.raises(InputError, match=says) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)


def tiny_spec(**changes: Any) -> ModelSpec:
    """Two layers of 32; any field can be given."""
    shape = {
        "name": "tiny",
        "title": "tiny",
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "vocab_size": 61,
        "max_position_embeddings": 2048,
        "source": "a test",
    }
    return ModelSpec.of_mapping({**shape, **changes})


TEXT = "the of and a to in he was that it his her with as had she for on at by which my be from not you all"
WORDS = TEXT.split(" ")
BOS = 0
EOS = 1
UNKNOWN = 2
CHAT = "{{ bos_token }}{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}you :"


SHAPE = (
    "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim vocab_size max_position_embeddings rope_theta rms_norm_eps tie_word_embeddings"
)
"""Keys of a config.json that are fields of a `ModelSpec`."""


def configuration(spec: ModelSpec) -> dict[str, object]:
    """The Hugging Face config.json of a shape."""
    shape = {key: getattr(spec, key) for key in SHAPE.split()}
    return {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", **shape}


def save_tensors(model: Any) -> dict[str, Any]:
    """The tensors of a whole decoder model by Hugging Face name (no tensor parallelism)."""
    import torch

    from perfmodel.validate.decoder.pieces import pieces

    parameters = dict(model.named_parameters())
    out: dict[str, Any] = {}
    for name, parts in pieces(model):
        whole = parameters[name].detach().reshape(-1, *parts[0].shape[1:])
        rows = [part.shape[0] if part.dim else (part.stop or part.shape[0]) - part.start for part in parts]
        for part, tensor in zip(parts, whole.split(rows), strict=True):
            before = [out[part.name]] if part.name in out else []
            out[part.name] = torch.cat([*before, tensor])
    return out


def write_folder(path: Path, model: Any, shards: int = 1) -> Path:
    """The folder of a model of 61 tokens; words are tokens 3 and on, texts begin with `BOS`.

    shards: files that the weights are in, named by an index where there are several.
    """
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    assert model.spec.vocab_size == 61
    words = ["<s>", "</s>", "<unk>", *WORDS, *(f"w{number}" for number in range(58 - len(WORDS)))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", BOS)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=made, chat_template=CHAT, **special).save_pretrained(path)
    shape = configuration(model.spec) | {"bos_token_id": BOS, "eos_token_id": UNKNOWN}
    (path / "config.json").write_text(json.dumps(shape))
    (path / "generation_config.json").write_text(json.dumps({"bos_token_id": BOS, "eos_token_id": [EOS]}))
    tensors = {name: tensor.clone() for name, tensor in save_tensors(model).items()}
    if shards == 1:
        save_file(tensors, path / "model.safetensors")
        return path
    place = {name: f"model-{n % shards + 1:05}-of-{shards:05}.safetensors" for n, name in enumerate(tensors)}
    for file in sorted(set(place.values())):
        save_file({name: tensors[name] for name in tensors if place[name] == file}, path / file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))
    return path


def write_documents(path: Path, lengths: list[int]) -> Path:
    """A JSON line for each document, of so many words."""
    lines = []
    for row, n in enumerate(lengths):
        words = [WORDS[(3 * i * i + 5 * row) % len(WORDS)] for i in range(n)]
        lines.append(json.dumps({"text": " ".join(words)}) + "\n")
    path.write_text("".join(lines))
    return path


BLOCK: dict[str, Any] = {
    "target": "tiny",
    "draft_kv": ["streamingllm:16"],
    "batch": [1, 2],
    "context": [64],
    "gamma": [2],
    "alpha": 0.8,
}
TINY: dict[str, Any] = {
    "schema_version": 1,
    "name": "test-tiny",
    "title": "A tiny plan for tests",
    "device": "cpu",
    "hardware": "h100-sxm-80gb",
    "threads": 1,
    "grid": [BLOCK],
    "protocol": {"iterations": 1},
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps({**TINY, **changes}))), encoding="utf-8")
    return path


def planned(folder: Path, **changes: object) -> Plan:
    """The tiny plan with some keys changed."""
    return load_plan(str(write(folder, **changes)))


def command(plan: Path, results: Path, *more: str) -> list[str]:
    return ["validate", "measure", str(plan), "--machine", "t-1", "--results", str(results), *more]


def measured(folder: Path, *more: str, status: int = 0, **changes: Any) -> Record:
    """The record of a tiny plan with some changes, in `t-1` of the folder."""
    assert run(command(write(folder, **changes), folder, *more)) == status
    (path,) = folder.glob("t-1/*.json")
    return read_record(path)


def program(folder: Path, name: str, script: str) -> None:
    """A command of a name, to be found where `folder` is in the search path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def changed(record: Record, rows: Iterable[PointRow | KernelRow]) -> Record:
    return Record(record.path, record.data.replace(points=tuple(rows)))
