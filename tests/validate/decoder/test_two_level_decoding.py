"""Two levels of drafting: greedy output is plain output, the small model's cache stays right, and counts add
up.
"""

import pytest
import torch

from perfmodel.validate.decoder.factory import make_decoder, watched
from perfmodel.validate.decoder.generation import Generation
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.script import scripted_weights
from perfmodel.validate.decoder.two_levels import LevelCounts, TwoLevelDecoder
from tests.validate.decoder.methods import check_cache
from tests.validate.tiny import refused

NEW = 40


@pytest.fixture(scope="module")
def ragged() -> list[list[int]]:
    """Prompts of two tokens and more."""
    generator = torch.Generator().manual_seed(6)
    return [torch.randint(61, (n,), generator=generator).tolist() for n in (70, 2, 33, 50)]


@pytest.fixture(scope="module")
def plain(target: Model, ragged: list[list[int]]) -> Generation:
    return make_decoder(target, Request(4, 70, NEW)).generate(ragged, NEW)


def levels(
    target: Model,
    small: Model,
    middle: str,
    inner: int = 2,
    gamma: int = 4,
    draft_kv: str = "full",
    **more: object,
) -> TwoLevelDecoder:
    asked = Request(4, 70, NEW, gamma, "model", draft_kv, middle_kv=middle, inner_gamma=inner, **more)
    return make_decoder(target, asked, small)


COUNTS = {
    "full": (LevelCounts((79, 32), 28, 143, 28), LevelCounts((63, 24, 4, 3), 30, 135, 30)),
    "streamingllm:24": (LevelCounts((422, 50), 102, 58, 6), LevelCounts((345, 30, 6, 1), 103, 57, 7)),
    "snapkv:24,window=8": (LevelCounts((282, 56), 77, 85, 8), LevelCounts((227, 37, 4, 4), 78, 84, 11)),
    "quest:24,page=4": (LevelCounts((293, 75), 87, 74, 6), LevelCounts((252, 54, 5, 6), 92, 69, 6)),
    "topk:24": (LevelCounts((131, 43), 42, 121, 17), LevelCounts((126, 34, 4, 3), 50, 111, 16)),
    "retrieval:24,every=3,chunk=4": (
        LevelCounts((396, 58), 101, 56, 4),
        LevelCounts((315, 39, 5, 1), 100, 59, 7),
    ),
    "quantized,bits=4": (LevelCounts((91, 40), 33, 130, 20), LevelCounts((82, 26, 5, 3), 37, 125, 25)),
}
"""As these caches and weights give them, by the cases below. A full middle level is always right."""


@pytest.mark.parametrize(("case", "inner", "gamma"), [(0, 1, 5), (1, 3, 4)])
@pytest.mark.parametrize("middle", COUNTS)
def test_greedy_output_is_plain_output(target, small, ragged, plain, middle, case, inner, gamma) -> None:
    made = levels(target, small, middle, inner, gamma)
    counter = watched(made)
    out = made.generate(ragged, NEW)
    assert out.tokens == plain.tokens
    assert len(out.histogram) == gamma + inner + 1
    counts = counter.counts
    assert counts == COUNTS[middle][case]
    assert counts.iterations == sum(out.histogram)
    assert counts.accepted == sum(j * count for j, count in enumerate(out.histogram))
    assert gamma <= counts.drafted <= gamma + inner


@pytest.mark.parametrize("model", ["small", "target"])
@torch.inference_mode()
def test_the_small_models_cache_is_that_of_a_fresh_prefill(target, small, ragged, model) -> None:
    """Whatever was collected and refused; also where everything was accepted, whose last token was never
    fed.
    """
    draft = small if model == "small" else target
    made = levels(target, draft, "streamingllm:24")
    state = made.start(ragged, NEW)
    for _ in range(6):
        made.iterate(state)
    check_cache(made.target.cache, target, state)
    check_cache(made.levels.small.runner.cache, draft, state, behind=3)


def test_scripts_drive_both_levels(target, small, ragged) -> None:
    """Rates, rounds and tokens are those of the scripts; a sequence never gains more than it has drafted."""
    inner, outer = scripted_weights(0.6, 2), scripted_weights(0.8, 6)
    made = levels(target, small, "streamingllm:24", script=tuple(outer), inner_script=tuple(inner))
    assert (made.levels.rounds, made.levels.verified, made.levels.probs.shape[1]) == (0, 0, 0)
    prompts, found = [row[:2] * 2 for row in ragged], []
    for seed in range(30):
        made.observers.clear()
        counter, before = watched(made), (made.levels.rounds, made.levels.verified)
        out = made.generate(prompts, NEW, seed)
        found.append(counts := counter.counts)
        assert counts.complete <= counts.iterations == sum(out.histogram)
        rounds, verified = made.levels.rounds - before[0], made.levels.verified - before[1]
        assert rounds >= counts.rounds * out.iterations, "until the slowest sequence has enough"
        assert 5 * out.iterations <= verified <= 7 * (out.iterations + 3)
        with torch.inference_mode():
            state = made.start(prompts, NEW, seed)
            drafted, probs = made.propose(state)
            count = made.accept(state, drafted, probs, made.verify(state, drafted)).count
            assert (count <= made.levels.drafted).all()
    alphas = [sum(column) / len(found) for column in zip(*(counts.alphas for counts in found), strict=True)]
    assert alphas == [pytest.approx(0.6, abs=0.04), pytest.approx(0.8, abs=0.04)]


def test_the_figures_of_both_levels_by_hand() -> None:
    """4 of 8 inner rounds accept their token; 6 of 12 tokens in 4 iterations, two of which end in a
    refusal.
    """
    counts, none = LevelCounts((4, 4), iterations=4, accepted=6, complete=2), LevelCounts((0, 0), 0, 0, 0)
    assert counts.alphas == (0.5, 0.75)
    assert (counts.rounds, counts.tokens_per_round, counts.drafted, counts.tokens_per_iteration) == (
        2,
        1.5,
        3,
        2.5,
    )
    assert LevelCounts((1, 2, 4), 1, 1, 0).alphas == (10 / 13, 0.5)
    assert none.alphas == (0, 0)
    assert (none.rounds, none.tokens_per_round, none.drafted, none.tokens_per_iteration) == (0, 1, 0, 1)


def test_a_prompt_of_one_token_is_refused(target, small, prompts) -> None:
    refused(
        "--middle-kv: prompts must be of 2 tokens or more",
        levels(target, small, "full").generate,
        prompts,
        NEW,
    )
