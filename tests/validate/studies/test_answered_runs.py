"""Runs of public sources, asked as their authors would ask."""

import math
from dataclasses import replace
from functools import cache

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError
from perfmodel.validate.studies import public_answers
from perfmodel.validate.studies.answered_runs import (
    Answered,
    answers,
    degree_of,
    served_arguments,
    speculating_query,
    spelled_kind,
    step_query,
)
from perfmodel.validate.studies.public_runs import PublicRun, RunKind, public_runs
from perfmodel.validate.studies.reasons import Reason
from tests.refusals import refused


def counting_run(kind: RunKind) -> PublicRun:
    """The first row of a kind that counts, of a serving engine."""
    rows = (run for run in public_runs() if run.counts and run.engine != "llamacpp")
    return next(run for run in rows if run.kind is kind)


STEP = replace(counting_run(RunKind.STEP), id="a-run")
SERVED = replace(counting_run(RunKind.SERVED), id="a-run")
DRAFTED = replace(counting_run(RunKind.SPECULATION), id="a-run")


@pytest.mark.parametrize(
    ("run", "figures"),
    [(STEP, ["step"]), (SERVED, ["step"]), (DRAFTED, ["speedup", "ratio"])],
)
def test_every_kind_is_answered_by_the_projects_own_path(run: PublicRun, figures: list[str]) -> None:
    answered = answers(run)
    assert [a.figure for a in answered] == figures
    for a in answered:
        assert abs(a.off) < math.log(3), a.figure
        if a.figure == "ratio":
            assert a.interval is None
        else:
            assert a.interval is not None
            low, high = a.interval
            assert low < a.predicted <= high


def test_a_step_is_the_baseline_of_a_what_if_in_seconds() -> None:
    (step,) = answers(replace(STEP, time_ms=12.5))
    assert step.measured == 0.0125
    assert step.predicted == whatif(**_point(STEP), gamma=0).ar_tpot_s
    at_half = step_query(replace(STEP, context_tokens=820.6))
    assert (at_half.gamma, at_half.context, at_half.batch) == (0, 821, STEP.batch)
    refused("a-run: time_ms: must be stated", answers, replace(STEP, time_ms=None))


def _point(run: PublicRun) -> dict[str, object]:
    return {"batch": run.batch, "context": round(run.context_tokens), **run.query_arguments()}


def test_a_speculation_is_asked_with_its_accepted_length_and_its_ratio_only_with_both_times() -> None:
    run = replace(DRAFTED, tensor_parallel=1, speedup=1.5)
    speedup, ratio = answers(run)
    asked = whatif(
        **_point(run), draft=run.draft, gamma=run.gamma, tokens_per_iteration=run.tokens_per_iteration
    )
    assert (speedup.measured, speedup.predicted) == (1.5, asked.speedup)
    assert (speedup.interval, speedup.verdict) == (asked.speedup_interval, asked.verdict)
    assert (ratio.measured, ratio.predicted) == (run.ratio, asked.iteration_s / asked.ar_tpot_s)
    (alone,) = answers(replace(run, baseline_ms=None))
    assert alone.figure == "speedup"
    refused("a-run: speedup: must be stated", answers, replace(run, speedup=None))
    refused("a-run: gamma: must be stated", speculating_query, replace(run, gamma=None))
    assert speculating_query(run).gamma == run.gamma
    assert spelled_kind(replace(run, draft="eagle3")) == "eagle"


def test_a_served_run_is_a_closed_loop_of_its_clients() -> None:
    """Lengths from 1 to 1200 have a deviation of 346; a question states whole tokens below 600 / sqrt(3). A
    source that does not say how many requests it sent is taken to have sent ten per client.
    """
    run = replace(SERVED, batch=4, input_tokens=600.7, output_tokens=60.0, requests=80, lengths="uniform")
    asked = served_arguments(run)
    assert asked.items() >= run.query_arguments().items()
    assert {name: asked[name] for name in asked.keys() - run.query_arguments().keys()} == {
        "input_len": 600,
        "input_std": 345,
        "output_len": 60,
        "output_std": 33,
        "max_concurrency": 4,
        "num_prompts": 80,
        "gamma": 0,
        "replay": True,
    }
    fixed = served_arguments(replace(run, requests=None, lengths=""))
    assert fixed["num_prompts"] == 40
    assert not {"input_std", "output_std"} & fixed.keys()
    for column in ("time_ms", "input_tokens", "output_tokens"):
        refused(f"a-run: {column}: must be stated", answers, replace(run, **{column: None}))


@pytest.mark.parametrize("kind", [RunKind.PASS, RunKind.PROMPT])
def test_a_pass_or_a_prompt_alone_is_no_question(kind: RunKind) -> None:
    refused(f"a-run: kind: no question is about a {kind} alone", answers, replace(STEP, kind=kind))


def test_a_degree_that_is_not_stated_is_the_one_with_the_nearest_baseline() -> None:
    run = replace(DRAFTED, tensor_parallel=None)
    for degree in (1, 2, 4):
        step_s = whatif(**_point(run) | {"tp": degree}, gamma=0).ar_tpot_s
        for factor in (0.97, 1.03):
            assert degree_of(replace(run, baseline_ms=factor * step_s * 1e3)) == degree
    assert degree_of(replace(run, baseline_ms=1e-3, tensor_parallel=2)) == 2, "it is stated"
    assert degree_of(replace(run, baseline_ms=None)) == 1, "nothing is known"
    assert degree_of(replace(run, baseline_ms=1.0, hardware="no-such-device")) == 1, "none can be asked"


def test_degrees_that_a_model_cannot_have_are_passed_over() -> None:
    """The shorter the step, the more devices; 28 heads can be divided among four, and not among eight."""
    run = replace(DRAFTED, tensor_parallel=None, baseline_ms=1e-3)
    assert degree_of(replace(run, model="llama-3.1-8b")) == 8
    assert degree_of(replace(run, model="qwen2.5-7b")) == 4


def test_runs_that_state_enough_are_predicted_and_a_refused_one_is_kept_with_its_reason(monkeypatch) -> None:
    """A run that was left out by judgement counts in the coverage of intervals, and not in the errors."""
    runs = [
        replace(STEP, id="counts"),
        replace(STEP, id="another figure", measured_as="ratio"),
        replace(STEP, id="second hand", left_out=Reason.SECOND_HAND),
        replace(STEP, id="with a queue", left_out=Reason.QUEUE),
        replace(STEP, id="of another engine", engine="tgi"),
        replace(STEP, id="without its draft", kind=RunKind.SPECULATION, draft=""),
        replace(STEP, id="impossible"),
    ]

    def predicted(run: PublicRun) -> list[Answered]:
        if run.id == "impossible":
            raise InputError("no such device")
        return [Answered(run, "ratio" if run.id == "another figure" else "step", 1.0, 1.0, None)]

    monkeypatch.setattr(public_answers, "public_runs", lambda: runs)
    monkeypatch.setattr(public_answers, "answers", predicted)
    anew = cache(public_answers._public_answers.__wrapped__)
    monkeypatch.setattr(public_answers, "_public_answers", anew)
    assert [a.run.id for a in public_answers.answered()] == ["counts", "another figure", "second hand"]
    assert [a.run.id for a in public_answers.of_figure("step")] == ["counts"]
    assert public_answers.refusals() == {"impossible": "no such device"}
