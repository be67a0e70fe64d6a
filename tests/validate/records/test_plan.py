"""Plans: what ships is sound, what is not is refused in one line, and a dry run says what a run would
need.
"""

import re
from typing import Any

import pytest

from perfmodel.validate.harness.estimate import estimate, fitting
from perfmodel.validate.records import RESULTS, Plan, latest, load_plan, plan_names, records, spec_of
from perfmodel.validate.records.plan_points import GridBlock, PlanPoint
from tests.refusals import refused
from tests.validate.tiny_plan import BLOCK, TINY, planned, write_plan


@pytest.mark.parametrize("name", plan_names())
def test_a_plan_is_named_by_its_file_and_measures_enough(name) -> None:
    plan = load_plan(name)
    assert plan.name == name
    assert plan.protocol.samples >= 7
    assert set(plan.protocol.modes) == {"end_to_end", "phases"}
    keys = [point.name for point in plan.points()]
    assert len(keys) == len(set(keys))
    for point in plan.points():
        verified = (plan.protocol.iterations + 4) * (point.gamma + 1)
        longest = point.context + verified
        assert longest < spec_of(point.target).max_position_embeddings


def test_a_plan_ships_as_it_was_run_with_all_defaults() -> None:
    record = latest(records(RESULTS, "cpu-1"), "measure")
    ran = record.data.plan.as_mapping()
    wide = load_plan("gpu-8b-fp8")
    assert wide.precisions().weights.name == "fp8"
    assert wide.replace(device="cpu").precisions().weights.name == "fp8-wo"
    stated = {name: value for name, value in ran.items() if name != "shapes"}
    assert load_plan("cpu-full").as_mapping() == stated


ONE_GPU = ("gpu-8b", "gpu-8b-long", "gpu-small-draft", "gpu-7b-mha", "gpu-8b-fp8")


def cell(point: PlanPoint) -> tuple[str, int, int]:
    return point.target, point.context, point.batch


@pytest.mark.parametrize("device", ["h200-sxm-141gb", "h100-sxm-80gb"])
@pytest.mark.parametrize("name", ONE_GPU)
def test_single_gpu_plans_fit_their_device_and_six_minutes(name, device) -> None:
    """What does not fit is left out whole batches and contexts at a time, and most is left."""
    plan = load_plan(name).replace(hardware=device)
    by_point = {one.point: one for one in estimate(plan)}
    left = fitting(plan).points()
    assert all(by_point[point].fits for point in left)
    assert sum(by_point[point].seconds for point in left) < 6 * 60
    least = 1 if device.startswith("h200") else 0.7
    assert len(left) >= least * len(by_point)
    left_cells = {cell(point) for point in left}
    gone = [one for one in by_point.values() if one.point not in left]
    assert left_cells.isdisjoint(cell(one.point) for one in gone)
    too_long = {one.point.context for one in gone if not one.fits}
    assert {one.point.context for one in gone} <= too_long


def test_a_plan_of_which_nothing_fits_is_refused(tmp_path) -> None:
    too_large = {**BLOCK, "batch": [4096], "context": [1 << 20]}
    plan = planned(tmp_path, grid=[too_large])
    refused("must have a point that fits h100", fitting, plan)
    plan = planned(tmp_path, grid=[BLOCK, too_large])
    assert [point.batch for point in fitting(plan).points()] == [1, 2]
    assert fitting(fitting(plan)).digest == fitting(plan).digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": {"samples": 6}}, "protocol.samples"),
        ({"protocol": {"modes": ["phases", "phases"]}}, "must name each mode once"),
        ({"device": "tpu"}, "device"),
        ({"schema_version": 2}, "schema_version"),
        ({"precision": {"weights": "bf16", "kv": "fp32"}}, "kv must equal weights"),
        ({"precision": {"weights": "fp8", "kv": "fp16"}}, "kv must equal weights (bf16 if"),
        ({"grid": [{**BLOCK, "draft_kv": ["snapkv"]}]}, "snapkv needs budget"),
        ({"grid": TINY["grid"] * 2}, "given twice"),
        ({"grid": [{**BLOCK, "target": "lama"}]}, "grid: no model named 'lama'"),
    ],
)
def test_a_bad_plan_is_one_line_with_the_key(tmp_path, changes, words) -> None:
    refused(re.escape(words), load_plan, str(write_plan(tmp_path, **changes)))


def test_the_digest_sees_every_change(tmp_path) -> None:
    one = planned(tmp_path)
    assert one.digest == planned(tmp_path).digest
    assert one.digest != planned(tmp_path, protocol={"iterations": 2}).digest
    resolved = {name: value for name, value in one.resolved().items() if name != "shapes"}
    assert Plan.of_mapping(resolved).digest == one.digest


def block(**changes: Any) -> GridBlock:
    return GridBlock(**{**BLOCK, **changes})


CHAIN = {"gamma": None, "alpha": None, "rates": (0.6, 0.2)}
START = "tiny/self/streamingllm:16/b1/s64"


@pytest.mark.parametrize(
    ("changes", "count", "queries", "name"),
    [
        ({}, 2, (1, 3), f"{START}/g2/a0.8"),
        # a root, two children, one each
        (CHAIN | {"tree": ("2x1",)}, 2, (1, 2, 5), f"{START}/g2/t2x1/r0.6,0.2"),
        # two children, or one of each level
        (
            CHAIN | {"gamma": (1, 2), "tree": ("sequoia:3",)},
            4,
            (1, 3),
            f"{START}/g1/tsequoia:3/r0.6,0.2",
        ),
    ],
)
def test_points_of_chains_and_trees_by_hand(changes, count, queries, name) -> None:
    """How many points, tokens of a sequence by pass, and the name of the first point."""
    grid = block(**changes)
    points = list(grid.points())
    assert len(points) == count
    assert grid.count == count
    assert points[0].queries == queries
    assert points[0].name == name


def test_a_spread_makes_a_batch_of_three_lengths() -> None:
    (first, *_) = block(spread=0.5, batch=(3,), context=(64,)).points()
    assert first.lengths == (32, 64, 96)


def test_a_plan_keeps_whole_batches_and_contexts(tmp_path) -> None:
    grid = {**BLOCK, "context": [64, 128, 256], "gamma": [1, 2]}
    plan = planned(tmp_path, grid=[grid])
    assert plan.restricted_to(lambda p: True) is plan
    left = plan.restricted_to(lambda p: (p.context, p.batch, p.gamma) != (64, 2, 1))
    places = [(point.context, point.batch) for point in left.points()]
    assert places[::2] == [(64, 1), (128, 1), (128, 2), (256, 1), (256, 2)]
    assert plan.restricted_to(lambda p: p.gamma == 1) is None
    modes = [mode for _, mode in left.runs()]
    assert modes[:3] == ["end_to_end", "phases", "end_to_end"]


def test_a_plan_of_more_than_ten_thousand_points_is_refused(tmp_path) -> None:
    grid = [{**BLOCK, "batch": list(range(1, 74)), "context": list(range(64, 201))}]
    says = r"grid: must be at most 10000 points, given 10001"
    refused(says, load_plan, str(write_plan(tmp_path, grid=grid)))
