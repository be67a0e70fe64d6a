"""The training script, and the small model that was trained with it."""

import json
import math
from pathlib import Path

import pytest
import torch

from perfmodel.cli import run
from perfmodel.validate.decoder import kv
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.kv import every_method
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.weights import RandomWeights, build, load
from perfmodel.validate.lm import CHECKPOINT, bundled_checkpoint, data, is_trained_here
from perfmodel.validate.studies.train import (
    Stage,
    Trainer,
    TrainingRecipe,
    evaluate,
    save,
    specification,
)

CPU = torch.device("cpu")


def test_the_split_is_by_file_and_stable() -> None:
    held_out = [path for path in data.source_files() if data.is_held_out(path)]
    assert 0.02 < len(held_out) / len(data.source_files()) < 0.09
    assert data.is_held_out(data.source_files()[0]) == data.is_held_out(data.source_files()[0])
    prompts = data.held_out_prompts(3, 500)
    assert [len(prompt) for prompt in prompts] == [500] * 3
    texts = [path.read_bytes()[:500] for path in held_out]
    assert all(bytes(prompt) in texts for prompt in prompts)


def test_what_is_held_out_is_not_trained_on() -> None:
    trained, kept = (data.corpus(held_out=side) for side in (False, True))
    assert len(trained) > 10 * len(kept)
    one = max((p for p in data.source_files() if data.is_held_out(p)), key=lambda p: p.stat().st_size)
    text = one.read_bytes().replace(b"\0", b"")
    assert text in kept.tobytes()
    assert text not in trained.tobytes()


def test_held_out_bits_are_of_all_positions_and_of_the_last_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    nats = torch.arange(8.0)[None] * math.log(2)
    monkeypatch.setattr("perfmodel.validate.studies.train.loss_of", lambda model, tokens: nats)
    model = build(specification("small"), RandomWeights(0, CPU, torch.float32))
    assert evaluate(model, 8) == pytest.approx({"context": 8, "bits_per_byte": 3.5, "last_quarter": 6.5})


def test_training_lowers_the_loss_and_the_result_loads(tmp_path: Path) -> None:
    trainer = Trainer(TrainingRecipe(stages=[Stage(0, 64, 2)]), CPU)
    losses = [trainer.step(0.3) for _ in range(12)]
    assert losses[0] > 7
    assert losses[-1] < losses[0] - 1.5
    save(trainer.model, tmp_path, trainer.report(finished=True))
    again = load(str(tmp_path), "checkpoint", CPU, torch.float32)
    wanted = trainer.model.layers[2].qkv.weight.to(torch.bfloat16).float()
    assert torch.equal(again.layers[2].qkv.weight, wanted)
    assert again.spec.num_hidden_layers == specification("small").num_hidden_layers
    assert json.loads((tmp_path / "recipe.json").read_text())["trained_bytes"] == {"64": 12 * 128}


def test_the_larger_model_comes_back_in_small_files(tmp_path: Path) -> None:
    """At most 30 M parameters, 7 files of 16 MiB, and the same model again."""
    made = build(specification("large"), RandomWeights(1, CPU, torch.bfloat16))
    assert made.spec.total_params <= 30_000_000
    save(made, tmp_path, {"finished": False})
    files = list(tmp_path.iterdir())
    assert len(files) <= 7
    assert max(path.stat().st_size for path in files) <= 16 * 2**20
    again = load(str(tmp_path), "checkpoint", CPU, torch.bfloat16)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters(), strict=True))
    assert is_trained_here(tmp_path)


def test_the_committed_checkpoint_predicts_text_it_was_not_trained_on() -> None:
    """Its recipe's own figure, on fewer bytes; a model that knows only letter frequencies is above 4.5 bits."""
    model = load(str(CHECKPOINT), "checkpoint", CPU, torch.float32)
    told = json.loads((CHECKPOINT / "recipe.json").read_text())["held_out"][0]
    found = evaluate(model, told["context"], sequences=4)
    assert found["bits_per_byte"] < 2.2
    assert found["bits_per_byte"] == pytest.approx(told["bits_per_byte"], abs=0.5)


def test_every_draft_cache_has_observed_acceptance() -> None:
    """On held-out text every cache with an eighth of the context is often right, and none changes a token."""
    model = load(str(CHECKPOINT), "checkpoint", CPU, torch.float64)
    prompts, new = data.held_out_prompts(2, 320), 24
    plain = make_decoder(model, Request(2, 320, new, attention="sdpa")).generate(prompts, new)
    for method in every_method(320, 4):
        out = make_decoder(model, Request(2, 320, new, 4, draft_kv=method, attention="sdpa")).generate(prompts, new)
        assert out.tokens == plain.tokens, method
        assert 1.5 < out.tokens_per_iteration <= 5, method
    assert len(every_method(512, 4, slides=True)) == len(every_method(512, 4)) - 1 == len(kv.names())


def test_without_the_checkpoint_a_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the package was installed from a wheel, which does without it."""
    assert bundled_checkpoint() == str(CHECKPOINT)
    monkeypatch.setattr("perfmodel.validate.lm.CHECKPOINT", tmp_path)
    for verb in ("generate", "acceptance"):
        assert run(["validate", verb]) == 2
        said = capsys.readouterr()
        assert said.err == (
            "error: --checkpoint: must be given: the small trained model comes with the source tree, not with the "
            "wheel\n"
        )
        assert not said.out
