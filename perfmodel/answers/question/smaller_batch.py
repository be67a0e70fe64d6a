"""Finds out whether a smaller batch gives more tokens per second than the batch of the question.

Kernels and CUDA graphs process sequences in blocks. A step takes longer as soon as the batch needs one more
block. A batch of 129 may therefore give fewer tokens per second than a batch of 128.
"""

from collections.abc import Iterator

import numpy as np

from perfmodel.operations import Array
from perfmodel.speculation import Scenario

BLOCKS = (1, 8, 16, 32, 64, 128, 256)
"""Possible numbers of sequences in a block. For each of them, the largest multiple below the batch is tried.
"""
SMALL = 16
"""Of the batches below this number, all that are smaller than the batch of the question are tried."""
LEAST_GAIN = 1e-3
"""A smaller batch is only mentioned if it gives more tokens per second by at least this share."""


def of_batch(scenario: Scenario, batch: float, context: float) -> Iterator[str]:
    """A warning if the baseline gives more tokens per second with a smaller batch."""
    tried = {(batch - 1) // block * block for block in BLOCKS}
    tried |= set(range(1, int(min(batch, SMALL))))
    batches = np.array([*sorted(each for each in tried if each > 0), batch])
    if batches.size > 1:
        yield from better(batches, batches / np.ravel(scenario.target_pass_s(batches, context, 1.0)))


def better(batches: Array, tokens_per_s: Array) -> Iterator[str]:
    """A warning if a smaller batch gives more tokens per second than the last batch of `batches`.

    - tokens_per_s: the throughput of each batch.
    """
    best = clearly_best(tokens_per_s)
    if best is not None:
        gain = tokens_per_s[best] / tokens_per_s[-1] - 1.0
        yield (
            f"a batch of {batches[best]:g} serves more without a draft than {batches[-1]:g} "
            f"({gain:.1%} more tokens/s): a step can take longer where the next size of "
            "CUDA graph or another block of a kernel begins"
        )


def clearly_best(tokens_per_s: Array) -> int | None:
    """The position of the highest throughput; None if it is not clearly higher than the last one."""
    best = int(np.argmax(tokens_per_s))
    return best if tokens_per_s[best] > tokens_per_s[-1] * (1.0 + LEAST_GAIN) else None
