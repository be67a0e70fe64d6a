"""The draft lengths that SGLang's adaptive speculation chooses in its steady state. The lengths depend on the
number of running requests and on the mean number of accepted tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica


@dataclass(frozen=True, slots=True)
class BatchTier:
    """The rule for the number of draft steps that a server uses if at least `running` requests run.

    - candidates: the allowed numbers of draft steps, the smallest first.
    - down: offset in tokens, which is added to a threshold. If the mean number of accepted tokens is at or
      below the threshold, the server changes to the next smaller candidate.
    """

    running: int
    candidates: tuple[int, ...]
    down: float = 0.0


TIERS = (
    BatchTier(1, (1, 3, 5, 7), down=-0.25),
    BatchTier(8, (0, 1, 3)),
    BatchTier(32, (0, 1)),
    BatchTier(64, (0,)),
)
"""The rules by number of running requests, the smallest number first."""
STARTING_STEPS = 3
"""Number of steps of a server at its start."""
TO_THRESHOLD = 0.5
"""Distance between a candidate and a threshold, in tokens."""


class Adaptive(LengthPolicy):
    """One number of draft steps for each range of running requests. The mean number of accepted tokens
    determines this number.

    Two things are not modelled: repeated changes between two candidates, and the start of a server.
    """

    help = "the length that SGLang's adaptive speculation chooses"
    noun = "the adaptive steps"
    source = "defaults of adaptive_spec_params.py in SGLang 0.5.23"

    def lengths(self, longest: int) -> Sequence[int]:
        """All candidates that are not above the largest allowed number of draft steps, `longest`."""
        return sorted({steps for tier in TIERS for steps in tier.candidates if steps <= longest})

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table of draft lengths, the same for every load."""
        accepted = {steps: times.tokens_per_iteration - 1.0 for steps, times in replica.passes.items()}
        settled = {tier.running: settles(tier, accepted) for tier in TIERS}
        seats = min(replica.passes[steps].seats for steps in settled.values())
        table = []
        for running in range(1, seats + 1):
            least = max(least for least in settled if least <= running)
            table.append(settled[least])
        sustained = replica.sustained(set(table)) if table else 0.0
        return [replica.switching(self, table, sustained)]


def settles(tier: BatchTier, accepted: Mapping[int, float]) -> int:
    """The number of draft steps that a server finally uses in a tier.

    - accepted: mean number of accepted tokens of each candidate. Candidates that are missing here are not
      used.
    """
    candidates = [steps for steps in tier.candidates if steps in accepted]
    start = candidates.index(STARTING_STEPS) if STARTING_STEPS in candidates else len(candidates) // 2
    index = start
    while index and accepted[candidates[index]] <= abs(candidates[index - 1] - TO_THRESHOLD) + tier.down:
        index -= 1
    longest = len(candidates) - 1
    while start <= index < longest and accepted[candidates[index]] > candidates[index] - TO_THRESHOLD:
        index += 1
    return candidates[index]
