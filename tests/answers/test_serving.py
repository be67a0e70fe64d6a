"""Served batches: closed forms against sums, limits and a seeded discrete-event simulation."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from perfmodel.answers.point.serving import serving
from perfmodel.answers.question.mixed import mixed_memory, mixed_s, mixed_speedup
from perfmodel.costs.graphs import VLLM_GRAPH_SIZES, padded
from perfmodel.drafts import kinds
from perfmodel.errors import InputError
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload
from tests.speculation.asked import scenario as llama

scenario = partial(llama, hardware="h100-sxm-80gb", draft_kv="streamingllm:512", alpha=0.7)


def simulate(alphas, gamma: int, tokens: int, slots: int, iterations: int, seed: int) -> float:
    """Tokens per slot and iteration of slots that are refilled at once; every request needs `tokens`
    tokens.
    """
    rng = np.random.default_rng(seed)
    alpha = rng.choice(alphas, slots)
    left, gained = rng.integers(1, tokens + 1, slots), 0
    for _ in range(iterations):
        run = np.cumprod(rng.random((slots, gamma)) < alpha[:, None], axis=1).sum(1) + 1
        used = np.minimum(run, left)
        gained += int(used.sum())
        left = left - used
        done = left == 0
        left[done] = tokens
        alpha[done] = rng.choice(alphas, int(done.sum()))
    return gained / slots / iterations


@pytest.mark.parametrize(("alphas", "gamma"), [((0.9, 0.3), 4), ((0.85, 0.85, 0.6, 0.4), 3)])
def test_mixed_acceptances_in_refilled_slots_by_a_simulation(alphas, gamma: int) -> None:
    """Hard requests hold their slots longer: the harmonic mean, not the mean over requests."""
    found = serving("llama-3.1-8b", "h100", len(alphas), 4096, alphas, gamma)
    assert found.tokens == pytest.approx(simulate(alphas, gamma, 400, 256, 4000, 11), rel=0.015)
    rates = [float(Acceptance.from_alpha(alpha).tokens_per_iteration(gamma)) for alpha in alphas]
    assert min(rates) < found.tokens < found.tokens_as_admitted == pytest.approx(np.mean(rates))
    assert found.steady_speedup == pytest.approx(found.speedup * found.tokens / found.tokens_as_admitted)


@pytest.mark.parametrize("kind", sorted(kinds()))
@pytest.mark.parametrize(("batch", "gamma"), [(8, 3), (256, 4)])
def test_a_uniform_batch_has_the_engine_s_speedup_with_every_kind_of_draft(
    kind: str, batch: int, gamma: int
) -> None:
    draft = kinds()[kind].example
    found = serving("llama-3.1-8b", "h100", batch, 4096, 0.7, gamma, draft=draft, draft_kv="full")
    s = scenario(draft=draft, draft_kv="full")
    exact = float(predict(s, Workload.of(batch, 4096, gamma)).speedup)
    assert found.speedup == pytest.approx(exact, rel=1e-12)
    assert found.mean_speedup == pytest.approx(exact, rel=1e-12)


def test_a_mixture_goes_through_every_context_and_acceptance() -> None:
    given = {
        "context": (2048, 16384, 65536),
        "alpha": (0.85, 0.5),
        "gamma": 3,
        "draft_kv": "streamingllm:512",
    }
    found = serving("llama-3.1-8b", "h100", 24, **given)
    contexts, alphas = [2048.0, 16384.0, 65536.0] * 4, [0.85] * 3 + [0.5] * 3
    assert found.speedup == pytest.approx(mixed_speedup(scenario(), contexts * 2, alphas * 4, 3), rel=1e-12)


def test_memory_of_a_mixture_is_the_sum_of_its_sequences() -> None:
    s = scenario(draft="llama-3.2-1b")
    for contexts in ([8192.0] * 16, [4096.0, 65536.0]):
        mixed = mixed_memory(s, contexts, 3, 0.9)
        each = [memory_of(s, 1.0, context, 3, 0.9) for context in contexts]
        assert float(mixed.kv_bytes) == pytest.approx(sum(float(m.kv_bytes) for m in each), rel=1e-12)
        assert mixed.fits
    alike, one = mixed_memory(s, [8192.0] * 16, 3, 0.9), memory_of(s, 16.0, 8192.0, 3, 0.9)
    assert (alike.max_batch, alike.ar_max_batch) == (one.max_batch, one.ar_max_batch)
    assert not mixed_memory(s, [4096.0, 65536.0] * 8, 3, 0.9).fits
    assert serving("llama-3.1-70b", "h100", 8, 8192, 0.8).gamma == 1, "no length fits"


def test_full_attention_sees_only_the_mean_context_and_windows_do_not() -> None:
    contexts = [1000.0, 3000.0, 60000.0, 64000.0]
    mean = float(np.mean(contexts))
    assert mixed_s(scenario(), contexts) == pytest.approx(
        float(scenario().target_pass_s(4.0, mean)), rel=1e-9
    )
    window = scenario(model="gemma-3-27b")
    assert mixed_s(window, [100.0, 100.0, 8000.0, 8000.0]) < float(window.target_pass_s(4.0, 4050.0))
    # the short sequences are below the draft's budget
    assert mixed_s(scenario(), [100.0, 8000.0], drafting=True) < float(scenario().draft_pass_s(2.0, 4050.0))


def test_graphs_round_the_batch_up() -> None:
    """Of an engine whose passes are not padded; a verification of 65 x 4 tokens pads to 264."""
    assert list(padded(np.array([1, 3, 4, 5, 9, 512, 600, 260]), VLLM_GRAPH_SIZES)) == [
        1,
        4,
        4,
        8,
        16,
        512,
        600,
        264,
    ]
    bare = scenario(engine="magicdec")
    s = replace(bare, graph_sizes=VLLM_GRAPH_SIZES)
    at = np.arange(1.0, 65)
    stairs, smooth = np.asarray(s.target_pass_s(at, 4096.0)), np.asarray(bare.target_pass_s(at, 4096.0))
    assert np.all(stairs >= smooth * (1 - 1e-12))
    on_size = np.isin(at, VLLM_GRAPH_SIZES)
    np.testing.assert_allclose(stairs[on_size], smooth[on_size], rtol=1e-12)
    assert float(s.target_pass_s(65.0, 4096.0, 4.0)) > float(bare.target_pass_s(65.0, 4096.0, 4.0))
    with pytest.raises(InputError, match="rising"):
        padded(4.0, (4, 2))
