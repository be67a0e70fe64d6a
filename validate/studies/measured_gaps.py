"""Derives measured pass times from served runs. A pass time is the median gap between streamed chunks, as a
function of the running batch of a server.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.studies.served_runs import (
    DEEPSEEK,
    LONG_PROMPTS,
    ServedRun,
    rows_of,
    runs,
    tokens_per_chunk,
)

SERVER = (
    "study",
    "engine",
    "hardware",
    "tensor_parallel",
    "expert_parallel",
    "data_parallel_attention",
    "weights",
)
"""Columns whose values are equal for runs of one server."""
CROWDED_GAPS = 0.5
"""Number of prompts per gap from which on the median gap also includes prefill."""
MOST_EXTRAPOLATED = 2.0
"""Largest ratio of a batch to the largest batch with measured gaps, up to which times are extrapolated."""


def gaps(run: ServedRun, batches: Array) -> Array | None:
    """The seconds of a pass at each of `batches`, interpolated between the median gaps in runs of the same
    server and draft.

    The result is None if most gaps include prefill, or if the batch of the run is much larger than those with
    measured gaps (`MOST_EXTRAPOLATED`).
    """
    # the gaps of `LONG_PROMPTS` were not published, but its servers are those of `DEEPSEEK`
    study = DEEPSEEK if run.study == LONG_PROMPTS else run.study
    return gaps_among(run, runs(study), rows_of(study), batches)


def gaps_among(
    run: ServedRun, replayed: Sequence[ServedRun], rows: Sequence[ServedRun], batches: Array
) -> Array | None:
    """See `gaps`.

    - replayed: the runs of the study that state all inputs of a simulation.
    - rows: all rows of the study.
    """
    passes = _passes_per_chunk(run, rows)
    with_draft = (*SERVER[1:], "draft", "steps")
    alike = [other for other in replayed if other.itl_p50_ms and other.agrees(run, with_draft)]
    measured = sorted(
        _pass(other, passes) for other in alike if _prompts_per_gap(other, passes) < CROWDED_GAPS
    )
    if not measured or run.batch > MOST_EXTRAPOLATED * measured[-1].batch:
        return None
    known_batches = np.array([each.batch for each in measured])
    seconds = np.array([each.seconds for each in measured])
    beyond = np.maximum(batches - known_batches[-1], 0.0)
    return np.asarray(np.interp(batches, known_batches, seconds) + beyond * _last_slope(measured))


class _MeasuredPass(NamedTuple):
    """The measured seconds of a pass at a running batch."""

    batch: float
    seconds: float


def _passes_per_chunk(run: ServedRun, rows: Sequence[ServedRun]) -> float:
    """The number of passes per streamed chunk. It is 1 or a multiple of 10, and comes from the tokens per
    chunk of the engine's runs without a draft.
    """
    baselines = [row for row in rows if row.engine == run.engine and row.steps == 0]
    if run.steps == 0 and run.itl_p50_ms:
        baselines = [run]
    return max(round(tokens_per_chunk(baselines), -1), 1.0)


def _prompts_per_gap(run: ServedRun, passes: float) -> float:
    """The number of prompts that begin between two chunks of a request. A new request begins whenever a
    running request has decoded all its tokens.
    """
    tokens_per_gap = passes * (run.gained or 1.0)
    return run.batch * tokens_per_gap / run.lengths.decoded


def _pass(run: ServedRun, passes: float) -> _MeasuredPass:
    """The time of a pass in a run: the median gap divided by the passes per chunk."""
    assert run.itl_p50_ms is not None
    return _MeasuredPass(run.batch, run.itl_p50_ms / passes / 1e3)


def _last_slope(measured: Sequence[_MeasuredPass]) -> float:
    """The increase of the pass time per sequence between the two largest batches, in seconds; at least 0."""
    if len(measured) == 1:
        return 0.0
    before, last = measured[-2:]
    return max((last.seconds - before.seconds) / (last.batch - before.batch), 0.0)
