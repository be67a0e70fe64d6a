"""Train the small model: ``python -m perfmodel.validate.studies.train --minutes 45``.

Most of the time goes to short contexts, the last part to long ones, so that attention over thousands of bytes
is learnt where it is paid for. The learning rate follows the share of the time that is used up: a run always
ends annealed.
"""

import argparse
import json
import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from perfmodel.specs.models.model import ModelSpec
from perfmodel.validate.decoder.model import Model, Projected
from perfmodel.validate.decoder.weights import RandomWeights, build, save_tensors
from perfmodel.validate.lm import CHECKPOINT, data
from perfmodel.writing import write

SPEC = ModelSpec(
    name="stdlib-small",
    title="Byte-level Llama on Python sources",
    model_type="llama",
    num_hidden_layers=4,
    hidden_size=256,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=704,
    vocab_size=256,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    rope_theta=100_000.0,
    source="validate/studies/train.py",
)
EVALUATED_AT = (1024, 4096, 8192)
"""Contexts of the held-out text."""
TOLD_EVERY = 50
"""Steps between two lines of progress."""
BETAS, CLIP = (0.9, 0.95), 1.0
"""Of Adam; the most that the norm of a step's gradients counts for."""
EVALUATED = 16
"""Stretches of held-out text."""


@dataclass(frozen=True)
class Stage:
    """From `start` (share of the time) on: sequences of `context` bytes, `batch` of them a step."""

    start: float
    context: int
    batch: int


@dataclass
class TrainingRecipe:
    """Everything that a run depends on; written next to the checkpoint with the results."""

    seed: int = 0
    minutes: float = 45.0
    muon_lr: float = 0.02
    adam_lr: float = 0.003
    weight_decay: float = 0.05
    warmup: float = 0.02
    decay_from: float = 0.5
    stages: list[Stage] = field(
        default_factory=lambda: [
            Stage(0, 512, 16),
            Stage(0.55, 2048, 4),
            Stage(0.8, 4096, 2),
            Stage(0.93, 8192, 1),
        ]
    )

    def stage(self, progress: float) -> Stage:
        """The stage in force."""
        return [s for s in self.stages if s.start <= progress][-1]

    def rate(self, progress: float) -> float:
        """Learning-rate factor: linear warm-up, plateau, linear decay to a twentieth."""
        if progress < self.warmup:
            return progress / self.warmup
        return (
            1.0
            if progress < self.decay_from
            else 1 - 0.95 * (progress - self.decay_from) / (1 - self.decay_from)
        )


def causal(_index: int, projected: Projected) -> Tensor:
    """Training's attention: causal over the sequence itself."""
    q, k, v = projected.rotate()
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


def loss_of(model: Model, tokens: Tensor) -> Tensor:
    """Cross-entropy in nats per byte of tokens [batch, context + 1], by position [batch, context]."""
    positions = torch.arange(tokens.shape[1] - 1, device=tokens.device).expand(tokens.shape[0], -1)
    with torch.autocast(tokens.device.type, torch.bfloat16):
        logits = model.logits(model(tokens[:, :-1], positions, causal))
    losses = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
    return losses.view(tokens.shape[0], -1)


def sample(text: np.ndarray, stage: Stage, rng: np.random.Generator, device: torch.device) -> Tensor:
    """Random stretches of the corpus, [batch, context + 1] int64."""
    starts = rng.integers(0, len(text) - stage.context - 1, stage.batch)
    rows = np.stack([text[s : s + stage.context + 1] for s in starts]).astype(np.int64)
    return torch.from_numpy(rows).to(device)


@torch.no_grad()
def evaluate(model: Model, context: int, sequences: int = EVALUATED) -> dict[str, float]:
    """Held-out bits per byte at a context: over all positions, and over the last quarter of them."""
    text, rng = data.corpus(held_out=True), np.random.default_rng(1)
    one = Stage(0, context, 1)
    bits = torch.cat(
        [loss_of(model, sample(text, one, rng, model.device)) for _ in range(sequences)]
    ) / math.log(2)
    last = bits[:, -context // 4 :].mean().item()
    return {"context": context, "bits_per_byte": bits.mean().item(), "last_quarter": last}


def configuration(spec: ModelSpec) -> dict[str, object]:
    """The Hugging Face config.json of a shape."""
    same = (
        "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads "
        "num_key_value_heads head_dim vocab_size max_position_embeddings rope_theta rms_norm_eps "
        "tie_word_embeddings"
    )
    return {
        "architectures": ["LlamaForCausalLM"],
        "dtype": "bfloat16",
        "hidden_act": "silu",
        **{key: getattr(spec, key) for key in same.split()},
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": data.SEPARATOR,
    }


def save(model: Model, folder: Path, report: dict[str, object]) -> None:
    """Write a Hugging Face folder (bf16) and the recipe with its outcome; each file is whole or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.to("cpu", torch.bfloat16) for name, tensor in save_tensors(model).items()}
    write(folder / "model.safetensors", partial(save_file, tensors, metadata={"format": "pt"}), "--out")
    for name, content in {"config.json": configuration(model.spec), "recipe.json": report}.items():
        write(folder / name, json.dumps(content, indent=2) + "\n", "--out")


class Trainer:
    """A model on its way: Muon for the matrices of its layers, Adam for embedding and norms.

    trained: context -> bytes of such sequences so far.
    """

    def __init__(self, recipe: TrainingRecipe, device: torch.device) -> None:
        self.recipe, self.rng, self.steps = recipe, np.random.default_rng(recipe.seed), 0
        weights = RandomWeights(recipe.seed, device, torch.float32)
        self.model = build(SPEC, weights).train().requires_grad_(True)
        self.text = data.corpus(held_out=False, seed=recipe.seed)
        named = list(self.model.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and name.startswith("layers")]
        rest = [p for name, p in named if p.ndim < 2 or not name.startswith("layers")]
        self.steppers = [
            torch.optim.Muon(matrices, lr=recipe.muon_lr, weight_decay=recipe.weight_decay),
            torch.optim.AdamW(rest, lr=recipe.adam_lr, betas=BETAS, weight_decay=0.0),
        ]
        self.base = [group["lr"] for stepper in self.steppers for group in stepper.param_groups]
        self.trained: dict[str, int] = {}

    def step(self, progress: float) -> float:
        """One optimiser step at this share of the time; returns its loss in bits per byte."""
        stage = self.recipe.stage(progress)
        groups = (group for stepper in self.steppers for group in stepper.param_groups)
        for group, lr in zip(groups, self.base, strict=True):
            group["lr"] = lr * self.recipe.rate(progress)
        loss = loss_of(self.model, sample(self.text, stage, self.rng, self.model.device)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for stepper in self.steppers:
            stepper.step()
            stepper.zero_grad(set_to_none=True)
        self.steps += 1
        key = str(stage.context)
        self.trained[key] = self.trained.get(key, 0) + stage.batch * stage.context
        return loss.item() / math.log(2)


def train(recipe: TrainingRecipe, folder: Path, device: torch.device) -> dict[str, object]:
    """Runs the recipe, saves the checkpoint, and returns the content of recipe.json: the recipe and the
    results.

    An interruption ends the training early; the state at that time is saved.
    """
    trainer, began, progress = Trainer(recipe, device), time.monotonic(), 0.0
    with suppress(KeyboardInterrupt):
        while (progress := (time.monotonic() - began) / (60 * recipe.minutes)) < 1:
            bits = trainer.step(progress)
            if trainer.steps % TOLD_EVERY == 1:
                print(
                    f"{progress:6.1%}  step {trainer.steps}  {trainer.trained}  {bits:.3f} bits/byte",
                    flush=True,
                )
    report = {
        "recipe": asdict(recipe),
        "finished": progress >= 1,
        "steps": trainer.steps,
        "trained_bytes": trainer.trained,
        "torch": torch.__version__,
        "held_out": [evaluate(trainer.model.eval(), context) for context in EVALUATED_AT],
    }
    save(trainer.model, folder, report)
    return report


def main() -> None:
    """Command line of the recipe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=TrainingRecipe.minutes)
    parser.add_argument("--seed", type=int, default=TrainingRecipe.seed)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=CHECKPOINT)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe = TrainingRecipe(seed=args.seed, minutes=args.minutes)
    print(json.dumps(train(recipe, args.out, torch.device(args.device)), indent=2))


if __name__ == "__main__":
    main()
