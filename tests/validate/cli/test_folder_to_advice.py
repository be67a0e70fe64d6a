"""A Hugging Face folder as people have it: decoded, observed, and advised about, with no file edited by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmodel.cli import run

pytest.importorskip("torch")
pytest.importorskip("transformers")

from perfmodel.validate.decoder.model import Model
from tests.validate.tiny_folder import write_documents, write_folder


@pytest.mark.parametrize("verb", ["generate", "acceptance"])
def test_shards_tokenizer_and_template_feed_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make_model: Callable[..., Model], verb: str
) -> None:
    """Both verbs write what `advise` reads: rates of this model's own caches, at the context that was decoded."""
    folder = write_folder(tmp_path / "tiny-chat", make_model(), shards=3)
    texts, out = write_documents(tmp_path / "questions.jsonl", [120, 130, 140]), tmp_path / "acceptance.json"
    where = ["--checkpoint", str(folder), "--prompts", str(texts), "--chat", "--context", "100"]
    how = ["--gamma", "3", "--new-tokens", "16", "--draft-kv", "streamingllm:32", "--draft-kv", "snapkv:48,window=8"]
    assert run(["validate", verb, *where, *how, "--dtype", "fp64", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [(row["target"], row["draft"], row["draft_kv"], row["kv_budget_tokens"]) for row in rows] == [
        ("tiny-chat", "self", "streamingllm", 32),
        ("tiny-chat", "self", "snapkv", 48),
    ]
    assert {row["context_tokens"] for row in rows} == {108.0 if verb == "generate" else 100.0}
    assert all(sum(row["histogram"]) > 0 and row["standard_error"]["documents"] == 3 for row in rows)
    capsys.readouterr()
    ask = ["advise", "--model", str(folder), "--hardware", "h100", "--context", "100", "--batch", "8", "--json"]
    assert run([*ask, "--acceptance", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
