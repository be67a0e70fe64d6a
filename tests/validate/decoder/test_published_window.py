"""StreamingLLM as published, against a plain account of it: which tokens are kept, and where in the cache
they are.
"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from perfmodel.specs import RopeScaling
from perfmodel.validate.decoder import Model, Projected, Request, Sampling, make_decoder
from perfmodel.validate.decoder.kv.streamingllm import RollingView

NEW = 60
GAMMA = 3


class Account:
    """One sequence: the keys, before any rotation, and the values of all its tokens, of which a pass sees
    some.

    Each pass puts what it sees at positions 0, 1, ... and rotates it anew. A pass's tokens are kept once
    committed.
    """

    def __init__(self, model: Model, budget: int, sinks: int) -> None:
        self.model = model
        self.budget = budget
        self.sinks = sinks
        self.keys, self.values = ([[] for _ in model.layers] for _ in "kv")
        self.fresh: list[tuple[torch.Tensor, torch.Tensor]] = []

    def rotated(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """x [n, heads, d] at `positions` [n]: pairs of dimensions as complex numbers."""
        rotary = self.model.rotary(70 + NEW)
        half = len(rotary.frequencies)
        frequencies = rotary.frequencies
        angles = positions[:, None].double() * frequencies
        turn = torch.polar(torch.ones(1, dtype=torch.float64), angles)
        pair = torch.complex(x[..., :half], x[..., half : 2 * half])
        turned = pair * turn[:, None] * rotary.scale
        return torch.cat((turned.real, turned.imag, x[..., 2 * half :]), -1)

    def run(self, tokens: list[int]) -> torch.Tensor:
        """Logits [n, vocab] of tokens that follow the committed ones."""
        length = len(self.keys[0])
        window = self.budget - self.sinks
        kept = [t for t in range(length) if t < self.sinks or t >= length - window]
        assert len(kept) == min(length, self.budget)
        position = torch.arange(len(kept) + len(tokens))
        self.fresh = []

        def attend(index: int, projected: Projected) -> torch.Tensor:
            layer = projected.layer
            heads = projected.qkv[0].unflatten(-1, (-1, layer.head_dim))
            q, new_k, new_v = heads.split((layer.heads, layer.kv_heads, layer.kv_heads), 1)
            self.fresh.append((new_k, new_v))
            old_k = [self.keys[index][token] for token in kept]
            old_v = [self.values[index][token] for token in kept]
            k = torch.stack([*old_k, *new_k])
            v = torch.stack([*old_v, *new_v])
            q = self.rotated(q, position[len(kept) :])
            k = self.rotated(k, position)
            sees = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(kept))
            heads = (x.transpose(0, 1)[None] for x in (q, k, v))
            return scaled_dot_product_attention(*heads, sees, enable_gqa=True).transpose(1, 2).flatten(2)

        hidden = self.model(torch.tensor([tokens]), position[None, len(kept) :], attend)
        return self.model.logits(hidden[0])

    def commit(self, count: int) -> None:
        """The first tokens of the last pass are kept."""
        for index, (k, v) in enumerate(self.fresh):
            self.keys[index] += k[:count]
            self.values[index] += v[:count]


MODELS = {
    "llama": {},
    "yarn, part of a head rotates": {
        "model_type": "phi3",
        "partial_rotary_factor": 0.5,
        "rope_scaling": RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
    },
}


@pytest.mark.parametrize(
    ("budget", "sinks", "chunk", "kind", "layers"),
    [
        (24, 4, 128, "self", "llama"),
        (24, 4, 7, "model", "yarn, part of a head rotates"),
        (16, 0, 5, "self", "yarn, part of a head rotates"),
        (9, 1, 8, "model", "llama"),
        (200, 4, 66, "self", "llama"),
    ],
)
@torch.inference_mode()
def test_drafts_are_drawn_from_what_the_account_says(
    make_model, prompts, kind, budget, sinks, chunk, layers
) -> None:
    """Of ragged prompts, through acceptance and rejection, whatever the chunks in which the prompt is
    read.
    """
    target, small = (make_model(**MODELS[layers], num_hidden_layers=count) for count in (2, 1))
    model, draft = (small, small) if kind == "model" else (target, None)
    method = f"streamingllm:{budget},sinks={sinks},own_prefill=true"
    request = Request(4, 70, NEW, GAMMA, kind, method, Sampling(1.0))
    decoder = make_decoder(target, request, draft)
    for passes in decoder.models:
        if isinstance(passes.view, RollingView):
            passes.view.chunk = min(chunk, passes.view.chunk)
    state = decoder.start(prompts, NEW, seed=1)
    accounts = [Account(model, budget, sinks) for _ in prompts]
    chunk = min(chunk, budget - sinks)
    for prompt, account in zip(prompts, accounts, strict=True):
        for start in range(0, len(prompt) - 1, chunk):  # the last token is fed with the first drafted one
            window = prompt[:-1][start : start + chunk]
            account.run(window)
            account.commit(len(window))
    for _ in range(14):
        drafted, probs = decoder.propose(state)
        logits = decoder.verify(state, drafted)
        before = state.length.clone()
        for row, account in enumerate(accounts):
            newest = state.newest(2)[row].tolist()
            fed = newest + drafted[row, :-1].tolist()
            wanted = account.run(fed)[1:].softmax(-1)
            torch.testing.assert_close(probs[row], wanted, rtol=1e-9, atol=1e-9)
        decoder.commit(state, drafted, decoder.accept(state, drafted, probs, logits))
        for count, account in zip((state.length - before).tolist(), accounts, strict=True):
            account.commit(count)
    if kind == "self" and budget > 70 + NEW:
        assert state.histogram[:, :-1].sum() == 0, "a window that holds everything is the target"
    else:
        assert all(state.histogram.sum(0)[:2]), "both rejection and acceptance must occur"
