"""The constants of engines on racks, the question about a row and the width of intervals, by hand."""

import math
from dataclasses import replace

import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.validate.studies.rack_errors import RackError
from perfmodel.validate.studies.rack_fit import RackConstants, fit
from perfmodel.validate.studies.rack_rows import row_of
from perfmodel.validate.studies.racks import width

FOLD = RackConstants(waiting=1.4, overlap={"sglang": 0.3})


@pytest.mark.parametrize(
    ("asked", "engine", "overlap"),
    [("two-batch", "sglang", 0.3), ("two-batch", "vllm", 0.5), ("none", "sglang", 0.0)],
    ids=["fitted", "usual of an engine without rows", "a run without overlap"],
)
def test_a_fold_has_its_own_waiting_and_the_overlap_of_the_engine(
    asked: str, engine: str, overlap: float
) -> None:
    wide = Query("deepseek-v3", "h200", 256, 4096, gamma=0, nodes="2x8", ep=16, dp=16, engine="sglang")
    fabric = FOLD.of_engine(engine).applied_to(resolve(replace(wide, overlap=asked))).machine.fabric
    assert fabric is not None
    assert fabric.waiting == 1.4
    assert fabric.overlap == overlap


def test_one_box_has_no_constants_of_racks() -> None:
    boxed = resolve(Query("deepseek-v3", "h200", 8, 4096, gamma=0, tp=8, engine="sglang"))
    assert FOLD.of_engine("sglang").applied_to(boxed) == boxed


def test_a_constant_one_spread_away_costs_as_much_as_a_source_with_the_usual_error_of_a_step() -> None:
    """`waiting` is expected at 1.25 with a spread of 0.3 in its logarithm, `overlap` at 0.5 with 0.3."""
    assert RackConstants(1.25, {"vllm": 0.5}).penalty == 0.0
    assert RackConstants(1.25 * math.exp(0.3), {"vllm": 0.5}).penalty == pytest.approx(0.2**2)
    assert RackConstants(1.25, {"vllm": 0.5, "sglang": 0.2}).penalty == pytest.approx(0.2**2)


def test_a_fit_without_steps_gives_the_expected_constants() -> None:
    assert fit([]) == RackConstants(1.25, {})


def test_a_row_with_a_draft_asks_for_mtp_at_its_measured_tokens_per_iteration() -> None:
    drafted = row_of("lmsys-mtp-03").question()
    assert (drafted["draft"], drafted["gamma"], drafted["tokens_per_iteration"]) == ("mtp", 2, 2.18)
    plain = row_of("lmsys-mtp-01").question()
    assert plain["gamma"] == 0
    assert not {"draft", "tokens_per_iteration", "moe_imbalance"} & set(plain)


def error(source: str, log_error: float, beyond_node: bool = True) -> RackError:
    return RackError("row", source, "step", 1.0, math.exp(log_error), beyond_node=beyond_node)


def test_a_source_weighs_the_same_in_the_width_however_many_rows_it_has() -> None:
    """Two sources of one row and one of four: nine tenths need the two and three of the four. A row within
    one node does not count.
    """
    four = [error("many", tenth / 10) for tenth in (2, 3, 4, 5)]
    errors = [error("a", 0.01), error("b", -0.02), *four, error("c", 0.9, beyond_node=False)]
    assert width(errors, "step") == pytest.approx(0.4)
    assert width(errors, "step", without="many") == pytest.approx(0.02)
    with pytest.raises(ValueError, match="speedup: no row"):
        width(errors, "speedup")
