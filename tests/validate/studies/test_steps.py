"""Rows of engine steps: which constant is set from where, by device, engine and version, and how rows are
grouped.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.validate.studies.parameters import Parameter, drift
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.steps import DecodeRows, FittedConstants, batch_of, load_kernels, version_of

SCALE = Parameter("vllm.small_kernel_s", 0.6, 0.3, times=True)
FIXED = Parameter("all.state_layer_s", 1e-5, 0.5)
POPULAR = Parameter("all.expert_popularity", 1.0, 0.4)
VALUES = {"vllm.small_kernel_s": 0.5, "all.expert_popularity": 0.7, "all.state_layer_s": 3e-5}


def rows_with(**fields: Any) -> list[DecodeRow]:
    return [
        row for row in engine_decode() if all(getattr(row, name) == value for name, value in fields.items())
    ]


def test_a_value_multiplies_the_kernels_or_stands_alone_and_the_narrower_place_wins() -> None:
    kernels = load_kernels("h100-sxm-80gb.vllm")
    narrow = Parameter("vllm.hopper.state_layer_s", 1e-5, 0.1)
    others = (Parameter("trtllm.quantise_s", 1.0, 0.1), Parameter("blackwell.gemm_factor_fp8", 1.0, 0.1))
    constants = FittedConstants.of("h100-sxm-80gb", "vllm", "0.22", [*others, narrow, SCALE, FIXED])
    assert (constants.chosen["small_kernel_s"], constants.chosen["state_layer_s"]) == (SCALE, narrow)
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
    drifts = [drift("vllm", "0.18", "state_layer_s", 1.0), drift("vllm", "0.22", "state_layer_s", 1.0)]
    other = drift("trtllm", "0.1", "state_layer_s", 1.0)
    constants = FittedConstants.of("h100-sxm-80gb", "vllm", version, [FIXED, *drifts, other])
    values = VALUES | {"vllm@0.18.state_layer_s": 2.0, "vllm@0.22.state_layer_s": 3.0}
    assert constants.calibration(values).state_layer_s.value == pytest.approx(value)


def test_versions_and_batches_of_rows() -> None:
    """A run whose source states no version is of its month's; a running batch stands before the one asked
    for.
    """
    (unstated,) = {
        version_of(r) for r in rows_with(engine="trtllm", engine_version="not stated", date="2025-11-02")
    }
    assert unstated == "1.1.0rc2"
    assert version_of(rows_with(engine_version="gpt-oss-dev")[0]) == "1.2.0rc0"
    row = next(r for r in engine_decode() if r.running and 1 < r.running < r.batch)
    assert batch_of(row) == row.running
    assert batch_of(engine_decode()[0]) == engine_decode()[0].batch


def test_rows_are_predicted_each_in_its_place() -> None:
    """Rows of two models mixed; each as if it were alone. Halving what was measured doubles the error."""
    dense, routed = (rows_with(engine="vllm", model=name)[:2] for name in ("llama-3.3-70b", "gpt-oss-120b"))
    mixed = [dense[0], routed[0], dense[1], routed[1]]
    for row, value in zip(mixed, DecodeRows(mixed, [SCALE, POPULAR, FIXED]).predict(VALUES), strict=True):
        alone = DecodeRows([row], [SCALE, POPULAR, FIXED])
        assert alone.predict(VALUES)[0] == pytest.approx(value, rel=1e-12)
        assert alone.off(VALUES)[0] == pytest.approx(value - np.log(row.step_s), rel=1e-12)
    parts = DecodeRows(mixed, []).parts(np.ones(4, dtype=bool))  # two kinds of a group of two rows
    assert parts.matrix.sum(axis=1) == pytest.approx([0.0, 0.0, 1 / (0.02 * 2.5**0.5), 0.0] * 2)


def test_a_group_is_counted_anew_where_experts_are_chosen_otherwise() -> None:
    rows = rows_with(engine="vllm", model="gpt-oss-120b")[:3]
    same, other = DecodeRows(rows, [POPULAR]), {**VALUES, "all.expert_popularity": 5.0}
    first = same.predict(VALUES)
    for values in (other, VALUES):
        np.testing.assert_array_equal(same.predict(values), DecodeRows(rows, [POPULAR]).predict(values))
    assert np.all(same.predict(other) != first)


def test_kernels_may_be_those_of_another_device() -> None:
    row = rows_with(engine="vllm", model="llama-3.3-70b", hardware="h200-sxm-141gb")[0]
    own, other = (DecodeRows([row], [], kernels) for kernels in ({}, {row.hardware: "b200-sxm-180gb"}))
    assert own.predict({})[0] > other.predict({})[0]


def test_a_ragged_batch_waits_for_its_longest_request() -> None:
    row = rows_with(engine="vllm", model="llama-3.3-70b", hardware="h200-sxm-141gb")[0]
    slow = Parameter("all.multiprocessor_bandwidth", 0.01, 0.1)
    ragged, even = (DecodeRows([one], [slow]) for one in (row, replace(row, context_std_tokens=0.0)))
    assert ragged.predict({slow.place: 0.01})[0] > even.predict({slow.place: 0.01})[0]
