"""Verification by confidence: the engine verifies only the drafted tokens that are likely enough to be
accepted.

The engine ranks the drafted tokens of all requests by the probability that they and all tokens before them
are accepted. The engine verifies the most likely tokens (vLLM 0.32,
v1/worker/gpu/spec_decode/adaptive_verification.py; vllm#47808). Let w_c be the share of drafts with
confidence c, and s_cj their survival at position j. If a set of pairs (c, j) is verified, a sequence gets 1 +
sum w_c s_cj tokens per iteration. The pass then has 1 + sum w_c tokens per sequence.

llama.cpp instead stops a draft before the first token whose probability is below ``--spec-draft-p-min``
(common/speculative.cpp of 0c1e57098). All slots draft together in one pass, and passes run as long as one
slot drafts. The pass that finds the unlikely token also takes time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array, Floats
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.iteration import speedups
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class ByConfidence:
    """The best cuts and the best constant draft length. At each batch, a token is verified only if its
    probability of acceptance is at least the *cut* of this batch. Speedups are means over the batches, which
    have equal shares of the baseline's time.

    - speedup, fixed_speedup: speedup with the cuts, and speedup with the constant length.
    - verified: mean number of drafted tokens per sequence that are verified at the largest batch.
    - fixed: the best constant draft length.
    """

    speedup: float
    verified: float
    drafted: int
    fixed: int
    fixed_speedup: float


class Stop(NamedTuple):
    """A rule by which drafts end early. Rules are sorted by their gain.

    - gain: speedup over a server that always drafts the best constant length.
    - longest: largest number of drafted tokens.
    - least_probability: a draft ends before a token with a lower probability than this (p-min). 0 means that
      drafts never end early.
    """

    gain: float
    longest: int
    least_probability: float


Bins = tuple[Array, Array]
"""Share of each bin, [bin, 1], and conditional acceptances, [bin, position]."""


def _bins(scenario: Scenario) -> Bins:
    """The bins of the acceptance."""
    shares, rates = (np.array(part, float) for part in zip(*scenario.known_acceptance.bins, strict=True))
    return shares[:, None] / shares.sum(), rates[:, : scenario.longest(rates.shape[1])]


def _bins_of_outcomes(scenario: Scenario, longest: int) -> Bins:
    """Bins for a draft that knows which of its tokens are right. The drafts of a bin have the same number of
    right tokens, from 0 to `longest`.
    """
    survival = scenario.known_acceptance.survival(scenario.longest(longest))
    shares = -np.diff(survival, append=0.0)
    return shares[:, None], np.tri(len(shares), len(shares) - 1, -1)


class _Stops(NamedTuple):
    """All rules by which drafts can end early. The numbers are means per sequence, over ``[probability,
    length]``.

    - least_probability: the least probability of a rule, over ``[probability]``.
    - verified: number of drafted tokens that are verified.
    - accepted: number of these tokens that are accepted.
    - drafting: probability that a draft reaches the pass that drafts this token.
    """

    least_probability: Array
    verified: Array
    accepted: Array
    drafting: Array


def _stops(weight: Array, rates: Array) -> _Stops:
    """The rules for the bins of an acceptance. Every rate of a bin is tried as the least probability.

    - weight, rates: see `_bins`.
    """
    least = np.unique([0.0, *rates.flat])
    # [probability, bin, position]
    kept = np.minimum.accumulate(rates >= least[:, None, None], axis=2) * weight
    return _Stops(
        least,
        verified=kept.sum(1).cumsum(1),
        accepted=(kept * rates.cumprod(1)).sum(1).cumsum(1),
        drafting=np.column_stack([np.ones(len(least)), kept.sum(1)[:, :-1]]),
    )


def best_stop(
    scenario: Scenario,
    batches: Array,
    contexts: Array,
    constant: int,
    fraction: float | None = None,
    *,
    bins: Bins | None = None,
) -> Stop:
    """The fastest combination of longest draft and least probability that fits in memory. The gain of this
    rule is the speedup over a server that always drafts `constant` tokens.

    - fraction: the engine's share of device memory. None means its default.
    - bins: None means those of the acceptance, which must then have bins.

    Times relative to the baseline are averaged over the contexts and over the batch sizes. Each batch size
    has the weight log(1 + 1/batch), as in a table of draft lengths. The probability that the draft reports
    for a token is assumed to equal the conditional acceptance of the token's bin.
    """
    stops = _stops(*(bins or _bins(scenario)))
    least = stops.least_probability
    lengths = np.arange(1, stops.verified.shape[1] + 1)
    batch = batches[:, None, None, None]
    context = contexts[:, None, None]  # the last two axes are [probability, length]
    if scenario.draft.in_one_pass:
        passes: Array = np.asarray(lengths, float)
    else:  # a pass runs as long as one sequence drafts
        passes = (1.0 - (1.0 - stops.drafting) ** batch).cumsum(-1)
    seconds = scenario.draft_token_s(batch, context, lengths) * passes + scenario.overhead_s(batch, context)
    seconds = seconds + scenario.target_pass_s(batch, context, 1.0 + stops.verified)
    slowness = seconds / (1.0 + stops.accepted) / scenario.target_pass_s(batch, context)
    slowness = np.average(slowness.mean(1), axis=0, weights=np.log1p(1.0 / batches))
    fits = memory_of(scenario, batches[-1], contexts[-1], lengths, fraction).fits
    if not np.any(fits):
        return Stop(1.0, constant, 0.0)
    slowness = np.where(fits, slowness, np.inf)
    at, length = np.unravel_index(np.argmin(slowness), slowness.shape)
    always = slowness[0, constant - 1] if constant else 1.0
    between = least[
        max(at - 1, 0) : at + 1
    ].mean()  # of the lowest rate that is kept, and the next lower rate
    return Stop(float(always / slowness[at, length]), int(lengths[length]), round(float(between), 3))


def ideal_stop(
    scenario: Scenario,
    batches: Array,
    contexts: Array,
    constant: int,
    fraction: float | None = None,
    *,
    longest: int,
) -> Stop:
    """Like `best_stop`, but each draft ends before its first wrong token. No p-min gains more, because these
    drafts have all right tokens of a longer draft and no others.

    - longest: largest number of drafted tokens.
    """
    bins = _bins_of_outcomes(scenario, longest)
    return best_stop(scenario, batches, contexts, constant, fraction, bins=bins)


def by_confidence(scenario: Scenario, batches: Floats, context: float) -> ByConfidence:
    """Computes the best cuts and the best constant draft length. The acceptance of `scenario` must have bins.

    Every iteration drafts all tokens. The cuts limit only which of these tokens are verified.

    - batches: batch sizes, over ``[n]``.
    """
    weight, rates = _bins(scenario)
    drafted = rates.shape[1]
    batch = np.asarray(batches, float)[:, None]
    survival = np.cumprod(rates, axis=1)
    weight = np.repeat(weight, drafted, axis=1)
    order = np.argsort(-survival, axis=None, kind="stable")
    verified = np.concatenate(([0.0], np.cumsum(weight.ravel()[order])))
    gained = 1.0 + np.concatenate(([0.0], np.cumsum((weight * survival).ravel()[order])))
    lengths = np.arange(drafted + 1)
    draft = scenario.draft_token_s(batch, context, lengths[-1:]) * drafted
    verify = scenario.target_pass_s(batch, context, verified + 1.0)
    seconds = draft + verify + scenario.overhead_s(batch, context)
    gains = gained / seconds * scenario.target_pass_s(batch, context)
    fixed = len(batch) / (1.0 / speedups(scenario, batch[:, 0], context, lengths)).sum(0)
    best = int(np.argmax(fixed))
    speedup = max(len(batch) / (1.0 / gains.max(1)).sum(), float(fixed[best]))
    return ByConfidence(
        float(speedup), float(verified[gains[-1].argmax()]), drafted, best, float(fixed[best])
    )
