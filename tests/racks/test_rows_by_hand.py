"""The constants of engines on racks, the question about a row and the width of intervals, by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.validate.studies import rack_pools
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


def test_a_row_that_states_no_layout_asks_for_one_device_without_copies_of_experts() -> None:
    bare = replace(row_of("lmsys-mtp-01"), nodes="", tp=None, ep=None, dp=None, redundant_experts=None)
    asked = bare.question()
    assert (asked["ep"], asked["dp"], asked["redundant_experts"], asked["overlap"]) == (1, 1, 0, "auto")
    assert not {"nodes", "tp"} & set(asked), "these have defaults of whatif"
    stated = row_of("lmsys-h100-05")
    assert stated.question()["redundant_experts"] == stated.redundant_experts == 32
    assert (stated.question()["ep"], stated.question()["dp"]) == (stated.ep, stated.dp)


def test_a_row_predicts_two_pools_if_it_states_them_and_was_served() -> None:
    stated = row_of("ix-dsr1-trt-01")
    assert stated.has_pools
    assert replace(stated, kind="served").has_pools
    assert not replace(stated, kind="offload").has_pools
    for name in ("prefill", "clients", "input_len", "output_len", "tokens_per_s_gpu", "tp"):
        assert not replace(stated, **{name: None}).has_pools, name


def test_a_row_counts_unless_a_reason_leaves_it_out() -> None:
    assert row_of("lmsys-mtp-01").counts
    assert not row_of("ix-dsr1-trt-10").counts, "its draft length is not stated"


def test_a_figure_that_the_source_does_not_state_is_nan() -> None:
    stated = row_of("ix-dsr1-trt-01")
    assert stated.measured_step_ms == stated.step_ms
    assert stated.measured_tokens_per_s_gpu == stated.tokens_per_s_gpu
    unstated = replace(stated, step_ms=None, tokens_per_s_gpu=None)
    assert math.isnan(unstated.measured_step_ms)
    assert math.isnan(unstated.measured_tokens_per_s_gpu)


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


@pytest.mark.parametrize(("of", "predicted"), [("decode GPU", 1000 / 8), ("total GPU", 1000 / 12)])
def test_the_throughput_of_two_pools_is_per_decode_device_unless_the_source_counts_all(
    monkeypatch, of: str, predicted: float
) -> None:
    """Eight decode and four prefill devices, at the draft length of the row."""
    row = replace(row_of("ix-dsr1-trt-01"), throughput_of=of, gamma=1, tokens_per_s_gpu=90.0)
    rows = [SimpleNamespace(gamma=gamma, output_tokens_per_s=rate) for gamma, rate in ((0, 700), (1, 1000))]
    pools = SimpleNamespace(rows=rows, decode_gpus=8, prefill_gpus=4)
    monkeypatch.setattr(rack_pools, "pools_of", lambda question: pools)
    error = rack_pools.throughput_error(row)
    assert (error.measured, error.predicted) == (90.0, pytest.approx(predicted))
    assert error.node_width > 0
    assert not error.beyond_node


def test_the_ratio_of_pools_is_the_decoded_over_the_prompt_tokens_of_a_device(monkeypatch) -> None:
    """A batch of 64 that gains 2 tokens in 50 ms on 8 devices decodes 320 tokens/s on each."""
    prompts = replace(row_of("ix-dsr1-trt-01"), tokens_per_s_gpu=640.0)
    row = replace(prompts, batch=64, tokens_per_iteration=2.0, step_ms=50.0, tp=8)
    monkeypatch.setattr(rack_pools, "row_of", lambda name: prompts)
    monkeypatch.setattr(rack_pools, "decoded_tokens_per_s", lambda row, constants: 300.0)
    monkeypatch.setattr(rack_pools, "prompt_tokens_per_s", lambda row, constants: 500.0)
    error = rack_pools.ratio_error(row, FOLD)
    assert (error.measured, error.predicted) == (pytest.approx(0.5), pytest.approx(0.6))
