"""One row of the public runs: what it counts for, what it gained, and the question that it becomes."""

from dataclasses import replace

import pytest

from perfmodel.specs import VERSION_SEPARATOR
from perfmodel.validate.studies.public_runs import PublicRun, RunKind, public_runs
from perfmodel.validate.studies.reasons import Reason
from tests.refusals import refused

STEP = next(run for run in public_runs() if run.kind is RunKind.STEP)
DRAFTED = replace(
    next(run for run in public_runs() if run.kind is RunKind.SPECULATION),
    id="a-run",
    draft="eagle3",
    gamma=3,
    tokens_per_iteration=2.5,
    time_ms=4.0,
    baseline_ms=5.0,
    speedup=1.25,
)


@pytest.mark.parametrize(
    ("reason", "counts", "counts_as_inside"),
    [(None, True, True), (Reason.SECOND_HAND, False, True), (Reason.QUEUE, False, False)],
)
def test_a_row_left_out_by_judgement_still_counts_for_intervals(
    reason: Reason | None, counts: bool, counts_as_inside: bool
) -> None:
    run = replace(STEP, left_out=reason)
    assert run.counts is counts
    assert run.counts_as_inside is counts_as_inside


def test_a_speculation_is_complete_with_its_draft_its_accepted_length_and_its_speedup() -> None:
    assert DRAFTED.is_complete
    for blank in ({"draft": ""}, {"gamma": None}, {"tokens_per_iteration": None}, {"speedup": None}):
        assert not replace(DRAFTED, **blank).is_complete, blank
    assert replace(DRAFTED, baseline_ms=None).is_complete, "its speedup is stated"
    assert replace(STEP, draft="", gamma=None, tokens_per_iteration=None, speedup=None).is_complete


def test_an_accepted_length_leaves_the_last_drafted_token_a_miss() -> None:
    """At most 3 + 0.98 tokens of drafts of 3: an acceptance of 1 at every position has no question."""
    assert DRAFTED.gained == 2.5
    assert replace(DRAFTED, tokens_per_iteration=3.97).gained == 3.97
    assert replace(DRAFTED, tokens_per_iteration=4.0).gained == 3.98
    refused("a-run: gamma: must be stated", lambda: replace(DRAFTED, gamma=None).gained)
    unknown = replace(DRAFTED, tokens_per_iteration=None)
    refused("a-run: tokens_per_iteration: must be stated", lambda: unknown.gained)


def test_an_iteration_over_a_step_is_its_tokens_times_its_time_per_token() -> None:
    """2.5 tokens at 4 ms each are an iteration of 10 ms, which is two steps of 5 ms."""
    assert DRAFTED.ratio == 2.0
    for blank in ({"tokens_per_iteration": None}, {"time_ms": None}, {"baseline_ms": None}):
        assert replace(DRAFTED, **blank).ratio is None, blank


def test_runs_of_one_series_differ_only_in_batch_and_context() -> None:
    other_point = replace(DRAFTED, batch=DRAFTED.batch + 1, context_tokens=DRAFTED.context_tokens + 1)
    assert other_point.series == DRAFTED.series
    for change in ({"kv_dtype": "fp8"}, {"draft": "mtp"}, {"gamma": 4}):
        changed = replace(DRAFTED, **change)
        assert changed.series != DRAFTED.series, change
        assert changed.server == DRAFTED.server, change
    other_servers: list[PublicRun] = [
        replace(DRAFTED, source_id="another"),
        replace(DRAFTED, engine="another"),
        replace(DRAFTED, engine_version="another"),
        replace(DRAFTED, model="another"),
        replace(DRAFTED, hardware="another"),
        replace(DRAFTED, tensor_parallel=16),
        replace(DRAFTED, weights="another"),
    ]
    assert len({run.series for run in (DRAFTED, *other_servers)}) == 8


def test_a_question_has_what_its_row_states_and_defaults_for_blanks() -> None:
    run = replace(
        STEP,
        engine="vllm",
        engine_version="",
        tensor_parallel=None,
        expert_parallel=2,
        data_parallel=3,
        weights="",
        kv_dtype="",
    )
    asked = {"model": run.model, "hardware": run.hardware, "ep": 2, "dp": 3}
    blank = {"engine": "vllm", "weights": None, "kv_dtype": None}
    assert run.query_arguments() == {**asked, **blank, "tp": 1}
    assert run.query_arguments(degree=4) == {**asked, **blank, "tp": 4}
    stated = replace(run, engine_version="0.9.1", tensor_parallel=8, weights="fp8", kv_dtype="bf16")
    assert stated.query_arguments(degree=4) == {
        **asked,
        "engine": f"vllm{VERSION_SEPARATOR}0.9.1",
        "weights": "fp8",
        "kv_dtype": "bf16",
        "tp": 8,
    }
