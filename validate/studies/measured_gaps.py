"""Measured passes of served runs: median gaps between streamed chunks, by the running batch of a server."""

from collections.abc import Sequence

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
"""Columns that are equal for two runs of one server."""
CROWDED_GAPS = 0.5
"""Prompts between two chunks from which the median gap includes more than decoding."""
MOST_EXTRAPOLATED = 2.0
"""The largest ratio of a batch to the largest batch with measured gaps."""


def gaps(run: ServedRun, batches: Array) -> Array | None:
    """Seconds of passes by running batch: median gaps between chunks, from this server's runs with this
    draft.

    None if prompts fall into most gaps, or if the run is far above those with gaps.
    """
    study = DEEPSEEK if run.study == LONG_PROMPTS else run.study  # without gaps, on the same servers
    return gaps_among(run, runs(study), rows_of(study), batches)


def gaps_among(
    run: ServedRun, replayed: Sequence[ServedRun], rows: Sequence[ServedRun], batches: Array
) -> Array | None:
    """See `gaps`. replayed: runs of the study. rows: all its rows, of which a baseline may lack figures."""
    columns = (*SERVER[1:], "draft", "steps")
    alike = [r for r in replayed if r.itl_p50_ms and r.agrees(run, columns)]
    baselines = [r for r in rows if r.engine == run.engine and r.steps == 0]
    if run.steps == 0 and run.itl_p50_ms:
        baselines = [run]
    passes = max(round(tokens_per_chunk(baselines), -1), 1.0)  # passes per chunk: one, or tens
    points = []
    for r in alike:
        assert r.itl_p50_ms is not None
        prompts_per_gap = passes * r.batch * (r.gained or 1.0) / r.lengths.decoded
        if prompts_per_gap < CROWDED_GAPS:
            points.append((r.batch, r.itl_p50_ms / passes / 1e3))
    if not points:
        return None
    known, seconds = np.array(sorted(points)).T
    if MOST_EXTRAPOLATED * known[-1] < run.batch:
        return None
    slope = 0.0
    if len(points) > 1:
        slope = (seconds[-1] - seconds[-2]) / (known[-1] - known[-2])
    beyond = np.maximum(batches - known[-1], 0.0) * max(slope, 0.0)
    return np.asarray(np.interp(batches, known, seconds) + beyond)
