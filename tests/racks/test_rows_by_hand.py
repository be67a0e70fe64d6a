"""What a published row on a rack asks, and the constants of a fold, by hand."""

from dataclasses import replace

import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.validate.studies.rack_rows import FoldConstants

FOLD = FoldConstants(waiting=1.4, overlap={"sglang": 0.3})


@pytest.mark.parametrize(
    ("asked", "engine", "overlap"),
    [("two-batch", "sglang", 0.3), ("two-batch", "vllm", 0.5), ("none", "sglang", 0.0)],
    ids=["fitted", "usual of an engine without rows", "a run without overlap"],
)
def test_a_fold_has_its_own_waiting_and_the_overlap_of_the_engine(
    asked: str, engine: str, overlap: float
) -> None:
    wide = Query("deepseek-v3", "h200", 256, 4096, gamma=0, nodes="2x8", ep=16, dp=16, engine="sglang")
    fabric = FOLD.of(resolve(replace(wide, overlap=asked)), engine).machine.fabric
    assert fabric is not None
    assert fabric.waiting == 1.4
    assert fabric.overlap == overlap


def test_one_box_has_no_constants_of_racks() -> None:
    boxed = resolve(Query("deepseek-v3", "h200", 8, 4096, gamma=0, tp=8, engine="sglang"))
    assert FOLD.of(boxed, "sglang") == boxed
