"""Speculative sampling is distributed as direct sampling: chi-square on small vocabularies."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from perfmodel.speculation.tree_shape import branching, depths
from perfmodel.validate.decoder import (
    AcceptedTokens,
    Generation,
    Model,
    Request,
    Sampling,
    make_decoder,
    scripted_weights,
    tree_sampling,
    watched,
)
from perfmodel.validate.decoder.sampling import Script, accept_sampled
from tests.refusals import refused
from tests.sampled import diagonal
from tests.validate.decoder.dense import causal

VOCAB = 5
NEW = 4
BATCH = 4000
PROMPT = [1, 3, 2, 0, 4, 4, 1]
CPU = torch.device("cpu")


def near(probabilities: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(probabilities, torch.tensor(expected, dtype=probabilities.dtype))


@pytest.fixture(scope="module")
def models(make_model: Callable[..., Model]) -> tuple[Model, Model]:
    shape = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    one = make_model(seed=1, deviation=0.4, vocab_size=VOCAB, **shape)
    two = make_model(seed=2, deviation=0.4, vocab_size=VOCAB, **shape)
    return one, two


def exact(model: Model, sampling: Sampling) -> np.ndarray:
    """Probability of every continuation of PROMPT, [VOCAB ** NEW], by the chain rule over full passes."""
    continuations = itertools.product(range(VOCAB), repeat=NEW)
    rows = torch.tensor([[*PROMPT, *tokens] for tokens in continuations])
    positions = torch.arange(rows.shape[1]).expand(len(rows), -1)
    hidden = model(rows, positions, causal)
    probabilities = sampling.probabilities(model.logits(hidden))
    steps = probabilities[:, len(PROMPT) - 1 : -1]
    tails = rows[:, len(PROMPT) :, None]
    drawn = steps.gather(2, tails)[..., 0]
    return drawn.prod(1).numpy()


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """P-value; cells that are expected fewer than 5 times are put together."""
    expected = probabilities / probabilities.sum() * counts.sum()
    assert counts[probabilities == 0].sum() == 0, "a token outside the distribution was drawn"
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    some = wanted > 0
    return float(chisquare(observed[some], wanted[some]).pvalue)


def decoded(
    models: tuple[Model, Model],
    sampling: Sampling,
    gamma: int,
    kind: str,
    draft_kv: str = "full",
    **more: Any,
) -> tuple[Generation, Any]:
    """Many continuations of PROMPT, which must be distributed as direct sampling from the first model; what
    counted.
    """
    request = Request(BATCH, len(PROMPT), NEW, gamma, kind, draft_kv, sampling, **more)
    draft = models[1] if kind == "model" else None
    decoder = make_decoder(models[0], request, draft)
    counter = watched(decoder)
    out = decoder.generate([PROMPT] * BATCH, NEW, seed=gamma)
    place_values = VOCAB ** np.arange(NEW)[::-1]
    codes = np.array(out.tokens) @ place_values
    counts = np.bincount(codes, minlength=VOCAB**NEW)
    assert agrees(counts, exact(models[0], sampling)) > 1e-3
    return out, counter


@pytest.mark.parametrize(("gamma", "temperature"), [(0, 1.3), (1, 0.7), (3, 1.3), (8, 0.7)])
def test_chains(models, gamma, temperature) -> None:
    kind = "model" if gamma else "self"
    out, _ = decoded(models, Sampling(temperature), gamma, kind)
    assert all(out.histogram[:2]), "both rejection and acceptance must occur"


@pytest.mark.parametrize(
    ("draft", "draft_kv"),
    [
        ("self", "streamingllm:6,sinks=1"),
        ("self", "streamingllm:6,sinks=1,own_prefill=true"),
        ("self", "topk:2"),
        ("ngram", "full"),
    ],
)
def test_other_drafts_and_top_p(models, draft, draft_kv) -> None:
    decoded(models, Sampling(1.0, top_p=0.8), 3, draft, draft_kv)


WARM = Sampling(1.3)
TOP_P = Sampling(1.0, 0.8)
SMALL = "streamingllm:6,sinks=1"


TREES = [
    ("2x2x1", "model", "full"),
    ("2x2x1", "self", SMALL),
    ("5x1", "model", "full"),
    ("3x2", "self", SMALL),
]
"""Branching, kind of draft, its cache: another model with a cache of its own, and a draft that reads little
of the target's.
"""


@pytest.mark.parametrize(("draft", "sampling"), diagonal(TREES, [(WARM,), (TOP_P,)]))
def test_trees(models, draft, sampling) -> None:
    """Several candidates for each token, drawn without replacement; with top-p more than the draft's
    distribution has.
    """
    shape, kind, draft_kv = draft
    tree = branching(shape)
    gamma = depths(tree)[-1]
    _, counter = decoded(models, sampling, gamma, kind, draft_kv, tree=tree)
    assert all(counter.counts.taken[:2]), "children of the first ranks must be accepted"


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    logits = torch.tensor([0.4, 0.1, 0.3, 0.2], dtype=torch.float64).log()
    kept = Sampling(1.0, top_p=0.65).probabilities(logits)
    near(kept, [4 / 7, 0, 3 / 7, 0])
    least = Sampling(1.0, top_p=1e-9).probabilities(logits)
    assert least.tolist() == [1, 0, 0, 0]
    exactly = Sampling(1.0, top_p=0.5).probabilities(torch.zeros(4))
    assert sorted(exactly.tolist()) == [0, 0, 0.5, 0.5], "at least that probability, and no token more"


def test_top_k_then_top_p_by_hand() -> None:
    """Of 0.4, 0.3, 0.2, 0.1 three are kept as 4/9, 3/9, 2/9: the first two are 7/9 of them, and 0.75 is
    enough.
    """
    logits = torch.tensor([0.2, 0.4, 0.1, 0.3], dtype=torch.float64).log()
    kept = Sampling(1.0, top_p=0.75, top_k=3).probabilities(logits)
    near(kept, [0, 4 / 7, 0, 3 / 7])


def test_accept_sampled_by_hand() -> None:
    """q = p accepts everything; q where p is 0 accepts nothing and draws the bonus from p alone."""
    p = torch.tensor([[[0.25, 0.75, 0.0]] * 3])

    def accepted(drafted: list[int], q: torch.Tensor) -> Any:
        generator = torch.Generator().manual_seed(0)
        return accept_sampled(torch.tensor([drafted]), q, p, generator)

    same = accepted([1, 0], p[:, :2])
    assert same.count.tolist() == [2]
    elsewhere = torch.tensor([[[0.0, 0.0, 1.0]] * 2])
    none = accepted([2, 2], elsewhere)
    assert none.count.tolist() == [0]
    assert none.next_token.tolist() != [2]
    neither = accepted([2, 2], p[:, :2])
    assert neither.count.tolist() == [0], "a token that neither gives does not stand"


def test_a_residual_that_rounding_left_empty() -> None:
    """Then the target's own distribution decides, and no token outside it."""
    one_target = torch.tensor([[[0.0, 0.5, 0.5]] * 2])
    target = one_target.expand(500, -1, -1)
    drafted = torch.zeros(500, 1, dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    accepted = accept_sampled(drafted, torch.ones(500, 1, 3), target, generator)
    assert accepted.count.sum() == 0
    assert accepted.next_token.unique().tolist() == [1, 2]


def test_what_is_left_of_a_refusal_by_hand() -> None:
    """Of 1/4, 3/4 less 1/2, 1/2 only the second is left; where nothing is, what was there."""
    rest = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    left = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    remainder = tree_sampling.remainder(rest, left)
    assert remainder.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    left = torch.tensor([[0.0, 0.25, 0.25], [0.0, 0.0, 0.0]])
    proper = tree_sampling.as_distribution(left, torch.tensor([[0], [2]]))
    assert proper.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]


def test_the_ends_of_what_is_allowed() -> None:
    for temperature in (0.0, 1e-6, 1e30):
        assert Sampling(temperature, 1.0, 0).greedy == (temperature == 0)
    assert str(Sampling()) == str(Sampling(0.0, 0.5)) == "greedy"
    assert str(Sampling(0.5)) == "temperature 0.5"
    assert Sampling() == Sampling(0.0, 1.0, 0)
    assert str(Sampling(1.0, 0.75, 3)) == "temperature 1, top-k 3, top-p 0.75"
    logits = torch.tensor([0.1, 0.4, 0.5]).log()
    for whole in (Sampling(1.0), Sampling(1.0, top_k=3), Sampling(1.0, top_k=4)):
        torch.testing.assert_close(whole.probabilities(logits), logits.exp())
    squared = [0.01 / 0.42, 0.16 / 0.42, 0.25 / 0.42]
    near(Sampling(0.5).probabilities(logits), squared)
    near(Sampling(0.5, top_k=1).probabilities(logits), [0.0, 0.0, 1.0])
    assert Sampling(1.0).probabilities(logits.bfloat16()).dtype == torch.float32
    assert scripted_weights(0, 2) == [1, 0, 0]
    assert scripted_weights(1, 2) == [0, 0, 1]
    assert scripted_weights(0.5, 0) == [1]
    nothing = Script([1], CPU)
    assert counts_of(nothing, 3).tolist() == [0, 0, 0]
    stopped = Generation([[4], [5]], [[0, 0], [0, 0]])
    assert stopped.tokens_per_iteration == 0
    plain = Generation([[1, 2]], [[1]])
    assert plain.alpha is None
    assert plain.tokens_per_iteration == 1
    accepted = [[1, 2], [0, 4]]
    generation = Generation([[1, 2, 3], [4]], accepted)
    assert generation.alpha == 6 / 7
    assert generation.histogram == [1, 6]
    assert generation.iterations == 4
    assert generation.tokens_per_iteration == 2 / 7


def counts_of(script: Script, batch: int) -> torch.Tensor:
    judged = AcceptedTokens(*torch.zeros(2, batch, dtype=torch.int64))
    return script(judged, torch.Generator().manual_seed(0)).count


def test_script_has_the_stated_frequencies() -> None:
    weights = scripted_weights(0.8, 4)
    assert weights == pytest.approx([0.2, 0.16, 0.128, 0.1024, 0.4096])
    drawn = counts_of(Script(weights, CPU), 20000)
    histogram = torch.bincount(drawn, minlength=5).numpy()
    assert agrees(histogram, np.array(weights)) > 1e-3
    zero = counts_of(Script([0.0, 0.0, 1.0], CPU), 100)
    assert zero.unique().tolist() == [2]


def test_scripted_acceptance_drives_the_loop(target, prompts) -> None:
    """Counts follow the script and not the models or an EOS, and sequences end at the limit all the same."""
    every_token = tuple(range(61))
    request = Request(4, 70, 40, 3, draft_kv="streamingllm:24", script=(0, 0, 1, 0), eos=every_token)
    out = make_decoder(target, request).generate(prompts, 40)
    assert out.histogram[2] == sum(out.histogram)
    assert out.tokens_per_iteration == 3
    assert [len(row) for row in out.tokens] == [40] * 4


@pytest.mark.parametrize("temperature", [-1.0, 1e-40, float("nan")])
def test_bad_values_are_refused(temperature: float) -> None:
    refused("must be", Sampling, temperature)
