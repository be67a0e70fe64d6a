"""Two levels of drafting: greedy output is plain output, caches are those of a fresh prefill, and counts add
up.
"""

from typing import Any

import pytest
import torch

from perfmodel.validate.decoder import (
    Generation,
    LevelCounts,
    Model,
    Request,
    Sampling,
    make_decoder,
    watched,
)
from perfmodel.validate.decoder.level_counts import LevelCounter
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder
from tests.refusals import refused
from tests.sampled import diagonal
from tests.validate.decoder.methods import METHODS, PUBLISHED, check_cache

NEW = 40
MIDDLES = [method for method in METHODS if method != PUBLISHED]


@pytest.fixture(scope="module")
def ragged() -> list[list[int]]:
    """Prompts of two tokens and more."""
    generator = torch.Generator().manual_seed(6)
    return [torch.randint(61, (n,), generator=generator).tolist() for n in (70, 2, 33, 50)]


@pytest.fixture(scope="module")
def baseline(target: Model, ragged: list[list[int]]) -> Generation:
    return make_decoder(target, Request(4, 70, NEW)).generate(ragged, NEW)


def two_levels(
    target: Model, small: Model, middle_kv: str, inner_gamma: int = 2, gamma: int = 4, **settings: Any
) -> TwoLevelDecoder:
    request = Request(
        batch=4,
        context=70,
        new_tokens=NEW,
        gamma=gamma,
        draft="model",
        middle_kv=middle_kv,
        inner_gamma=inner_gamma,
        **settings,
    )
    decoder = make_decoder(target, request, small)
    assert isinstance(decoder, TwoLevelDecoder)
    return decoder


@pytest.mark.parametrize(("middle_kv", "inner_gamma", "gamma"), diagonal(MIDDLES, [(1, 5), (3, 4), (2, 1)]))
def test_greedy_output_is_plain_output(
    target: Model,
    small: Model,
    ragged: list[list[int]],
    baseline: Generation,
    middle_kv: str,
    inner_gamma: int,
    gamma: int,
) -> None:
    decoder = two_levels(target, small, middle_kv, inner_gamma, gamma)
    counter = watched(decoder)
    generation = decoder.generate(ragged, NEW)
    assert generation.tokens == baseline.tokens
    assert isinstance(counter, LevelCounter)
    counts = counter.counts
    assert len(generation.histogram) == inner_gamma + gamma + 1
    assert counts.iterations == sum(generation.histogram)
    assert counts.accepted == sum(j * count for j, count in enumerate(generation.histogram))
    assert gamma <= counts.drafted <= gamma + inner_gamma


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0)], ids=["greedy", "sampled"])
def test_a_middle_that_reads_everything_is_always_accepted(
    target: Model, small: Model, ragged: list[list[int]], sampling: Sampling
) -> None:
    decoder = two_levels(target, small, "full", sampling=sampling)
    counter = watched(decoder)
    decoder.generate(ragged, NEW)
    assert isinstance(counter, LevelCounter)
    assert counter.counts.middle_alpha == 1
    assert 0 < counter.counts.small_alpha < 1


@pytest.mark.parametrize(
    ("drafts_well", "draft_kv"), [(True, "full"), (False, "full"), (False, "streamingllm:24")]
)
@torch.inference_mode()
def test_caches_are_those_of_a_fresh_prefill(
    target: Model, small: Model, ragged: list[list[int]], drafts_well: bool, draft_kv: str
) -> None:
    """After refusals, and after iterations that accepted everything, whose last token was no input."""
    draft = target if drafts_well else small
    decoder = two_levels(target, draft, "streamingllm:24", draft_kv=draft_kv)
    state = decoder.start(ragged, NEW)
    for _ in range(6):
        decoder.iterate(state)
    check_cache(decoder.target.cache, target, state)
    check_cache(decoder.levels.small.runner.cache, draft, state, behind=3)


def test_sampled_tokens_have_the_distribution_of_the_target(target: Model, small: Model) -> None:
    """Three tokens after the first, over many seeds, against sampling without a draft. The last of them often
    follows all that a sequence has drafted.
    """
    prompt = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]] * 256
    sampling = Sampling(temperature=1.5, top_k=4)
    settings: dict[str, Any] = {"batch": 256, "context": 10, "new_tokens": 4, "sampling": sampling}
    plain_decoder = make_decoder(target, Request(**settings))
    levels = Request(**settings, gamma=2, draft="model", middle_kv="streamingllm:6,sinks=1", inner_gamma=1)
    speculative = make_decoder(target, levels, small)

    def shares(decoder: Any) -> torch.Tensor:
        counts = torch.zeros(3, 61, dtype=torch.float64)
        for seed in range(8):
            tokens = torch.tensor(decoder.generate(prompt, 4, seed).tokens)
            for position in range(3):
                counts[position] += torch.bincount(tokens[:, 1 + position], minlength=61)
        return counts / counts.sum(1, keepdim=True)

    # half the sum of differences between two empirical distributions of 2,048 draws over a few tokens
    assert (shares(plain_decoder) - shares(speculative)).abs().sum(1).max() / 2 < 0.08


def test_figures_of_both_levels_by_hand() -> None:
    """4 of 8 inner rounds accept their token; of 4 iterations with 6 accepted tokens two end in a refusal."""
    counts = LevelCounts((4, 4), iterations=4, accepted=6, complete=2)
    assert counts.small_alpha == 0.5
    assert counts.middle_alpha == 0.75
    assert counts.rounds == 2
    assert counts.tokens_per_round == 1.5
    assert counts.drafted == 3


def test_what_two_levels_refuse(target: Model, small: Model, prompts: list[list[int]]) -> None:
    decoder = two_levels(target, small, "full")
    refused("--middle-kv: prompts must be of 2 tokens or more", decoder.generate, prompts, NEW)
    refused("--middle-kv: needs a --draft that is another model", Request, 4, 70, NEW, 4, middle_kv="full")
    refused("--inner-gamma: must be 1 or more", two_levels, target, small, "full", 0)
    refused(
        "--middle-kv: quest selects by the queries",
        two_levels,
        target,
        small,
        "quest:24,page=4",
        sampling=Sampling(temperature=1.0),
    )
    refused(
        "--middle-kv: must be used without --tree and --alpha",
        two_levels,
        target,
        small,
        "full",
        script=(1.0,) * 5,
    )
    refused("--middle-kv: own_prefill=true can be predicted", two_levels, target, small, PUBLISHED)
