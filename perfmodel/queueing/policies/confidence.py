"""A policy that verifies only those drafted tokens of a batch that are most likely to be accepted."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.acceptance_spread import beta_of, beta_weights
from perfmodel.queueing.closed_form import mean_tpot_s
from perfmodel.queueing.occupancy import NEGLIGIBLE
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import switched
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration, conditional_from_survival

PARTS = 4
"""Number of budgets that are tried between two whole numbers of verified tokens per request."""


class Confidence(LengthPolicy):
    """Every request drafts the same number of tokens. At each batch, the number of verified tokens maximises
    the expected tokens per second.

    The confidence of a draft is assumed to equal the acceptance of its request. The acceptance varies between
    requests with the standard deviation ``--acceptance-std``.
    """

    help = "verifies only the drafted tokens that are most likely to be accepted"
    noun = "the confidence budget"
    source = "vllm#47808; dspark_sps.py of SGLang 0.5.23"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One choice: the number of drafted tokens with the lowest TPOT (geometric mean over all loads)."""
        if not (made := list(self._candidates(replica))):
            return [replica.switching(self, [], 0.0)]
        return [min(made, key=lambda c: np.log(mean_tpot_s(c.steps, replica.load, replica.limits)).sum())]

    def replayed(self, choice: Choice, replica: Replica) -> StepTimes:
        """The pass times according to the same rule, for the lengths of the replayed requests."""
        return self.choices(replica)[0].steps

    def _candidates(self, replica: Replica) -> Iterator[Choice]:
        """A choice for each number of drafted tokens."""
        scenario = replica.scenario.with_context_std(replica.lengths.context_std)
        for drafted, steps in replica.passes.items():
            if not (drafted and steps.seats):
                continue
            verified = np.linspace(0.0, drafted, PARTS * drafted + 1)
            pass_s = scenario.target_pass_s(steps.batches[:, None], replica.lengths.context, 1.0 + verified)
            decode_s = steps.decode_s[:, None] + pass_s - np.asarray(pass_s)[:, -1:]
            gains = expected(steps, verified, replica.spread)
            chosen = np.argmax(gains / decode_s, 1)
            times = [
                replace(steps, tokens_per_iteration=float(gain), decode_s=seconds, survival=None)
                for gain, seconds in zip(gains, decode_s.T, strict=True)
            ]
            made = switched(times, replica.lengths, replica.sustained({drafted}), chosen)
            yield Choice(self, self.name, made, replica.everywhere)


def expected(steps: StepTimes, verified: Array, spread: float) -> Array:
    """Tokens per iteration for each number of verified tokens per request. The server verifies the drafted
    tokens that are most likely to be accepted.

    - spread: standard deviation of the acceptance between requests.

    The draft is assumed to know the acceptance of each request.
    """
    alpha = float(alpha_from_tokens_per_iteration(steps.tokens_per_iteration, float(steps.gamma)))
    rates = alpha if steps.survival is None else conditional_from_survival(steps.survival)
    if spread and 0 < alpha < 1:
        own, share = beta_weights(beta_of(alpha, spread))
    else:
        own = np.array([alpha])
        share = np.ones(1)
    scaled = np.full(steps.gamma, rates) * own[:, None] / max(alpha, NEGLIGIBLE)
    each = np.minimum(scaled, 1.0)
    sure = np.cumprod(each, 1).ravel()
    share = np.repeat(share, steps.gamma)
    order = np.argsort(-sure, kind="stable")
    tokens = np.concatenate([[0.0], np.cumsum(share[order])])
    accepted = np.concatenate([[0.0], np.cumsum((share * sure)[order])])
    scale = (steps.tokens_per_iteration - 1.0) / max(accepted[-1], NEGLIGIBLE)
    return 1.0 + scale * np.interp(verified, tokens, accepted)
