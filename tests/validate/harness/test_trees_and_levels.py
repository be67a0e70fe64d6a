"""Plans of trees and of two levels: one run end to end, what its record holds, predictions that are the
engine's.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.calibrations.calibration import load_calibration
from perfmodel.speculation import tree_cost
from perfmodel.speculation.tree import Tree, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_shape import branching
from perfmodel.speculation.two_levels import predict_two_levels
from perfmodel.speculation.uncertainty import with_calibration
from perfmodel.validate.fit.counted_points import PointSet
from perfmodel.validate.harness.estimate import estimate, scenarios_of
from perfmodel.validate.records.plan import Plan, load_plan
from perfmodel.validate.records.schema import SAMPLES
from perfmodel.validate.records.store import Record, read_record
from perfmodel.validate.records.summary import points
from tests.validate.tiny import BLOCK, measured, refused, write

CHAIN = {key: value for key, value in BLOCK.items() if key not in ("gamma", "alpha")}
TREE = {**CHAIN, "tree": ["2x2x1"], "rates": [0.6, 0.2], "batch": [2]}
SEQUOIA = {**TREE, "tree": ["sequoia:6"], "gamma": [3]}
LEVELS: dict[str, Any] = {
    **BLOCK,
    "draft": "tiny",
    "draft_kv": ["full"],
    "middle_kv": ["streamingllm:32"],
    "inner_gamma": [2],
    "inner_alpha": 0.7,
    "gamma": [4],
    "batch": [2],
}
GRID = [TREE, SEQUOIA, LEVELS, BLOCK]
TREE_KEY, LEVELS_KEY = (
    "tiny/self/streamingllm:16/b2/s64/g3/t2x2x1/r0.6,0.2",
    "tiny/tiny/streamingllm:32<full/b2/s64/g4/a0.8/i2/a0.7",
)


def plan_of(folder: Path, *blocks: dict[str, Any], **changes: Any) -> Plan:
    return load_plan(str(write(folder, grid=list(blocks), **changes)))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return measured(
        tmp_path_factory.mktemp("trees"), grid=GRID, protocol={"iterations": 2}, hardware="xeon-amx-2core"
    )


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({**TREE, "gamma": [3]}, "grid.0.gamma: must not be given with trees as drawn"),
        ({**TREE, "rates": [0.6, 0.5]}, "tree rates: must be 0 or more and at most 1 in sum"),
        ({**TREE, "tree": ["2y"]}, "tree: must be sequoia:NODES or children by level"),
        ({**TREE, "tree": ["2x2", "sequoia:6"]}, "must be trees as drawn or sequoia trees, not both"),
        ({**SEQUOIA, "rates": [0.0]}, "tree: must be worth drafting"),
        ({**SEQUOIA, "tree": ["sequoia:" + "9" * 5000]}, "must be sequoia:NODES with 2 to 1024 nodes"),
        ({**LEVELS, "inner_gamma": None}, "inner_gamma: must be given with two levels"),
        ({**LEVELS, "draft": "self"}, "middle_kv: must stand over a draft of another model"),
        ({**LEVELS, "middle_kv": ["snapkv"]}, "middle_kv: snapkv needs budget"),
        ({**LEVELS, "context": [1]}, "middle_kv: must stand over a draft of another model"),
        ({**BLOCK, "inner_alpha": 0.5}, "inner_alpha: must not be given with chains"),
        ({**BLOCK, "inner_gamma": [2]}, "inner_gamma: must not be given with chains"),
        ({**BLOCK, "alpha": None}, "alpha: must be given with chains"),
    ],
)
def test_a_bad_block_is_one_line(tmp_path, block, words) -> None:
    refused(words, plan_of, tmp_path, block)


def test_a_dry_run_answers_as_tree_and_hierarchy_do(tmp_path) -> None:
    plan = plan_of(tmp_path, TREE, LEVELS)
    tree, levels = estimate(plan)
    (scenario,) = scenarios_of(plan, tree.point)
    gained = expected_tokens(branching("2x2x1"), TreeAcceptance.of([0.6, 0.2]))
    assert gained == pytest.approx(1 + 0.8 + 0.8**2 + 0.8**2 * 0.6)
    shape = Tree(branching("2x2x1"), (1, 2, 4, 4), gained)
    assert tree.speedup == pytest.approx(float(tree_cost.speedup(scenario, 2.0, 64.0, shape)), rel=1e-12)
    told = predict_two_levels(*scenarios_of(plan, levels.point), 2.0, 64.0, 2, 4)
    assert (levels.iteration_s, levels.speedup) == (float(told.iteration_s), float(told.speedup))
    assert levels.needed_bytes > tree.needed_bytes, "a draft model has weights and a cache of its own"


def test_every_row_has_times_and_adds_up(record) -> None:
    """Raw samples of 2 iterations, or of each iteration's parts; what was gained is what histograms say."""
    assert [row.status for row in record.rows] == ["ok"] * 10
    for row in record.rows:
        levels, count = row.middle_kv is not None, 7 if row.mode == "end_to_end" else 14
        assert {name: len(values) for name, values in row.samples.items()} == dict.fromkeys(
            SAMPLES[row.mode], count
        )
        timed = len(row.samples["sd_s" if row.mode == "end_to_end" else "sd_draft_s"])
        assert len(row.rounds) == len(row.verified) == (timed if levels else 0)
        each = 2 if row.mode == "end_to_end" else 1  # iterations
        assert all(2 * each <= count <= 4 * each for count in row.rounds), (
            "4 tokens take 2 to 4 rounds of up to 3"
        )
        assert all(5 * each <= count <= 7 * each for count in row.verified)
        assert (row.histogram is None) == (row.mode == "phases")
        if row.histogram is not None:
            assert sum(row.histogram) == sum(row.tokens["ar"]) == 7 * 2 * row.batch
            assert sum(row.tokens["sd"]) == sum((1 + j) * count for j, count in enumerate(row.histogram))
            assert len(row.histogram) == (7 if levels else 1 + row.gamma)
            assert row.mean_growth_tokens == sum(row.tokens["sd"]) / 7 / row.batch / 2


def test_predictions_are_those_of_tree_and_hierarchy(record, tmp_path) -> None:
    """Passes summed here from counted parts, there by the engine; two levels at what is certain: all is
    accepted.
    """
    calibration = load_calibration("h100-sxm-80gb.magicdec")
    plan = plan_of(tmp_path, TREE, {**LEVELS, "inner_alpha": 1.0})
    tree, _, levels, *_ = (replace(p, hardware="h100-sxm-80gb") for p in points(record))
    levels = replace(levels, rounds=2.0, verified=7.0)
    counted = PointSet((tree, levels), calibration)
    times = counted.predict(calibration)
    on_tree, *both = (
        with_calibration(scenario, calibration)
        for point in plan.points()
        for scenario in scenarios_of(plan, point)
    )
    shape = Tree(branching("2x2x1"), (1, 2, 4, 4), 1.0)
    told = predict_two_levels(*both, levels.batch, levels.context, 2, 4)
    wanted = [float(tree_cost.iteration_s(on_tree, tree.batch, tree.context, shape)), float(told.iteration_s)]
    assert counted.iteration_s(times) == pytest.approx(wanted, rel=1e-12)
    assert times["draft_s"][1] == pytest.approx(float(told.draft_s) / 2, rel=1e-12)
    assert times["verify_s"][1] == pytest.approx(float(told.verify_s), rel=1e-12)
    for group in counted.groups:
        for quantity, seconds in group.predict(calibration).items():
            if quantity in group.passes:
                time = group.pass_time(quantity)
                assert np.asarray(time.predicted_s) == pytest.approx(seconds, rel=1e-12)
                assert sum(np.asarray(term).item() for term in time.terms_s.values()) == pytest.approx(
                    seconds, rel=1e-9
                )


@pytest.mark.parametrize(
    ("key", "changes", "words"),
    [
        (TREE_KEY, {"parents": [-1, 0, 0]}, "gamma: must be the 1 levels below"),
        (TREE_KEY, {"parents": [-1, 5]}, "tree: must be the parents"),
        (TREE_KEY, {"parents": None}, "alpha: must be given where there is no tree"),
        (LEVELS_KEY, {"inner_gamma": None}, "middle_kv, inner_gamma: must be given together"),
        (LEVELS_KEY, {"rounds": [1]}, "rounds: must be a count of each of the"),
        (LEVELS_KEY, {"verified": [0] * 14}, "verified: must be a count of each of the 14 samples"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(record, tmp_path, key, changes, words) -> None:
    whole = json.loads(record.path.read_text(encoding="utf-8"))
    (row,) = (row for row in whole["points"] if row["key"] == f"{key}/phases")
    row |= changes
    path = tmp_path / record.path.name
    path.write_text(json.dumps(whole), encoding="utf-8")
    refused(words, read_record, path)
