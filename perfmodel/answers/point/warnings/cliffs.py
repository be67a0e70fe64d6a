"""Warns about cliffs: batches or draft lengths at which a pass takes much longer than with one sequence or
token fewer.

CUDA graphs have fixed sizes, and a batch is padded to the next size. Above such a size, the time of a pass
rises abruptly. The time also rises where a kernel needs another wave of thread blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perfmodel.answers.text import Note
from perfmodel.speculation import Scenario

CLIFF = 1.1
"""A pass is on a cliff if it takes more than this many times as long as with one sequence or token fewer."""
MUCH_PADDING = 1.25
"""A note is given if the padded batch is at least this many times as large as the batch."""


class Smaller(NamedTuple):
    """A pass with one sequence or token fewer.

    - seconds: its time.
    - number: the number of sequences of the larger pass, or of its tokens per sequence.
    """

    seconds: float
    number: float


class Passes(NamedTuple):
    """Times of the target's passes at a point, and of the same passes with one sequence or token fewer, in
    seconds.
    """

    decoding: float
    decoding_one_sequence_fewer: float
    verifying: float
    verifying_one_sequence_fewer: float
    verifying_one_token_fewer: float

    @classmethod
    def near(cls, scenario: Scenario, batch: float, context: float, gamma: int) -> "Passes":
        """Computes all times in one call of the formulas. With gamma 0 there is no verification, and the
        times of verification have no meaning.
        """
        batches = np.array([[batch], [_one_fewer(batch)]])
        tokens = np.array([gamma + 1.0, max(gamma, 1.0), 1.0])
        here, fewer = np.broadcast_to(scenario.target_pass_s(batches, context, tokens), (2, 3)).tolist()
        return cls(
            decoding=here[2],
            decoding_one_sequence_fewer=fewer[2],
            verifying=here[0],
            verifying_one_sequence_fewer=fewer[0],
            verifying_one_token_fewer=here[1],
        )


def cliffs(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """A note about a padded batch, and warnings about cliffs in the times of decoding, drafting and
    verification.
    """
    passes = Passes.near(scenario, batch, context, gamma)
    decoding = climb(passes.decoding, Smaller(passes.decoding_one_sequence_fewer, batch))
    graph = float(scenario.target_shard.rows(batch))
    if graph > batch:
        on_cliff = decoding > 0 or _drafting(scenario, batch, context, gamma) > 0
        if on_cliff or graph >= MUCH_PADDING * batch:
            yield Note(
                f"CUDA graphs pad batch {batch:.0f} to {graph:.0f}: "
                f"up to {graph:.0f} sequences take the same time"
            )
    elif decoding > 0:
        yield f"decoding {batch:.0f} sequences takes {decoding:.0%} longer than with one fewer"
    elif not scenario.target_shard.graph_sizes:
        drafting = _drafting(scenario, batch, context, gamma)
        if drafting > 0:
            yield f"drafting for {batch:.0f} sequences takes {drafting:.0%} longer than with one fewer"
    if gamma > 0:
        yield from _of_verifying(scenario, passes, batch, gamma)


def _of_verifying(scenario: Scenario, passes: Passes, batch: float, gamma: int) -> Iterator[str]:
    """A warning about a cliff of the verification, with the size of its CUDA graph."""
    longer = climb(
        passes.verifying,
        Smaller(passes.verifying_one_sequence_fewer, batch),
        Smaller(passes.verifying_one_token_fewer, gamma + 1.0),
    )
    if longer == 0:
        return
    tokens = batch * (gamma + 1)
    graph = float(scenario.target_shard.rows(tokens))
    graph_size = f" (CUDA graphs: {graph:.0f})" if graph > tokens else ""
    yield (
        f"verifying {tokens:.0f} tokens{graph_size} takes {longer:.0%} longer than with one sequence "
        "or token fewer"
    )


def _drafting(scenario: Scenario, batch: float, context: float, gamma: int) -> float:
    """The climb of a draft pass; 0 without a draft."""
    if gamma == 0:
        return 0.0
    batches = np.array([batch, _one_fewer(batch)])
    here_s, fewer_s = np.broadcast_to(scenario.draft_pass_s(batches, context), 2).tolist()
    return climb(here_s, Smaller(fewer_s, batch))


def _one_fewer(batch: float) -> float:
    """The batch with one sequence fewer, but at least 1."""
    return max(batch - 1.0, 1.0)


def climb(here_s: float, *smaller: Smaller) -> float:
    """The largest fraction by which a pass takes longer than one of the smaller passes; 0 if there is no
    cliff.

    - here_s: time of the pass in seconds.

    There is no cliff if the time grows by at most the factor `CLIFF`, or at most in proportion to the
    sequences or tokens.
    """
    return max(_climb_from(each, here_s) for each in smaller)


def _climb_from(smaller: Smaller, here_s: float) -> float:
    """`climb` from one smaller pass."""
    seconds, number = smaller
    if number <= 1 or seconds <= 0:
        return 0.0
    in_proportion = number / (number - 1)
    if here_s <= max(CLIFF, in_proportion) * seconds:
        return 0.0
    return here_s / seconds - 1
