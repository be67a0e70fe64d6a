"""Tokenizers, prompts and EOS tokens."""

import json
import sys
from pathlib import Path

import pytest

from perfmodel.validate.decoder import Model, end_tokens, last_tokens, read_prompts, tokenizer
from perfmodel.validate.decoder.text import HuggingFace, Tokenizer
from tests.refusals import refused
from tests.validate.tiny_model import BOS, UNKNOWN, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, target: Model) -> Path:
    pytest.importorskip("transformers")
    return write_folder(tmp_path_factory.mktemp("model"), target)


@pytest.fixture(scope="module")
def reader(folder: Path, target: Model) -> Tokenizer:
    words = tokenizer(target.spec, folder)
    assert isinstance(words, HuggingFace)
    return words


def test_a_folders_own_tokenizer(reader) -> None:
    tokens = reader.encode("the of the zebra")
    assert tokens == [BOS, 3, 4, 3, UNKNOWN]
    assert reader.bos == BOS
    assert reader.decode(tokens[1:4]) == "the of the"


def test_a_chat_template(reader) -> None:
    """BOS once, from the template; the message; what the model is to go on from."""
    tokens = reader.chat("the of")
    assert tokens.count(BOS) == 1
    assert reader.decode(tokens).split()[3:5] == ["the", "of"]
    assert reader.decode(tokens).endswith("you <unk>")
    refused("--chat: needs a chat template", Tokenizer().chat, "x")


def test_bytes(make_model, target, tmp_path) -> None:
    reader = tokenizer(make_model(vocab_size=256).spec, None)
    assert reader.decode(reader.encode("é\n")) == "é\n"
    assert reader.decode([255]) == "\ufffd"
    assert tokenizer(target.spec, tmp_path) is None
    assert tokenizer(target.spec, None) is None


def test_a_tokenizer_that_cannot_be_read(target, tmp_path, monkeypatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    refused("must hold a tokenizer that transformers reads: ", tokenizer, target.spec, tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(
        r"its tokenizer needs transformers: pip install 'perfmodel\[text\]'", tokenizer, target.spec, tmp_path
    )


def test_documents_are_never_joined(reader, tmp_path) -> None:
    lines = [json.dumps({"text": "the of"}), "", json.dumps({"tokens": [5, 6]}), "[7, 8, 9]"]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    assert read_prompts(reader, ["and"], tmp_path / "some.jsonl", 61) == [
        [BOS, 5],
        [BOS, 3, 4],
        [5, 6],
        [7, 8, 9],
    ]
    (tmp_path / "one.txt").write_text("the of\n\nand")
    assert read_prompts(reader, [], tmp_path / "one.txt", 61) == [[BOS, 3, 4, 5]]
    assert read_prompts(None, [], None, 61) == []


@pytest.mark.parametrize(
    ("tokens", "most", "bos", "kept"),
    [
        ([0, 1, 2, 3, 4], 3, 0, [0, 3, 4]),
        ([0, 1, 2, 3, 4], 1, 0, [0]),
        ([0, 1, 2], 3, 0, [0, 1, 2]),
        ([5, 1, 2, 3, 4], 3, 0, [2, 3, 4]),
        ([0, 1, 2, 3, 4], 3, None, [2, 3, 4]),
        ([0, 1, 2, 3, 4], None, 0, [0, 1, 2, 3, 4]),
    ],
)
def test_bos_stays_whatever_is_cut(tokens, most, bos, kept) -> None:
    assert last_tokens(tokens, most, bos) == kept


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: must be valid JSON"),
        ('{"prompt": "x"}', 'line 1: must be an object with "text" .* given .dict.'),
        ("[3, 61]", "line 1: must be tokens in 0 .. 60, given 61"),
        ("[3, true]", "line 1: must be tokens in 0 .. 60, given 'bool'"),
        ('["of another kind"]', "line 1: must be tokens in 0 .. 60, given 'str'"),
        ("[]", "line 1: must be a text of one token or more"),
        ("\n", "must be one document or more"),
        ("[" * 5000, "line 1: must not be nested so deeply"),
    ],
)
def test_lines_that_are_no_prompts(reader, tmp_path, line, says) -> None:
    (tmp_path / "bad.jsonl").write_text(line)
    refused(says, read_prompts, reader, [], tmp_path / "bad.jsonl", 61)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (3, (3,)),
        ([3, 4], (3, 4)),
        (None, ()),
        ("x", None),
        (3.5, None),
        (True, None),
        ([1, None], None),
        ([[1]], None),
    ],
)
def test_end_tokens(tmp_path, given, wanted) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": given}))
    if wanted is None:
        refused(r"config.json: eos_token_id: must be a token number", end_tokens, tmp_path)
    else:
        assert end_tokens(tmp_path) == wanted
    assert end_tokens(None) == ()


def test_the_end_of_texts_is_that_of_the_file_about_generation(tmp_path) -> None:
    """Also if it names none, as transformers reads it."""
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    for stated, ends in (('{"eos_token_id": [4, 5]}', (4, 5)), ("{}", ())):
        (tmp_path / "generation_config.json").write_text(stated)
        assert end_tokens(tmp_path) == ends
