"""The target and the draft that the flags of a run name."""

import json
from pathlib import Path

import pytest
import torch

from perfmodel.validate.decoder import ModelPair, RankShard
from tests.refusals import refused
from tests.validate.tiny_model import configuration, tiny_spec


def tiny_folder(path: Path, vocab_size: int = 61) -> str:
    """The folder of a model without weights."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(configuration(tiny_spec(vocab_size=vocab_size))))
    return str(path)


def pair(path: Path, vocab_size: int = 61, draft_weights: str = "random:1", **more: int) -> ModelPair:
    target = tiny_folder(path / "target")
    draft = tiny_folder(path / "draft", vocab_size)
    return ModelPair(target, "random:0", draft, draft_weights, device="cpu", **more)


def test_fp8_on_a_cpu_is_a_format_of_weights_alone() -> None:
    assert ModelPair("llama-68m", dtype="fp8", device="cpu").formats == ("fp8-wo", "bf16")


@pytest.mark.parametrize("tokens", [60, 62])
def test_a_draft_with_a_smaller_or_larger_vocabulary_is_refused(tmp_path: Path, tokens: int) -> None:
    refused(f"must have the 61 tokens of .*, given {tokens}", pair(tmp_path, tokens).models, RankShard())


def test_a_draft_on_more_devices_than_its_target_is_refused(tmp_path: Path) -> None:
    refused("--draft-tp: must divide --tp 1, given 2", pair(tmp_path, draft_tp=2).models, RankShard())


@pytest.mark.parametrize(("weights", "same"), [("random:0", True), ("random:1", False)])
def test_a_draft_has_its_own_weights(tmp_path: Path, weights: str, same: bool) -> None:
    target, draft = pair(tmp_path, draft_weights=weights).models(RankShard())
    assert draft is not None
    assert torch.equal(target.embedding, draft.embedding) is same
