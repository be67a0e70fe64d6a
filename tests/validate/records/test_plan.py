"""Plans: what ships is sound, what is not is refused in one line, and a dry run says what a run would need."""

from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.validate.harness.estimate import estimate, fitting
from perfmodel.validate.records.plan import Plan, load_plan, plan_names, spec_of
from tests.validate.tiny_plan import BLOCK, TINY, write


@pytest.mark.parametrize("name", plan_names())
def test_a_plan_is_named_by_its_file_and_measures_enough(name: str) -> None:
    plan = load_plan(name)
    assert plan.name == name
    assert plan.protocol.samples >= 7
    assert set(plan.protocol.modes) == {"end_to_end", "phases"}
    keys = [point.key for point in plan.points()]
    assert len(keys) == len(set(keys))
    for point in plan.points():
        longest = point.context + (plan.protocol.iterations + 4) * (point.gamma + 1)
        assert longest < spec_of(point.target).max_position_embeddings


ONE_GPU = ("gpu-8b", "gpu-8b-long", "gpu-small-draft", "gpu-7b-mha")


@pytest.mark.parametrize("device", ["h200-sxm-141gb", "h100-sxm-80gb"])
@pytest.mark.parametrize("name", ONE_GPU)
def test_single_gpu_plans_fit_their_device_and_six_minutes(name: str, device: str) -> None:
    """What does not fit is left out whole batches and contexts at a time, and most is left."""
    plan = load_plan(name).model_copy(update={"hardware": device})
    found = {e.point: e for e in estimate(plan)}
    left = fitting(plan).points()
    assert all(found[point].fits for point in left)
    assert sum(found[point].seconds for point in left) < 6 * 60
    assert len(left) >= (1 if device.startswith("h200") else 0.7) * len(found)
    cells = {(p.target, p.context, p.batch) for p in plan.points()} - {(p.target, p.context, p.batch) for p in left}
    assert not any((p.target, p.context, p.batch) in cells for p in left)
    gone = [e for e in found.values() if e.point not in left]
    assert all(any(not o.fits for o in gone if o.point.context == e.point.context) for e in gone)


def test_a_plan_of_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    plan = load_plan(str(write(tmp_path, grid=[{**BLOCK, "batch": [4096], "context": [1 << 20]}])))
    with pytest.raises(InputError, match="must have a point that fits h100"):
        fitting(plan)
    plan = load_plan(str(write(tmp_path, grid=[BLOCK, {**BLOCK, "batch": [4096], "context": [1 << 20]}])))
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
        ({"grid": [{**BLOCK, "draft_kv": ["snapkv"]}]}, "snapkv needs budget"),
        ({"grid": TINY["grid"] * 2}, "given twice"),
        ({"grid": [{**BLOCK, "target": "lama"}]}, "grid: no model named 'lama'"),
    ],
)
def test_a_bad_plan_is_one_line_with_the_key(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as error:
        load_plan(str(write(tmp_path, **changes)))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_digest_sees_every_change(tmp_path: Path) -> None:
    one = load_plan(str(write(tmp_path)))
    assert one.digest == load_plan(str(write(tmp_path))).digest
    two = load_plan(str(write(tmp_path, protocol={"iterations": 2})))
    assert one.digest != two.digest
    assert Plan.model_validate({k: v for k, v in one.resolved().items() if k != "shapes"}).digest == one.digest


def test_dry_run_prints_points_memory_and_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "measure", str(write(tmp_path)), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "tiny/self/streamingllm:16/b2/s64/g2/a0.8" in shown
    assert "2 points, 4 rows" in shown
    assert "GB a device" in shown


def test_kernels_are_copied_up_to_2_gib_where_a_plan_says_nothing() -> None:
    from perfmodel.validate.records.plan import Micro

    assert Micro().max_bytes == 2 * 1024**3
