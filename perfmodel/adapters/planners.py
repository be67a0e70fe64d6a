"""Converts a predictor to the tables and coefficients that capacity planners read.

The planners of Dynamo and llm-d read profiles: TTFT and ITL (inter-token latency) over context and
concurrency. BLIS reads the coefficients of a linear formula for the time of a step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.answers.point.predictor import Predictor

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768)
"""Batches and contexts of the decoding passes to which the formula is fitted by default."""
PROMPTS = (128, 256, 512, 1024, 2048, 4096, 8192)
"""Prompt tokens of the prefill passes to which the formula is fitted by default."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One row of a profile.

    - concurrency: number of running requests.
    - ttft_s: time to first token for a prompt of `context_tokens` tokens on an idle server, in seconds.
    - itl_s: mean time between two tokens of a request, in seconds.
    - fits: whether the KV caches of all these requests fit in memory.
    """

    concurrency: int
    context_tokens: int
    ttft_s: float
    itl_s: float
    output_tokens_per_s: float
    fits: bool


def profile(p: Predictor, concurrencies: Sequence[int], contexts: Sequence[int]) -> Iterator[ProfileRow]:
    """Yields a row for each pair of a context and a concurrency, at the gamma of the predictor."""
    for context in contexts:
        ttft_s = float(p.prefill_s(context))
        for concurrency in concurrencies:
            itl_s = float(p.tpot_s(concurrency, context))
            fits = concurrency * context <= p.kv_tokens
            yield ProfileRow(concurrency, context, ttft_s, itl_s, concurrency / itl_s, fits)


@dataclass(frozen=True, slots=True)
class LinearStep:
    """A linear formula for the time of a pass: fixed_s + token_s x new tokens + cached_token_s x cached
    tokens. Both numbers of tokens are sums over all requests.

    - worst: the largest relative error of the formula for the passes to which it was fitted.

    The error is not 0, because the time of a pass is not linear in the number of tokens. With few tokens, a
    pass takes the constant time of loading the weights. With many tokens, computing takes longer than
    loading.
    """

    fixed_s: float
    token_s: float
    cached_token_s: float
    worst: float

    def seconds(self, tokens: float, cached: float) -> float:
        """The time of a pass over `tokens` new tokens and `cached` cached tokens, in seconds."""
        return self.fixed_s + self.token_s * tokens + self.cached_token_s * cached


def linear_step(
    p: Predictor,
    batches: Sequence[int] = BATCHES,
    contexts: Sequence[int] = CONTEXTS,
    prompts: Sequence[int] = PROMPTS,
) -> LinearStep:
    """Fits the formula of `LinearStep` by least squares of the relative errors. The formula is fitted to two
    kinds of passes: decoding passes without a draft for every pair of a batch and a context, and prefill
    passes of one prompt each. No coefficient is negative.
    """
    batch, context = (each.ravel() for each in np.meshgrid(batches, contexts))
    prompt = np.asarray(prompts, float)
    tokens = np.concatenate([batch, prompt])
    cached = np.concatenate([batch * context, np.zeros(prompt.size)])
    seconds = np.concatenate([np.ravel(p.step_s(batch, context)), np.ravel(p.prefill_s(prompt))])
    terms = np.stack([np.ones(tokens.size), tokens, cached], axis=1) / seconds[:, None]
    coefficients = np.zeros(3)
    used = np.arange(3)
    while used.size:  # drop the terms with negative coefficients until there are none
        solved, *_ = np.linalg.lstsq(terms[:, used], np.ones(tokens.size), rcond=None)
        if (solved >= 0).all():
            coefficients[used] = solved
            break
        used = used[solved >= 0]
    worst = float(np.abs(terms @ coefficients - 1.0).max())
    fixed_s, token_s, cached_token_s = coefficients.tolist()
    return LinearStep(fixed_s, token_s, cached_token_s, worst)
