"""Verification by confidence: only the drafted tokens that are likely enough to pay are verified.

The engine ranks the drafted tokens of all requests by the probability that they and all tokens before them
are accepted. It verifies the most likely ones (vLLM 0.32, v1/worker/gpu/spec_decode/adaptive_verification.py;
vllm#47808). If drafts of confidence c are a share w_c of all, with survival s_cj at position j, verifying a
set of (c, j) gains 1 + sum w_c s_cj tokens per sequence and costs a pass over 1 + sum w_c tokens.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Floats
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class ByConfidence:
    """The best cut and the best single length, over batches with equal shares of the baseline's time.

    speedup, fixed_speedup: of the cut and of the single length. verified: mean tokens verified at the largest
    batch, of the `drafted` ones. fixed: the best single length.
    """

    speedup: float
    verified: float
    drafted: int
    fixed: int
    fixed_speedup: float


def by_confidence(scenario: Scenario, batches: Floats, context: float) -> ByConfidence:
    """Computes the best cut. batches: [n]. The acceptance of `scenario` must have bins. Every iteration makes
    the whole draft.
    """
    bins = scenario.acceptance.bins
    shares = np.array([share for share, _ in bins])
    survival = np.cumprod([positions for _, positions in bins], axis=1)
    drafted, batch = scenario.longest(survival.shape[1]), np.asarray(batches, float)[:, None]
    survival = survival[:, :drafted]
    weight = np.repeat(shares[:, None] / shares.sum(), survival.shape[1], axis=1)
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
