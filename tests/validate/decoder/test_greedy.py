"""Greedy speculative output is plain output, token for token, caches are those of a fresh prefill: in
float64.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perfmodel.specs import MoE, RopeScaling
from perfmodel.validate.decoder import Generation, KVCache, Model, Projected, Request, State, make_decoder
from perfmodel.validate.decoder.drafts import NGramDrafter
from tests.sampled import diagonal
from tests.validate.decoder.methods import METHODS, PUBLISHED, check_cache

NEW = 40
FEW_NEW = 20
"""Tokens that each of many models makes."""
EVERY = [*METHODS, "quantized,bits=8,group=4"]


def run(
    model: Model, prompts: list[list[int]], draft: Model | None = None, new: int = NEW, **request: object
) -> Generation:
    longest = max(map(len, prompts))
    kind = "model" if draft else "self"
    made_request = Request(len(prompts), longest, new, draft=kind, **request)
    return make_decoder(model, made_request, draft).generate(prompts, new)


def oracle(model: Model, prompt: list[int], new: int) -> list[int]:
    """Greedy decoding with no cache at all: the whole sequence anew for every token, one query head at a
    time.
    """

    def attend(_index: int, projected: Projected) -> torch.Tensor:
        q, k, v = projected.rotate()
        group = q.shape[1] // k.shape[1]
        out = torch.empty_like(q)
        for head in range(q.shape[1]):
            kv_head = head // group
            keys = k[:, kv_head].mT
            scores = q[:, head] @ keys / math.sqrt(q.shape[-1])
            seen = torch.ones_like(scores, dtype=torch.bool).tril()
            seen &= ~seen.tril(-(projected.layer.window or scores.shape[-1]))
            weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
            out[:, head] = weights @ v[:, kv_head]
        return out.transpose(1, 2).flatten(2)

    tokens = list(prompt)
    for _ in range(new):
        positions = torch.arange(len(tokens))[None]
        hidden = model(torch.tensor([tokens]), positions, attend)
        logits = model.logits(hidden[0, -1])
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


def test_plain_equals_the_oracle(target, prompts, plain) -> None:
    assert plain.tokens == [oracle(target, prompt, NEW) for prompt in prompts]
    assert plain.histogram == [(NEW - 1) * len(prompts)], (
        "one count for each iteration of an unfinished sequence"
    )
    assert len({token for row in plain.tokens for token in row}) > 20, (
        "the model repeats itself: the test shows nothing"
    )


ACCEPTED = {
    "full": (80, 160, 41),
    "streamingllm:24": (35, 55, 17),
    PUBLISHED: (36, 57, 17),
    "snapkv:24,window=8": (53, 87, 29),
    "quest:24,page=4": (46, 71, 34),
    "topk:24": (74, 150, 40),
    "retrieval:24,every=3,chunk=4": (41, 66, 25),
    "quantized,bits=4": (75, 138, 34),
    "quantized,bits=8,group=4": (80, 154, 41),
}
"""Accepted draft tokens, by the cases below; a method that is added needs none here."""


@pytest.mark.parametrize(
    ("method", "case", "kind", "gamma"), diagonal(EVERY, [(0, "self", 1), (1, "self", 8), (2, "model", 4)])
)
def test_every_cache_and_gamma(target, small, prompts, plain, method, case, kind, gamma) -> None:
    """A decoder used again remembers nothing: same tokens and same acceptance, whatever was decoded
    before.
    """
    draft = small if kind == "model" else None
    decoder = make_decoder(target, Request(4, 70, NEW, gamma, kind, method), draft)
    first = decoder.generate(prompts[::-1], NEW)
    assert first.tokens == plain.tokens[::-1]
    out = decoder.generate(prompts, NEW) if gamma > 1 else first
    assert gamma == 1 or out.tokens == plain.tokens
    assert out.histogram == first.histogram
    assert len(out.histogram) == gamma + 1
    accepted = sum(j * count for j, count in enumerate(out.histogram))
    assert method not in ACCEPTED or accepted == ACCEPTED[method][case]
    if method == "full" and kind == "self":
        assert not any(out.histogram[:-1]), "a draft that is the target is accepted"


@pytest.mark.parametrize(("gamma", "histogram"), [(1, [100, 29]), (8, [95, 8, 6, 3, 1, 1, 0, 0, 1])])
def test_ngram(target, prompts, plain, gamma, histogram) -> None:
    request = Request(len(prompts), 70, NEW, gamma=gamma, draft="ngram")
    out = make_decoder(target, request).generate(prompts, NEW)
    assert out.tokens == plain.tokens
    assert out.histogram == histogram


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ([1, 2, 3, 9, 1, 2, 3], [9, 1, 2, 3]),
        ([1, 2, 3, 9, 4, 2, 3, 8, 1, 2, 3], [9, 4, 2, 3]),
        ([7, 3, 1, 5, 3, 2, 3], [2, 3, 2, 3]),
        ([5, 6, 5, 6], [5, 6, 5, 6]),
        ([1, 2, 3, 4], [4, 4, 4, 4]),
        ([4], [4, 4, 4, 4]),
        ([4, 9, 4], [9, 4, 9, 4]),
    ],
    ids=["three match", "longest before latest", "latest of one", "period", "no match", "one", "first"],
)
def test_ngram_by_hand(tokens, wanted) -> None:
    """What followed the latest of the longest earlier occurrences; a longer row beside it makes for
    padding.
    """
    longer = [0] * 15
    state = State.from_prompts([tokens, longer], 8, 4, torch.device("cpu"), 0)
    drafted, chances = NGramDrafter(4).propose(state)
    assert drafted[0].tolist() == wanted
    assert chances is None
    assert state.tokens.shape == (2, 15 + 8 + 4 + 1)


def test_ngram_does_not_look_round_the_end() -> None:
    """What lies behind the last token, written and then refused, is no forerunner of the first."""
    prompt = [5, 9, 5, 8, 1, 5]
    state = State.from_prompts([prompt], 8, 2, torch.device("cpu"), 0)
    state.tokens[0, 6:] = 1
    for drafter in (NGramDrafter(2), NGramDrafter(2, 1)):
        assert drafter.propose(state)[0].tolist() == [[8, 1]]


LAYERS: dict[str, dict[str, Any]] = {
    "experts": {
        "model_type": "mixtral",
        "moe": MoE(num_experts=5, experts_per_token=2, intermediate_size=24),
    },
    "sliding": {"sliding_window": 24, "num_sliding_layers": 2},
    "half sliding": {"sliding_window": 16, "num_sliding_layers": 1},
    "yarn": {"rope_scaling": RopeScaling(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)},
    "longrope at the length trained first": {
        "rope_scaling": RopeScaling(
            rope_type="longrope",
            factor=4.0,
            short_factor=(1.0, 1.1, 1.2, 1.3),
            long_factor=(2.0, 5.0, 9.0, 14.0),
            original_max_position_embeddings=100,
        )
    },
    "part of a head rotates": {"model_type": "phi3", "partial_rotary_factor": 0.5, "qk_norm": True},
    "fp8 weights": {"fp8": True},
    "fp8 cache": {},
    "fp8 weights, fp8 cache": {"fp8": True},
}
TREE = {"tree": (-1, 0, 0, 1, 1, 2), "gamma": 2}


@pytest.mark.parametrize("layers", LAYERS)
def test_other_kinds_of_layers(make_model, prompts, layers) -> None:
    """Plain decoding equals the oracle, and drafts and trees equal plain decoding; each kind of layer has
    half of the draft caches, the next kind has the others.
    """
    model = make_model(**LAYERS[layers])
    small = make_model(**LAYERS[layers] | {"num_hidden_layers": 1, "num_sliding_layers": 0})
    window = LAYERS[layers].get("sliding_window")
    kv_dtype = "fp8" if "fp8 cache" in layers else "auto"
    long_enough = [prompts[0], prompts[2]]
    plain = run(model, long_enough, new=FEW_NEW, kv_dtype=kv_dtype)
    assert plain.tokens == [oracle(model, prompt, FEW_NEW) for prompt in long_enough]
    published_runs = window is None and kv_dtype == "auto"
    run_here = [method for method in METHODS if published_runs or method != PUBLISHED]
    half = list(LAYERS).index(layers) % 2
    run_here = [run_here[0], *run_here[1 + half :: 2]]
    cases = [(None, {"draft_kv": method, "gamma": 3}) for method in run_here]
    trees = [(None, TREE | {"draft_kv": METHODS[1]}), (small, TREE)]
    cases += [(small, {"gamma": 3}), *trees]
    for draft, settings in cases:
        out = run(model, long_enough, draft, new=FEW_NEW, kv_dtype=kv_dtype, **settings)
        assert out.tokens == plain.tokens, settings
        if settings == cases[0][1]:
            assert not any(out.histogram[:-1]), "a draft that is the target is accepted"
    assert window is None or any(len(prompt) > window for prompt in long_enough)


def test_eos_ends_each_sequence_by_itself(target, prompts, plain) -> None:
    eos = plain.tokens[0][17]
    wanted = [row[: row.index(eos) + 1] if eos in row else row for row in plain.tokens]
    assert len({len(row) for row in wanted}) > 1
    for gamma in (0, 4):
        out = run(target, prompts, gamma=gamma, draft_kv="streamingllm:24", eos=(eos,))
        assert out.tokens == wanted
        assert run(target, prompts, gamma=gamma, eos=(eos, 62)).tokens == wanted


@pytest.mark.parametrize("new", [1, 2, 7])
def test_the_limit_is_kept(target, prompts, plain, new) -> None:
    first = [row[:new] for row in plain.tokens]
    assert run(target, prompts, new=new, gamma=8).tokens == first


@pytest.mark.parametrize("draft_kv", ["full", "snapkv:24,window=8", "retrieval:24,every=3"])
def test_prefill_in_chunks(target, prompts, draft_kv) -> None:
    """Views that choose by the prompt's last queries have observed the same ones."""
    whole = run(target, prompts, gamma=4, draft_kv=draft_kv)
    decoder = make_decoder(target, Request(len(prompts), 70, NEW, 4, draft_kv=draft_kv))
    decoder.target.prefill_chunk = 16
    assert decoder.generate(prompts, NEW).tokens == whole.tokens


@pytest.mark.parametrize("gamma", [0, 1, 8])
@pytest.mark.parametrize("kind", ["self", "model"])
@torch.inference_mode()
def test_rollback_equals_a_fresh_prefill(target, small, prompts, kind, gamma) -> None:
    request = Request(4, 70, 40, gamma, kind, "streamingllm:24")
    decoder = make_decoder(target, request, small if kind == "model" else None)
    state = decoder.start(prompts, 40)
    for _ in range(12):
        decoder.iterate(state)
    for cache, first in zip(decoder.caches, (70, 69), strict=False):
        assert cache.bound == min(first + 12 * (gamma + 1), cache.capacity)
    check_cache(decoder.target.cache, target, state)
    for draft_cache in decoder.caches[1:]:
        check_cache(draft_cache, small, state, behind=2)


def poison(cache: KVCache) -> None:
    """Make everything that is not committed poisonous (large: a masked value times a zero weight must stay
    zero).
    """
    outside = torch.arange(cache.capacity) >= cache.lengths[:, None]
    for tensor in (cache.k, cache.v):
        tensor.masked_fill_(outside[None, :, None, :, None], 1e6)


@pytest.mark.parametrize("method", METHODS)
@torch.inference_mode()
def test_neither_what_is_not_committed_nor_a_fixed_bound_changes_a_token(target, prompts, method) -> None:
    """Captured graphs need shapes that stay the same whatever the lengths."""

    def decoded(spoil: Callable[[KVCache], object]) -> torch.Tensor:
        decoder = make_decoder(target, Request(4, 70, 40, 4, draft_kv=method))
        state = decoder.start(prompts, 40)
        for _ in range(8):
            spoil(decoder.target.cache)
            decoder.iterate(state)
        written = torch.arange(state.tokens.shape[1]) < state.length[:, None]
        return state.tokens.where(written, -1)

    def poison_and_fix(cache: KVCache) -> None:
        poison(cache)
        cache.fixed = True

    assert torch.equal(decoded(poison_and_fix), decoded(lambda cache: None))
