"""Speculative sampling is distributed as direct sampling: chi-square on small vocabularies."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from perfmodel.errors import InputError
from validate.decoder.model import Model
from validate.decoder.sampling import (
    Sampling,
    Script,
    draw,
    scripted_weights,
    verify_greedy,
    verify_sampled,
)
from validate.decoder.setup import Request, decoder

VOCAB, NEW, BATCH, PROMPT = 5, 4, 4000, [1, 3, 2, 0, 4, 4, 1]


@pytest.fixture(scope="module")
def models(make_model: Callable[..., Model]) -> tuple[Model, Model]:
    shape = {
        "vocab_size": VOCAB,
        "num_hidden_layers": 1,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    return make_model(seed=1, deviation=0.4, **shape), make_model(seed=2, deviation=0.4, **shape)


def causal(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def exact(model: Model, sampling: Sampling) -> np.ndarray:
    """Probability of every continuation of PROMPT, [VOCAB ** NEW], by the chain rule over full passes."""
    rows = torch.tensor([PROMPT + list(tail) for tail in itertools.product(range(VOCAB), repeat=NEW)])
    hidden = model(rows, torch.arange(rows.shape[1]).expand(len(rows), -1), causal)
    steps = sampling.probabilities(model.logits(hidden))[:, len(PROMPT) - 1 : -1]
    return steps.gather(2, rows[:, len(PROMPT) :, None])[..., 0].prod(1).numpy()


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """P-value; cells that are expected fewer than 5 times are put together."""
    expected = probabilities / probabilities.sum() * counts.sum()
    assert counts[probabilities == 0].sum() == 0, "a token outside the distribution was drawn"
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    return float(chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue)


@pytest.mark.parametrize("gamma", range(9))
@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_sequences_are_distributed_as_direct_sampling(
    models: tuple[Model, Model], gamma: int, temperature: float
) -> None:
    model, draft = models
    sampling = Sampling(temperature)
    asked = Request(BATCH, len(PROMPT), NEW, gamma, "model" if gamma else "self", sampling=sampling)
    out = decoder(model, asked, draft if gamma else None).generate([PROMPT] * BATCH, NEW, seed=gamma)
    codes = np.array(out.tokens) @ VOCAB ** np.arange(NEW)[::-1]
    assert agrees(np.bincount(codes, minlength=VOCAB**NEW), exact(model, sampling)) > 1e-3
    assert all(out.histogram[:2]), "both rejection and acceptance must occur"


@pytest.mark.parametrize(
    ("draft", "draft_kv"), [("self", "streamingllm:6,sinks=1"), ("self", "topk:2"), ("ngram", "full")]
)
def test_other_drafts_and_top_p(models: tuple[Model, Model], draft: str, draft_kv: str) -> None:
    sampling = Sampling(1.0, top_p=0.8)
    asked = Request(BATCH, len(PROMPT), NEW, 3, draft, draft_kv, sampling=sampling)
    out = decoder(models[0], asked).generate([PROMPT] * BATCH, NEW, seed=7)
    codes = np.array(out.tokens) @ VOCAB ** np.arange(NEW)[::-1]
    assert agrees(np.bincount(codes, minlength=VOCAB**NEW), exact(models[0], sampling)) > 1e-3


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    logits = torch.tensor([0.4, 0.1, 0.3, 0.2], dtype=torch.float64).log()
    kept = Sampling(1.0, top_p=0.65).probabilities(logits)
    torch.testing.assert_close(kept, torch.tensor([4 / 7, 0, 3 / 7, 0], dtype=torch.float64))
    assert Sampling(1.0, top_p=1e-9).probabilities(logits).tolist() == [1, 0, 0, 0]
    exactly = Sampling(1.0, top_p=0.5).probabilities(torch.zeros(4))
    assert sorted(exactly.tolist()) == [0, 0, 0.5, 0.5], "at least that probability, and no token more"


def test_draw_is_fair() -> None:
    p = torch.tensor([0.5, 0.25, 0.0, 0.25]).expand(20000, -1)
    counts = torch.bincount(draw(p, torch.Generator().manual_seed(0)), minlength=4).numpy()
    assert agrees(counts, p[0].numpy()) > 1e-3


def test_verify_sampled_by_hand() -> None:
    """q = p accepts everything; q where p is 0 accepts nothing and draws the bonus from p alone."""
    p = torch.tensor([[[0.25, 0.75, 0.0]] * 3])
    same = verify_sampled(torch.tensor([[1, 0]]), p[:, :2], p, torch.Generator().manual_seed(0))
    assert same.accepted.tolist() == [2]
    wrong = torch.tensor([[[0.0, 0.0, 1.0]] * 2])
    none = verify_sampled(torch.tensor([[2, 2]]), wrong, p, torch.Generator().manual_seed(0))
    assert none.accepted.tolist() == [0]
    assert none.bonus.tolist() != [2]


def test_a_residual_that_rounding_left_empty() -> None:
    """Then the target's own distribution decides, and no token outside it."""
    target = torch.tensor([[[0.0, 0.5, 0.5]] * 2]).expand(500, -1, -1)
    verdict = verify_sampled(
        torch.zeros(500, 1, dtype=torch.int64), torch.ones(500, 1, 3), target, torch.Generator().manual_seed(0)
    )
    assert verdict.accepted.sum() == 0
    assert verdict.bonus.unique().tolist() == [1, 2]


def test_verify_greedy_by_hand() -> None:
    """The target wants 3 1 4 1; drafts 3 1 5 stand up to the 5, and the bonus is the 4 in its place."""
    logits = torch.nn.functional.one_hot(torch.tensor([[3, 1, 4, 1]] * 3), 6).float()
    verdict = verify_greedy(torch.tensor([[3, 1, 5], [3, 1, 4], [0, 1, 4]]), logits)
    assert verdict.accepted.tolist() == [2, 3, 0]
    assert verdict.bonus.tolist() == [4, 1, 3]


def test_script_has_the_stated_frequencies() -> None:
    weights = scripted_weights(0.8, 4)
    assert weights == pytest.approx([0.2, 0.16, 0.128, 0.1024, 0.4096])
    drawn = Script(weights, torch.device("cpu")).accepted(20000, torch.Generator().manual_seed(0))
    assert agrees(torch.bincount(drawn, minlength=5).numpy(), np.array(weights)) > 1e-3
    zero = Script([0.0, 0.0, 1.0], torch.device("cpu")).accepted(100, torch.Generator().manual_seed(0))
    assert zero.unique().tolist() == [2]


def test_scripted_acceptance_drives_the_loop(target: Model, prompts: list[list[int]]) -> None:
    """Counts follow the script and not the models or an EOS, and sequences end at the limit all the same."""
    asked = Request(4, 70, 40, 3, draft_kv="streamingllm:24", script=(0, 0, 1, 0), eos=tuple(range(61)))
    out = decoder(target, asked).generate(prompts, 40)
    assert out.histogram[2] == sum(out.histogram)
    assert out.tokens_per_iteration == 3
    assert [len(row) for row in out.tokens] == [40] * 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: Sampling(-1.0),
        lambda: Sampling(1e-40),
        lambda: Sampling(float("nan")),
        lambda: Sampling(1.0, 0.0),
        lambda: scripted_weights(1.5, 3),
        lambda: Script([0.0, 0.0], torch.device("cpu")),
        lambda: Request(1, 1, 1, 2, script=(1.0, 0.0)),
    ],
)
def test_bad_values_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="must be"):
        call()
