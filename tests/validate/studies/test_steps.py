"""Rows of engines: which constant of a step is set from where, by device, engine and version, how rows are
grouped, what a ratio of iterations is made of, and the published law of step times.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.costs import PassShape, forward
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import Workload, predict, with_calibration
from perfmodel.validate.studies.engine_folds import RATIO_FOLDS
from perfmodel.validate.studies.engine_replay import recorded
from perfmodel.validate.studies.engine_versions import dated, version_of
from perfmodel.validate.studies.fitted_constants import FittedConstants, load_kernels
from perfmodel.validate.studies.held_out import refits
from perfmodel.validate.studies.iterations import CLOCKED, Iteration, Iterations, iterations
from perfmodel.validate.studies.parameters import PlacedConstant, drift
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode, step_laws
from perfmodel.validate.studies.steps import DecodeRows, batch_of

SCALE = PlacedConstant("vllm.small_kernel_s", expected=0.6, spread=0.3, times=True)
FIXED = PlacedConstant("all.state_layer_s", expected=1e-5, spread=0.5)
POPULAR = PlacedConstant("all.expert_popularity", expected=1.0, spread=0.4)
VALUES = {"vllm.small_kernel_s": 0.5, "all.expert_popularity": 0.7, "all.state_layer_s": 3e-5}


def rows_with(**fields: Any) -> list[DecodeRow]:
    def matches(row: DecodeRow) -> bool:
        return all(getattr(row, name) == value for name, value in fields.items())

    return [row for row in engine_decode() if matches(row)]


def test_a_value_multiplies_the_kernels_or_stands_alone_and_the_narrower_place_wins() -> None:
    kernels = load_kernels("h100-sxm-80gb.vllm")
    narrow = PlacedConstant("vllm.hopper.state_layer_s", expected=1e-5, spread=0.1)
    others = (
        PlacedConstant("trtllm.quantise_s", expected=1.0, spread=0.1),
        PlacedConstant("blackwell.gemm_factor_fp8", expected=1.0, spread=0.1),
    )
    constants = FittedConstants.of("h100-sxm-80gb", "vllm", "0.22", [*others, narrow, SCALE, FIXED])
    assert constants.chosen["small_kernel_s"] == SCALE
    assert constants.chosen["state_layer_s"] == narrow
    assert "quantise_s" not in constants.chosen
    calibration = constants.calibration(VALUES | {narrow.place: 7e-5})
    assert calibration.small_kernel_s.value == kernels.small_kernel_s.value * 0.5 > 0
    assert calibration.state_layer_s.value == 7e-5
    assert calibration.gemm_fixed_s == kernels.gemm_fixed_s
    assert kernels.graph_tokens == (8, 512)


@pytest.mark.parametrize(
    ("version", "value"),
    [("0.16.0", 3e-5), ("0.17.1rc2", 3e-5), ("0.18.0", 6e-5), ("0.20.1", 6e-5), ("0.22", 9e-5)],
)
def test_the_newest_factor_that_is_not_newer_than_the_version_counts(version: str, value: float) -> None:
    older = drift("vllm", "0.18", "state_layer_s", spread=1.0)
    newer = drift("vllm", "0.22", "state_layer_s", spread=1.0)
    other = drift("trtllm", "0.1", "state_layer_s", spread=1.0)
    constants = FittedConstants.of("h100-sxm-80gb", "vllm", version, [FIXED, older, newer, other])
    values = VALUES | {"vllm@0.18.state_layer_s": 2.0, "vllm@0.22.state_layer_s": 3.0}
    assert constants.calibration(values).state_layer_s.value == pytest.approx(value)


def test_versions_and_batches_of_rows() -> None:
    """A run whose source states no version is of its month's; a running batch stands before the one asked
    for.
    """
    unstated = rows_with(engine="trtllm", engine_version="not stated", date="2025-11-02")
    assert {version_of(row) for row in unstated} == {"1.1.0rc2"}
    assert version_of(rows_with(engine_version="gpt-oss-dev")[0]) == "1.2.0rc0"
    assert [dated("trtllm", day) for day in ("2025-10-28", "2025-10-29")] == ["", "1.1.0rc2"]
    fewer = [row for row in engine_decode() if row.running and 1 < row.running < row.batch]
    row = fewer[0]
    assert batch_of(row) == row.running
    assert batch_of(engine_decode()[0]) == engine_decode()[0].batch


def test_rows_are_predicted_each_in_its_place() -> None:
    """Rows of two models mixed; each as if it were alone. Halving what was measured doubles the error."""
    dense = rows_with(engine="vllm", model="llama-3.3-70b")
    routed = rows_with(engine="vllm", model="gpt-oss-120b")
    mixed = [dense[0], routed[0], dense[1], routed[1]]
    parameters = [SCALE, POPULAR, FIXED]
    together = DecodeRows(mixed, parameters).predict(VALUES)
    for row, value in zip(mixed, together, strict=True):
        alone = DecodeRows([row], parameters)
        assert alone.predict(VALUES)[0] == pytest.approx(value, rel=1e-12)
        off = value - np.log(row.step_s)
        assert alone.off(VALUES)[0] == pytest.approx(off, rel=1e-12)
    parts = DecodeRows(mixed, []).parts(np.ones(4, dtype=bool))  # two kinds of a group of two rows
    fixed = 1 / (0.02 * 2.5**0.5)
    expected = [0.0, 0.0, fixed, 0.0] * 2
    assert parts.matrix.sum(axis=1) == pytest.approx(expected)


def test_two_sources_of_one_model_have_no_error_in_common() -> None:
    """DeepSeek-R1 in TensorRT-LLM on B200: no part of an error is of rows of both sources."""
    of_model = {"engine": "trtllm", "model": "deepseek-r1", "hardware": "b200-sxm-180gb"}
    rows = rows_with(**of_model)
    is_thread = np.array([row.source_id == "NVIDIA/TensorRT-LLM#5929" for row in rows])
    assert 0 < is_thread.sum() < len(rows)
    matrix = DecodeRows(rows, []).parts(np.ones(len(rows), dtype=bool)).matrix
    of_thread = matrix[:, is_thread].any(axis=1)
    of_others = matrix[:, ~is_thread].any(axis=1)
    assert not np.any(of_thread & of_others)


def test_a_group_is_counted_anew_where_experts_are_chosen_otherwise() -> None:
    rows = rows_with(engine="vllm", model="gpt-oss-120b")[:3]
    same = DecodeRows(rows, [POPULAR])
    other = {**VALUES, "all.expert_popularity": 5.0}
    first = same.predict(VALUES)
    for values in (other, VALUES):
        anew = DecodeRows(rows, [POPULAR])
        np.testing.assert_array_equal(same.predict(values), anew.predict(values))
    assert np.all(same.predict(other) != first)


def test_kernels_may_be_those_of_another_device() -> None:
    row = rows_with(engine="vllm", model="llama-3.3-70b", hardware="h200-sxm-141gb")[0]
    own = DecodeRows([row], [], {})
    other = DecodeRows([row], [], {row.hardware: "b200-sxm-180gb"})
    assert own.predict({})[0] > other.predict({})[0]


def test_a_ragged_batch_waits_for_its_longest_request() -> None:
    row = rows_with(engine="vllm", model="llama-3.3-70b", hardware="h200-sxm-141gb")[0]
    slow = PlacedConstant("all.multiprocessor_bandwidth", expected=0.01, spread=0.1)
    even = replace(row, context_std_tokens=0.0)
    ragged_s = DecodeRows([row], [slow]).predict({slow.place: 0.01})
    even_s = DecodeRows([even], [slow]).predict({slow.place: 0.01})
    assert ragged_s[0] > even_s[0]


# Ratios of iterations.

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
    predicted = 1.5 * float(np.exp(rows.off({}))[0])
    return predicted, with_calibration(group.scenario, calibration)


def test_a_chain_drafts_one_token_a_pass_and_a_tree_a_level(decoding: dict[str, float]) -> None:
    """Three steps: three passes over one token, or one over the root and two over four tokens."""
    chain, s = ratio(decoding)
    tree, _ = ratio(decoding, width=4, verified=8)
    one = float(s.draft_pass_s(8.0, 512.0, 1.0))
    four = float(s.draft_pass_s(8.0, 512.0, 4.0))
    target = float(s.target_pass_s(8.0, 512.0, 1.0))
    verify = float(s.target_pass_s(8.0, 512.0, 4.0))
    wide = float(s.target_pass_s(8.0, 512.0, 8.0))
    beside = float(s.overhead_s(8.0, 512.0))
    expected = (3 * one + verify + beside) / target
    assert chain == pytest.approx(expected, rel=1e-9)
    expected = (one + 2 * four + wide + beside) / target
    assert tree == pytest.approx(expected, rel=1e-9)
    fewer, _ = ratio(decoding, step_batch=4.0)
    expected = chain * target / float(s.target_pass_s(4.0, 512.0))
    assert fewer == pytest.approx(expected, rel=1e-9)


def test_constants_of_an_iteration_are_put_onto_those_of_steps(decoding: dict[str, float]) -> None:
    fixed = PlacedConstant("all.iteration_fixed_s", expected=1e-3, spread=1.0)
    rows = Iterations(decoding, [fixed], [ROW, replace(ROW, ratio=3.0)])
    low = np.exp(rows.off({fixed.place: 0.0}))
    high = np.exp(rows.off({fixed.place: 1e-3}))
    assert low[0] == pytest.approx(2 * low[1], rel=1e-12)
    (group,) = rows.groups
    calibration = group.constants.calibration({**decoding, fixed.place: 0.0})
    scenario = with_calibration(group.scenario, calibration)
    plain_s = float(scenario.target_pass_s(8.0, 512.0))
    added_s = (high - low)[0] * 1.5 * plain_s
    assert added_s == pytest.approx(1e-3, rel=1e-9)


def test_every_row_is_read() -> None:
    """By the clock a ratio is a quotient of times, else of tokens per iteration and the speedup."""
    rows = {row.name: row for row in iterations()}
    assert rows["gptoss-vllm-tp1-01"].ratio == pytest.approx(5.5397 / 4.3181)
    assert "gptoss-vllm-tp1-18" not in rows  # steps with prefill in them
    shared = next(row for row in rows.values() if row.batch != row.step_batch)
    assert shared.batch % 1


def test_a_fit_from_the_constants_that_ship_ends_there(decoding: dict[str, float]) -> None:
    """Of all rows, with the standard errors that ship, and without the rows of each engine."""
    record = recorded()
    places = engines().places()
    rows = Iterations(decoding)
    whole, slopes = rows.fit(record["iteration"], rounds=1)
    assert whole.values == pytest.approx(record["iteration"], rel=1e-3)
    own = [places[parameter.place] for parameter in rows.parameters]
    known = [place.stderr / place.value for place in own]
    assert np.sqrt(np.diag(whole.covariance)) == pytest.approx(known, rel=2e-3)
    fold = RATIO_FOLDS["transferred"]
    of_engines = record["ratio_folds"]["transferred"]
    left = refits(rows, fold.key, whole.values, slopes)
    expected = {name: pytest.approx(values, rel=1e-3) for name, values in of_engines.items()}
    assert left == expected


# The published law of step times of vLLM, and a figure of the decisions page.


def test_the_published_law_by_hand() -> None:
    """Batch 1 at 512 tokens: (5.886 + .021 + .020 + 1.207) / (5.886 + .084 + .020 + 2.135 + .0025 + .0012 +
    1.207).
    """
    cached = 0.0201
    drafted = 2.1353 + 0.0025 + 0.0012
    without = 5.8859 + 0.0210 + cached + 1.2068
    with_draft = 5.8859 + 0.0840 + cached + drafted + 1.2068
    (law,) = (row for row in step_laws() if row.batch == 1)
    assert law.speedup == pytest.approx(without / with_draft, rel=1e-4)


@pytest.mark.parametrize(("batch", "percent"), [(64, 0.5), (256, 0.8)])
def test_what_the_decisions_page_says_of_the_first_pass_of_an_eagle_head(batch: int, percent: float) -> None:
    """Counted with all accepted tokens in its layer, the LM head still once."""
    shares = []
    for gpu in ("h100-sxm-80gb", "a100-sxm-80gb"):
        s = resolve(Query("llama-3.1-8b", gpu, 1, 1, draft="eagle", alpha=0.7, engine="magicdec"))
        p = predict(s, Workload.of(batch, 2048, 3), 3)
        seconds = []
        for query in (1.0, float(p.tokens_per_iteration)):
            shape = PassShape(batch, query, 2048.0, head_query=1.0)
            ops = forward(s.draft_shard, shape, s.draft.kv)
            seconds.append(float(s.draft_machine.predicted_s(ops, batch * query)))
        added_s = seconds[1] - seconds[0]
        shares.append(100 * added_s / float(p.iteration_s))
    assert max(shares) == pytest.approx(percent, abs=0.05)
