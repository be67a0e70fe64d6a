"""Ratios of iterations: what one is made of, and how rows are read."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.question import Query
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import with_calibration
from perfmodel.validate.studies.engines import RATIO_FOLDS, recorded
from perfmodel.validate.studies.held_out import refits
from perfmodel.validate.studies.iterations import CLOCKED, Iteration, Iterations, iterations
from perfmodel.validate.studies.parameters import Parameter

QUERY = Query("llama-3.1-8b", "h100-sxm-80gb", 8, 512, 3, draft="eagle", alpha=0.7)
ROW = Iteration("x", "s", "g", "vllm", "0.22", QUERY, 8.0, 8.0, 512.0, 3, 4, 1.5, CLOCKED)


@pytest.fixture(scope="module")
def decoding() -> dict[str, float]:
    steps: dict[str, float] = recorded()["steps"]
    return steps


def ratio(decoding: dict[str, float], **fields: Any) -> tuple[float, Any]:
    rows = Iterations(decoding, [], [replace(ROW, **fields)])
    (group,) = rows.groups
    calibration = group.constants.calibration(decoding)
    return float(np.exp(rows.off({}))[0] * 1.5), with_calibration(group.scenario, calibration)


def test_a_chain_drafts_one_token_a_pass_and_a_tree_a_level(decoding: dict[str, float]) -> None:
    """Three steps: three passes over one token, or one over the root and two over four tokens."""
    chain, s = ratio(decoding)
    tree, _ = ratio(decoding, width=4, verified=8)
    one, four = (float(s.draft_pass_s(8.0, 512.0, n)) for n in (1.0, 4.0))
    target, verify, wide = (float(s.target_pass_s(8.0, 512.0, n)) for n in (1.0, 4.0, 8.0))
    beside = float(s.overhead_s(8.0, 512.0))
    assert chain == pytest.approx((3 * one + verify + beside) / target, rel=1e-9)
    assert tree == pytest.approx((one + 2 * four + wide + beside) / target, rel=1e-9)
    fewer, _ = ratio(decoding, step_batch=4.0)
    assert fewer == pytest.approx(chain * target / float(s.target_pass_s(4.0, 512.0)), rel=1e-9)


def test_constants_of_an_iteration_are_put_onto_those_of_steps(decoding: dict[str, float]) -> None:
    fixed = Parameter("all.iteration_fixed_s", 1e-3, 1.0)
    rows = Iterations(decoding, [fixed], [ROW, replace(ROW, ratio=3.0)])
    low, high = (np.exp(rows.off({fixed.place: value})) for value in (0.0, 1e-3))
    assert low[0] == pytest.approx(2 * low[1], rel=1e-12)
    (group,) = rows.groups
    scenario = with_calibration(group.scenario, group.constants.calibration({**decoding, fixed.place: 0.0}))
    assert (high - low)[0] * 1.5 * float(scenario.target_pass_s(8.0, 512.0)) == pytest.approx(1e-3, rel=1e-9)


def test_every_row_is_read() -> None:
    """By the clock a ratio is a quotient of times, else of tokens per iteration and the speedup."""
    rows = {row.name: row for row in iterations()}
    assert rows["gptoss-vllm-tp1-01"].ratio == pytest.approx(5.5397 / 4.3181)
    assert "gptoss-vllm-tp1-18" not in rows  # steps with prefill in them
    assert next(row for row in rows.values() if row.batch != row.step_batch).batch % 1


def test_a_fit_from_the_constants_that_ship_ends_there(decoding: dict[str, float]) -> None:
    """Of all rows, with the standard errors that ship, and without the rows of each engine."""
    record, places, rows = recorded(), engines().places(), Iterations(decoding)
    whole, slopes = rows.fit(record["iteration"], rounds=1)
    assert whole.values == pytest.approx(record["iteration"], rel=1e-3)
    known = [places[p.place].stderr / places[p.place].value for p in rows.parameters]
    assert np.sqrt(np.diag(whole.covariance)) == pytest.approx(known, rel=2e-3)
    fold, of_engines = RATIO_FOLDS["transferred"], record["ratio_folds"]["transferred"]
    left = refits(rows, fold.key, whole.values, slopes)
    assert left == {name: pytest.approx(of, rel=1e-3) for name, of in of_engines.items()}
