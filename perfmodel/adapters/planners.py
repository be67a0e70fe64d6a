"""Converts a predictor to the tables and coefficients that capacity planners read.

Dynamo's planner and llm-d's read profiles of TTFT and ITL over context and concurrency; BLIS reads the
coefficients of a linear step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.answers.point.predictor import Predictor

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768)
PROMPTS = (128, 256, 512, 1024, 2048, 4096, 8192)
"""Prompt tokens of the passes to which a line is fitted by default."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One point of a profile. itl_s: mean time between tokens of a request. ttft_s: TTFT of a prompt of this
    length on an idle server. fits: whether the caches of this many requests fit in memory.
    """

    concurrency: int
    context_tokens: int
    ttft_s: float
    itl_s: float
    output_tokens_per_s: float
    fits: bool


def profile(p: Predictor, concurrencies: Sequence[int], contexts: Sequence[int]) -> Iterator[ProfileRow]:
    """A row for each concurrency and context, at the predictor's gamma."""
    for context in contexts:
        ttft_s = float(p.prefill_s(context))
        for concurrency in concurrencies:
            itl_s = float(p.tpot_s(concurrency, context))
            fits = concurrency * context <= p.kv_tokens
            yield ProfileRow(concurrency, context, ttft_s, itl_s, concurrency / itl_s, fits)


@dataclass(frozen=True, slots=True)
class LinearStep:
    """step = fixed_s + token_s x new tokens + cached_token_s x cached tokens, of all requests of a pass.

    worst: largest relative error of the line on the passes to which it was fitted. The time of a step is not
    linear in the number of tokens: loading the weights takes a constant time, and from some number of tokens
    on, computing takes longer.
    """

    fixed_s: float
    token_s: float
    cached_token_s: float
    worst: float

    def seconds(self, tokens: float, cached: float) -> float:
        """Time of a pass over `tokens` new tokens and `cached` ones."""
        return self.fixed_s + self.token_s * tokens + self.cached_token_s * cached


def linear_step(
    p: Predictor,
    batches: Sequence[int] = BATCHES,
    contexts: Sequence[int] = CONTEXTS,
    prompts: Sequence[int] = PROMPTS,
) -> LinearStep:
    """The line with the smallest relative squared error over decoding passes (batches x contexts, without a
    draft) and over passes that read one prompt. No coefficient is negative.
    """
    batch, context = (each.ravel() for each in np.meshgrid(batches, contexts))
    prompt = np.asarray(prompts, float)
    tokens = np.concatenate([batch, prompt])
    cached = np.concatenate([batch * context, np.zeros(prompt.size)])
    seconds = np.concatenate([np.ravel(p.step_s(batch, context)), np.ravel(p.prefill_s(prompt))])
    terms = np.stack([np.ones(tokens.size), tokens, cached], axis=1) / seconds[:, None]
    coefficients = np.zeros(3)
    used = np.arange(3)
    while used.size:
        solved, *_ = np.linalg.lstsq(terms[:, used], np.ones(tokens.size), rcond=None)
        if (solved >= 0).all():
            coefficients[used] = solved
            break
        used = used[solved >= 0]
    worst = float(np.abs(terms @ coefficients - 1.0).max())
    fixed_s, token_s, cached_token_s = coefficients.tolist()
    return LinearStep(fixed_s, token_s, cached_token_s, worst)
