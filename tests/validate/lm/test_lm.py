"""The small model that comes with the source tree, and its held-out text."""

import json
import math
import sysconfig
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from perfmodel.validate.decoder import Request, load, make_decoder
from perfmodel.validate.decoder.kv import every_method
from perfmodel.validate.lm import CHECKPOINT, data
from tests.refusals import refused
from tests.validate.decoder.dense import causal

CPU = torch.device("cpu")


def test_the_split_is_by_file_and_stable() -> None:
    """Five in a hundred by their name's checksum, in a seeded order; what is too short for a prompt is left
    out.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    held_out = [path for path in data.source_files() if data.is_held_out(path)]
    names = {path: str(path.relative_to(root)).encode() for path in data.source_files()}
    in_five = [path for path, name in names.items() if zlib.crc32(name) % 100 < 5]
    assert held_out == in_five
    long = [path for path in held_out if path.stat().st_size >= 500]
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(len(long))
        wanted = [long[i].read_bytes()[:500] for i in order]
        prompts = [bytes(prompt) for prompt in data.held_out_prompts(len(long) + 2, 500, seed)]
        assert prompts == [*wanted, *wanted[:2]]
        assert seed or [bytes(prompt) for prompt in data.held_out_prompts(2, 500)] == wanted[:2]
    longest = max(path.stat().st_size for path in held_out)
    assert len(data.held_out_prompts(1, longest)[0]) == longest
    refused("no held-out file", data.held_out_prompts, 1, longest + 1)


def test_the_committed_checkpoint_predicts_text_it_was_not_trained_on() -> None:
    """Its recipe's own figure, on fewer bytes; a model that knows only letter frequencies is above 4.5
    bits.
    """
    model = load(str(CHECKPOINT), "checkpoint", CPU, torch.float32)
    held_out = json.loads((CHECKPOINT / "recipe.json").read_text())["held_out"][0]
    rows = torch.tensor(data.held_out_prompts(4, held_out["context"]))
    positions = torch.arange(rows.shape[1]).expand(len(rows), -1)
    with torch.no_grad():
        hidden = model(rows, positions, causal)
        logits = model.logits(hidden)[:, :-1]
    nats = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    bits = float(nats) / math.log(2)
    assert bits < 2.2
    assert bits == pytest.approx(held_out["bits_per_byte"], abs=0.5)


def test_every_draft_cache_has_observed_acceptance() -> None:
    """On held-out text every cache with an eighth of the context is often right, and none changes a token."""
    model = load(str(CHECKPOINT), "checkpoint", CPU, torch.float64)
    prompts = data.held_out_prompts(1, 320)
    new = 16
    plain = make_decoder(model, Request(1, 320, new, attention="sdpa")).generate(prompts, new)
    for method in every_method(320, 4):
        request = Request(1, 320, new, 4, draft_kv=method, attention="sdpa")
        out = make_decoder(model, request).generate(prompts, new)
        assert out.tokens == plain.tokens, method
        assert 1.5 < out.tokens_per_iteration <= 5, method
