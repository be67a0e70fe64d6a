"""Plans of trees: one run end to end, what its record holds, predictions that are the engine's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.specs import load_calibration
from perfmodel.speculation import tree_cost, with_calibration
from perfmodel.speculation.tree import Tree, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.fit.counted_points import PointSet
from perfmodel.validate.harness.estimate import check, estimate, scenario_of
from perfmodel.validate.records import SAMPLES, Plan, Record, points
from tests.refusals import refused
from tests.validate.tiny_plan import BLOCK, measured, planned

CHAIN = {key: value for key, value in BLOCK.items() if key not in ("gamma", "alpha")}
TREE = {**CHAIN, "tree": ["2x2x1"], "rates": [0.6, 0.2], "batch": [2]}
SEQUOIA = {**TREE, "tree": ["sequoia:6"], "gamma": [3]}
SMALL = {**TREE, "draft": "tiny", "draft_kv": ["full"]}
GRID = [TREE, SEQUOIA, SMALL, BLOCK]


def plan_of(folder: Path, *blocks: dict[str, Any], **changes: Any) -> Plan:
    return planned(folder, grid=list(blocks), **changes)


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
        ({**SEQUOIA, "rates": [0.0]}, "tree: must be a tree with an accepted child"),
        ({**SEQUOIA, "tree": ["sequoia:" + "9" * 5000]}, "must be sequoia:NODES with 2 to 1024 nodes"),
        ({**TREE, "draft_kv": ["snapkv"]}, "draft_kv: snapkv needs budget"),
        ({**BLOCK, "alpha": None}, "alpha: must be given with chains"),
    ],
)
def test_a_bad_block_is_one_line(tmp_path, block, words) -> None:
    refused(words, plan_of, tmp_path, block)


def test_a_dry_run_answers_as_tree_does(tmp_path) -> None:
    plan = plan_of(tmp_path, TREE, SMALL)
    tree, small = estimate(plan)
    gained = expected_tokens(branching("2x2x1"), TreeAcceptance.of([0.6, 0.2]))
    expected = 1 + 0.8 + 0.8**2 + 0.8**2 * 0.6
    assert gained == pytest.approx(expected)
    of_the_tree = Tree(branching("2x2x1"), (1, 2, 4, 4), gained)
    speedup = tree_cost.speedup(scenario_of(plan, tree.point), 2.0, 64.0, of_the_tree)
    assert tree.times.speedup == pytest.approx(float(speedup), rel=1e-12)
    assert small.needed_bytes > tree.needed_bytes, "a draft model has weights and a cache of its own"
    check(plan_of(tmp_path, {**TREE, "tree": ["256"]}))
    refused("at most 256 children at a node, given 257", check, plan_of(tmp_path, {**TREE, "tree": ["257"]}))


def test_every_row_has_times_and_adds_up(record) -> None:
    """Raw samples of 2 iterations, or of each iteration's parts; what was gained is what histograms say."""
    assert [row.status for row in record.rows] == ["ok"] * 10
    for row in record.rows:
        count = 7 if row.mode == "end_to_end" else 14
        counts = {name: len(values) for name, values in row.samples.items()}
        assert counts == dict.fromkeys(SAMPLES[row.mode], count)
        assert (row.histogram is None) == (row.mode == "phases")
        assert row.peak_memory_bytes is None
        if row.histogram is not None:
            assert sum(row.histogram) == sum(row.tokens["ar"]) == 7 * 2 * row.batch
            assert sum(row.tokens["sd"]) == sum((1 + j) * count for j, count in enumerate(row.histogram))
            assert len(row.histogram) == 1 + row.gamma
            assert row.mean_growth_tokens == sum(row.tokens["sd"]) / 7 / row.batch / 2


def test_predictions_are_those_of_tree(record, tmp_path) -> None:
    """Passes summed here from counted parts, there by the engine."""
    calibration = load_calibration("h100-sxm-80gb.magicdec")
    plan = plan_of(tmp_path, TREE, SMALL)
    tree, _, small, *_ = (replace(p, hardware="h100-sxm-80gb") for p in points(record))
    counted = PointSet((tree, small), calibration)
    shape = Tree(branching("2x2x1"), (1, 2, 4, 4), 1.0)
    wanted = []
    for point in plan.points():
        scenario = with_calibration(scenario_of(plan, point), calibration)
        wanted.append(float(tree_cost.iteration_s(scenario, tree.batch, tree.context, shape)))
    assert counted.iteration_s(counted.predict(calibration)) == pytest.approx(wanted, rel=1e-12)
    for group in counted.groups:
        seconds = group.predict(calibration)
        for quantity, parts in group.passes.items():
            assert sum(part.times for part in parts) == pytest.approx(1.0)
            assert 0 < group.lower_s(quantity).item() < seconds[quantity].item()
