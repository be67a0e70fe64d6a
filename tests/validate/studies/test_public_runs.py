"""Runs of public sources, asked as their authors would ask."""

import math

from perfmodel.validate.studies.public_runs import answers, public_runs


def test_a_step_a_served_run_and_a_speculation_are_answered_by_the_projects_own_path() -> None:
    first = {}
    for run in public_runs():
        if run.counts and run.engine != "llamacpp":
            first.setdefault(run.kind, run)
    figures = [a.figure for run in first.values() for a in answers(run)]
    assert sorted(figures) == ["ratio", "speedup", "step", "step"]
    for run in first.values():
        for answer in answers(run):
            assert abs(answer.off) < math.log(3), run.id
            if answer.figure != "ratio":
                low, high = answer.interval
                assert low < answer.predicted <= high
