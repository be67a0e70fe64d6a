"""A tiny Llama: its shape, its Hugging Face folder, and documents of its words."""

import json
from pathlib import Path
from typing import Any

from perfmodel.specs import ModelSpec

TEXT = "the of and a to in he was that it his her with as had she for on at by which my be from not you all"
WORDS = TEXT.split(" ")
BOS = 0
EOS = 1
UNKNOWN = 2
"""The token of words that the vocabulary lacks, and a wrong end of texts in config.json."""
CHAT = "{{ bos_token }}{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}you :"
SHAPE = (
    "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim vocab_size max_position_embeddings rope_theta rms_norm_eps tie_word_embeddings"
)
"""Keys of a config.json that are fields of a `ModelSpec`."""


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


def configuration(spec: ModelSpec) -> dict[str, object]:
    """The Hugging Face config.json of a shape."""
    shape = {key: getattr(spec, key) for key in SHAPE.split()}
    return {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", **shape}


def hugging_face_tensors(model: Any) -> dict[str, Any]:
    """The tensors of a whole decoder model by Hugging Face name (no tensor parallelism)."""
    import torch

    from perfmodel.validate.decoder.pieces import pieces

    parameters = dict(model.named_parameters())
    tensors: dict[str, Any] = {}
    for name, parts in pieces(model):
        whole = parameters[name].detach().reshape(-1, *parts[0].shape[1:])
        rows = [_rows_of(part) for part in parts]
        for part, tensor in zip(parts, whole.split(rows), strict=True):
            if part.name in tensors:
                tensor = torch.cat([tensors[part.name], tensor])
            tensors[part.name] = tensor
    return tensors


def _rows_of(part: Any) -> int:
    """Rows of a parameter that a piece of a Hugging Face tensor fills."""
    if part.dim:
        return int(part.shape[0])
    return int((part.stop or part.shape[0]) - part.start)


def write_folder(path: Path, model: Any, shards: int = 1) -> Path:
    """The folder of a model of 61 tokens: tokenizer, configuration and weights.

    shards: files that the weights are in, named by an index where there are several.
    """
    assert model.spec.vocab_size == 61
    _write_tokenizer(path)
    # generation_config.json has the token that ends a text; the other one here shows that it is read
    shape = configuration(model.spec) | {"bos_token_id": BOS, "eos_token_id": UNKNOWN}
    (path / "config.json").write_text(json.dumps(shape))
    (path / "generation_config.json").write_text(json.dumps({"bos_token_id": BOS, "eos_token_id": [EOS]}))
    _write_weights(path, hugging_face_tensors(model), shards)
    return path


def _write_tokenizer(path: Path) -> None:
    """Words are tokens 3 and on, texts begin with `BOS`."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    fillers = [f"w{number}" for number in range(58 - len(WORDS))]
    vocabulary = {word: id for id, word in enumerate(["<s>", "</s>", "<unk>", *WORDS, *fillers])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", BOS)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT, **special).save_pretrained(path)


def _write_weights(path: Path, tensors: dict[str, Any], shards: int) -> None:
    """One file, or `shards` files of which each has every so manyth tensor, and their index."""
    from safetensors.torch import save_file

    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    if shards == 1:
        save_file(copies, path / "model.safetensors")
        return
    names = list(copies)
    file_of = {}
    for shard in range(shards):
        of_shard = names[shard::shards]
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        save_file({name: copies[name] for name in of_shard}, path / file)
        file_of |= dict.fromkeys(of_shard, file)
    index = {"metadata": {}, "weight_map": file_of}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def write_documents(path: Path, lengths: list[int]) -> Path:
    """A file with a JSON line for each document. lengths: their words."""
    lines = []
    for row, n in enumerate(lengths):
        words = [WORDS[(3 * i * i + 5 * row) % len(WORDS)] for i in range(n)]
        lines.append(json.dumps({"text": " ".join(words)}) + "\n")
    path.write_text("".join(lines))
    return path
