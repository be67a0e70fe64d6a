"""Rows of engine steps: which constant is set from where, how rows are grouped, and that nothing is counted twice."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.calibration import Calibration
from perfmodel.specs.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.steps import REMEMBERED, DecodeRows, Group, Setting, decoding, group_of, load_kernels

MANY, SCALE, FIXED = (
    Parameter("hopper.attention_bandwidth_fraction_fp8", 0.8, 0.1, times=True),
    Parameter("vllm.small_kernel_s", 0.6, 0.3, times=True),
    Parameter("all.state_layer_s", 1e-5, 0.5),
)
NARROW = Parameter("vllm.hopper.attention_bandwidth_fraction_fp8", 1.0, 0.1, times=True)
OTHERS = (Parameter("trtllm.quantise_s", 1.0, 0.1), Parameter("blackwell.gemm_factor_fp8", 1.0, 0.1))
VALUES = {"vllm.small_kernel_s": 0.5, "all.expert_popularity": 0.7, "all.state_layer_s": 3e-5}
POPULAR = Parameter("all.expert_popularity", 1.0, 0.4)


def rows_with(**fields: Any) -> list[DecodeRow]:
    return [row for row in engine_decode() if all(getattr(row, name) == value for name, value in fields.items())]


def test_a_value_multiplies_the_kernels_or_stands_alone() -> None:
    """Half of the table's start of a small kernel; a state's layer has no table."""
    kernels = load_kernels("h100-sxm-80gb.vllm")
    found = Setting.of("h100-sxm-80gb", "vllm", [SCALE, FIXED]).calibration(VALUES)
    assert found.small_kernel_s.value == kernels.small_kernel_s.value * 0.5 > 0
    assert found.state_layer_s.value == 3e-5
    assert found.gemm_fixed_s == kernels.gemm_fixed_s
    assert kernels.graph_tokens == (8, 512)


@pytest.mark.parametrize("order", [(MANY, NARROW), (NARROW, MANY)])
def test_the_narrower_place_wins_in_any_order(order: tuple[Parameter, ...]) -> None:
    chosen = Setting.of("h100-sxm-80gb", "vllm", [*OTHERS, *order, FIXED]).chosen
    assert chosen == {"attention_bandwidth_fraction_fp8": NARROW, "state_layer_s": FIXED}


def test_kernels_of_another_device_stand_in() -> None:
    assert Setting.of("mi300x-192gb", "vllm", [], "h200-sxm-141gb").kernels == load_kernels("h200-sxm-141gb.vllm")


def test_rows_are_predicted_each_in_its_place() -> None:
    """Rows of two models mixed; each as if it were alone. Halving what was measured doubles the error."""
    dense, routed = (rows_with(engine="vllm", model=name)[:2] for name in ("llama-3.3-70b", "gpt-oss-120b"))
    mixed = [dense[0], routed[0], dense[1], routed[1]]
    found = DecodeRows(mixed, [SCALE, POPULAR, FIXED]).predict(VALUES)
    for row, value in zip(mixed, found, strict=True):
        alone = DecodeRows([row], [SCALE, POPULAR, FIXED])
        assert alone.predict(VALUES)[0] == pytest.approx(value, rel=1e-12)
        assert alone.off(VALUES)[0] == pytest.approx(value - np.log(row.step_s), rel=1e-12)
    assert len(DecodeRows(mixed, []).groups) == 2
    assert group_of(dense[0]) == ("vllm", "llama-3.3-70b", dense[0].hardware, dense[0].tensor_parallel)


def test_a_group_is_counted_anew_where_experts_are_chosen_otherwise() -> None:
    """The second calibration of one group is what a fresh group makes of it, and so is the first again."""
    rows = rows_with(engine="vllm", model="gpt-oss-120b")[:3]
    kept, other = DecodeRows(rows, [POPULAR]), {**VALUES, "all.expert_popularity": 5.0}
    first = kept.predict(VALUES)
    for values in (other, VALUES):
        np.testing.assert_array_equal(kept.predict(values), DecodeRows(rows, [POPULAR]).predict(values))
    assert np.all(kept.predict(other) != first)


def test_lengths_within_a_batch_differ_unless_told_otherwise() -> None:
    """Where each multiprocessor reads little, a batch waits for its longest request."""
    rows = [row for row in engine_decode() if row.context_std_tokens and row.engine == "vllm" and row.batch > 1][:1]
    slow = Parameter("all.multiprocessor_bandwidth", 0.01, 0.1)
    ragged, even = (DecodeRows(rows, [slow], ragged=ragged).predict({slow.place: 0.01})[0] for ragged in (True, False))
    assert ragged > even
    assert DecodeRows(rows, [slow]).predict({slow.place: 0.01})[0] == ragged


def test_kernels_may_be_changed_and_taken_from_elsewhere() -> None:
    row = rows_with(engine="vllm", model="llama-3.3-70b")[0]

    def slower(kernels: Calibration) -> Calibration:
        return kernels.model_copy(update={"pass_fixed_s": kernels.pass_fixed_s.model_copy(update={"value": 1.0})})

    plain = np.exp(DecodeRows([row], []).predict({}))[0]
    assert np.exp(DecodeRows([row], [], change=slower).predict({}))[0] == pytest.approx(plain + 1.0)
    other = {"h200-sxm-141gb": "b200-sxm-180gb", "b200-sxm-180gb": "h200-sxm-141gb"}[row.hardware]
    assert np.exp(DecodeRows([row], [], {row.hardware: other}).predict({}))[0] != plain
    asked = decoding(row, load_kernels(f"{row.hardware}.vllm"))
    assert (asked.target.name, asked.machine.tensor_parallel) == ("llama-3.1-70b", row.tensor_parallel)
    assert float(asked.target_pass_s(float(row.batch), float(row.context_tokens))) > 0


class Counted(Group):
    """A group that says how often it was worked out."""

    asked = 0

    def predict(self, calibration: Calibration) -> Any:
        self.asked += 1
        return np.array([calibration.small_kernel_s.value])


def test_what_was_worked_out_is_remembered_up_to_a_number() -> None:
    setting = Setting.of("h100-sxm-80gb", "vllm", [SCALE])
    group = Counted(setting, None, np.arange(1), np.ones(1), np.ones(1))  # type: ignore[arg-type]

    def ask(value: float) -> Mapping[str, float]:
        return {SCALE.place: value, "all.gemm_factor": value}  # the group does not depend on the second

    for value in range(REMEMBERED):
        group.seconds(ask(1.0 + value))
    assert group.seconds(ask(1.0)) == setting.kernels.small_kernel_s.value
    assert group.asked == REMEMBERED
    group.seconds({SCALE.place: 1.0, "all.gemm_factor": 9.0})
    assert group.asked == REMEMBERED
    group.seconds(ask(1.0 + REMEMBERED))  # one too many: forgotten
    group.seconds(ask(1.0))
    assert group.asked == REMEMBERED + 2
