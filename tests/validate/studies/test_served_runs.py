"""Served runs replayed, and what a request costs fitted to them."""

import numpy as np
import pytest

from perfmodel.validate.studies.traffic import BY, DEEPSEEK, STUDIES, compare, folds, held_out, runs
from perfmodel.validate.studies.traffic_fit import SCALES, StraightLines, solved


def run_of(study: str, steps: int, concurrency: int):
    return next(run for run in runs(study) if (run.steps, run.concurrency) == (steps, concurrency))


def test_a_run_with_drafts_is_met_by_what_has_not_seen_it():
    for by in BY:
        ratios = compare(run_of(STUDIES[2], 4, 16), by).ratios
        for name in ("tpot_mean_ms", "output_tokens_per_s", "ttft_mean_ms"):
            assert ratios[name] == pytest.approx(1, abs=0.15)


def test_each_run_has_a_fold_without_it():
    for study in STUDIES:
        for run in runs(study):
            assert {key(run) for key in BY.values()} <= set(folds())
    left_out = held_out(run_of(DEEPSEEK, 0, 16), "study")
    assert left_out.model_dump() == folds()[DEEPSEEK]["common"], "no other run of these engines is known"


def test_versions_and_acceptance_that_were_not_printed():
    """Qwen3-32B ran on a commit before 0.14; chunks carry 2.2 to 2.9 times the tokens with three of MTP."""
    assert run_of(STUDIES[1], 0, 16).version == "0.14"
    drafted = [run for run in runs(DEEPSEEK) if run.steps == 3]
    assert {round(run.gained, 1) for run in drafted} == {2.3, 2.8}


def test_a_straight_line_is_solved_and_one_run_far_off_hardly_counts():
    """Residuals 0.2 - move: a wide spread gives 0.2, one of 1 around 0 beside a run of weight 1 gives 0.2 / (1 + 1).

    A run that is 30 off weighs 1 / (1 + (29.8 / 3)^2) = 0.01: (9 * 0.2 + 0.01 * 30) / 9.01 = 0.233.
    """
    run = run_of(STUDIES[0], 0, 1)
    line = StraightLines(run, np.array([-0.2]), np.array([[1.0] + [0.0] * (len(SCALES) - 1)]))
    wide, narrow = np.full(len(SCALES), 1e3), np.ones(len(SCALES))
    nothing = np.zeros(len(SCALES))
    assert solved([line], wide, nothing)[0] == pytest.approx(0.2, abs=1e-3)
    assert solved([line], narrow, nothing)[0] == pytest.approx(0.1, abs=1e-3)
    far = StraightLines(run, np.array([-30.0]), line.slopes)
    assert solved([line] * 9 + [far], wide, nothing)[0] == pytest.approx(0.233, abs=2e-3)
