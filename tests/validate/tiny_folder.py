"""A Hugging Face folder as people have them, only tiny: configs, weights, tokenizer and chat template."""

import json
from pathlib import Path

from safetensors.torch import save_file

from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.weights import save_tensors
from perfmodel.validate.studies.train import configuration

TEXT = "the of and a to in he was that it his her with as had she for on at by which my be from not you all"
WORDS = TEXT.split(" ")
BOS, EOS, UNKNOWN = 0, 1, 2
CHAT = "{{ bos_token }}{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}you :"


def write_folder(path: Path, model: Model, shards: int = 1) -> Path:
    """The folder of a model of 61 tokens; words are tokens 3 and on, texts begin with `BOS`.

    shards: files that the weights are in, named by an index where there are several.
    """
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
    texts = [
        " ".join(WORDS[(3 * i * i + 5 * row) % len(WORDS)] for i in range(n)) for row, n in enumerate(lengths)
    ]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path
