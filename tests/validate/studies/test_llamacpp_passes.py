"""Which times of llama.cpp's runs are fitted, and to which constants."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.specs import read_kernels
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.llamacpp_constants import PROMPT
from perfmodel.validate.studies.llamacpp_passes import LlamaCppPasses
from perfmodel.validate.studies.llamacpp_prompts import prompts
from perfmodel.validate.studies.public_runs import PublicRun, RunKind, public_runs
from perfmodel.validate.studies.reasons import Reason

DRAFTED = replace(
    next(run for run in public_runs() if run.id == "bs0226"),
    gamma=3,
    tokens_per_iteration=3.0,
    time_ms=7.0,
    baseline_ms=13.0,
    date="2026-08",
)
"""3 tokens in each iteration of 21 ms, and steps of 13 ms."""
ALONE = replace(DRAFTED, kind=RunKind.PASS, left_out=Reason.PASS_ALONE)
PROMPT_RUN = next(iter(prompts()))


def passes_of(*given: PublicRun) -> LlamaCppPasses:
    class Passes(LlamaCppPasses):
        @staticmethod
        def runs() -> Sequence[PublicRun]:
            return given

    return Passes()


def expected_of(passes: LlamaCppPasses) -> Values:
    return {parameter.place: parameter.expected for parameter in passes.parameters}


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (DRAFTED, {"iteration": 0.021, "step": 0.013}),
        (replace(DRAFTED, baseline_ms=None, left_out=Reason.NO_BASELINE), {"iteration": 0.021}),
        (replace(DRAFTED, tokens_per_iteration=None), {}),
        (replace(DRAFTED, time_ms=None), {}),
        (replace(DRAFTED, left_out=Reason.CONTRADICTION), {}),
        (ALONE, {"pass": 0.007}),
    ],
)
def test_the_times_of_a_run(run: PublicRun, times: dict[str, float]) -> None:
    rows = passes_of(run).rows
    assert {row.figure: row.seconds for row in rows} == pytest.approx(times)


def test_a_pass_alone_is_a_verification_without_drafts_and_overhead() -> None:
    """Both as `whatif` answers."""
    kernels = read_kernels("rtx-5090-32gb.llamacpp")
    passes = passes_of(DRAFTED, ALONE)
    seconds = {group.first.figure: group.predict(kernels)[0] for group in passes.groups}
    answer = whatif(**DRAFTED.query_arguments(), batch=1, context=250, gamma=3, draft="mtp", alpha=0.8)
    assert seconds["pass"] == pytest.approx(answer.verify_step.predicted_s)
    assert seconds["iteration"] == pytest.approx(answer.iteration_s)


def test_a_maker_and_a_device_are_factors_on_the_value_for_all() -> None:
    parameters = {parameter.place: parameter for parameter in passes_of(DRAFTED).parameters}
    common, *factors = (parameters[f"{scope}.small_kernel_s"] for scope in ("all", "NVIDIA", "rtx-5090-32gb"))
    assert (common.expected, common.times) == (7e-6, False)
    assert [(factor.expected, factor.times) for factor in factors] == [(1.0, True)] * 2


@pytest.mark.parametrize(("date", "old"), [("2025-08-31", True), ("2025-09", False), ("2025-09-01", False)])
def test_builds_before_september_2025_have_a_factor_of_their_own(date: str, old: bool) -> None:
    scopes = LlamaCppPasses.constants_of(replace(DRAFTED, date=date)).scopes
    assert ("old" in scopes) == old


def test_prompts_alone_determine_the_share_of_the_peak_in_prompts() -> None:
    passes = passes_of(DRAFTED, PROMPT_RUN)
    names: dict[str, set[str]] = {"iteration": set(), "step": set(), "prompt": set()}
    for name, group in passes.moving:
        names[group.first.figure].add(name)
    assert names["prompt"] == {PROMPT}
    assert PROMPT not in names["iteration"] | names["step"]
    assert "drafted_token_s" in names["iteration"] - names["step"]


def test_slopes_are_those_of_the_errors() -> None:
    """1 % more of a constant; the device of one row does not move the row of another."""
    other = replace(DRAFTED, hardware="rtx-4090-24gb")
    passes = passes_of(DRAFTED, other)
    values = expected_of(passes)
    off = passes.off(values)
    slopes = passes.slopes(values, off)
    places = [parameter.place for parameter in passes.parameters]
    for place in ("all.small_kernel_s", "rtx-4090-24gb.small_kernel_s", "NVIDIA.iteration_fixed_s"):
        more = passes.off({**values, place: values[place] * 1.01})
        assert slopes[:, places.index(place)] == pytest.approx((more - off) / np.log(1.01), rel=0.02)


def test_servers_of_a_source_share_an_error_and_passes_alone_have_one_of_their_own() -> None:
    """All rows are off by 0.1. Two servers with deviations of 5 % and of rows of 4 %, and one with 15 and
    10 %; a source adds 8 and 15 %. The rows and the servers differ from their source by nothing.
    """
    once = replace(DRAFTED, hardware="rtx-4090-24gb", baseline_ms=None)
    passes = passes_of(DRAFTED, once, ALONE)
    train = np.ones(len(passes.rows), dtype=bool)
    parts = passes.parts(train).matrix @ np.full(len(passes.rows), 0.1)
    of_two_rows, of_one_row = 0.05**2 + 0.04**2 / 2, 0.05**2 + 0.04**2
    of_servers = 1 / (1 / of_two_rows + 1 / of_one_row)
    of_alone = 0.15**2 + 0.1**2
    common = [0.1 / (0.08**2 + of_servers) ** 0.5, 0.1 / (0.15**2 + of_alone) ** 0.5]
    assert parts[np.abs(parts) > 1e-9] == pytest.approx(common)
