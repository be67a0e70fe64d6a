"""Held-out errors of engines: what is left out together, which constants meet which rows, and what is stated."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.published_engines import engine_decode
from perfmodel.validate.engine.fit import small_sample
from perfmodel.validate.studies import held_out as engine_study
from perfmodel.validate.studies.held_out import Errors, covered, name_of, own_rows, quantile, refits, replay, rows_of


def row(engine: str, model: str, hardware: str = "h100", tp: int = 1) -> Any:
    return SimpleNamespace(engine=engine, model=model, hardware=hardware, tensor_parallel=tp)


class Rows:
    """Three rows whose errors are the one constant plus 0, 10 and 20."""

    rows = (row("vllm", "a"), row("vllm", "b"), row("vllm", "a", "h200"))

    def off(self, values: dict[str, float]) -> Any:
        return values["x"] + np.array([0.0, 10.0, 20.0])


@pytest.mark.parametrize(
    ("relation", "folds", "expected"),
    [
        ("model", {"vllm a": {"x": 1.0}, "vllm b": {"x": 2.0}}, [1.0, 12.0, 21.0]),
        ("gpu", {"h100": {"x": 3.0}, "h200": {"x": 4.0}}, [3.0, 13.0, 24.0]),
        (
            "seen",
            {"vllm a h100 1": {"x": 5.0}, "vllm b h100 1": {"x": 6.0}, "vllm a h200 1": {"x": 7.0}},
            [5.0, 16.0, 27.0],
        ),
    ],
)
def test_each_row_meets_the_constants_of_its_own_fold(relation: Any, folds: dict, expected: list[float]) -> None:
    assert replay(Rows(), relation, folds).tolist() == expected  # type: ignore[arg-type]


def test_a_fold_is_fitted_without_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_study, "weigh_steps", lambda rows, train: train.tolist())
    slopes: Any = SimpleNamespace(fit=lambda weigh, whole: SimpleNamespace(values={"trained": weigh, "from": whole}))
    found: Any = refits(Rows(), slopes, "model", {"x": 9.0})  # type: ignore[arg-type]
    assert found == {
        "vllm a": {"trained": [False, True, False], "from": {"x": 9.0}},
        "vllm b": {"trained": [True, False, True], "from": {"x": 9.0}},
    }


def test_names_of_folds() -> None:
    assert name_of(("vllm", "a", "h100", 2)) == "vllm a h100 2"
    assert name_of("h100") == "h100"


def test_a_transfer_has_every_device_on_the_kernels_of_another() -> None:
    """Rows are of devices with tables; those of another maker's device stand alone."""
    assert len(rows_of("transferred").rows) == len(own_rows())
    for group in rows_of("transferred").groups:
        assert group.setting.kernels.gpu != group.scenario.machine.gpu.name
    gone = {row.hardware for row in engine_decode()} - {row.hardware for row in own_rows()}
    assert gone == {"mi300x-192gb"} == {row.hardware for row in rows_of("maker").rows}
    (group,) = rows_of("maker").groups
    assert group.setting.kernels.gpu == "h200-sxm-141gb"


def test_what_is_stated_of_an_engine_with_rows_and_of_one_without() -> None:
    """Groups a and b of vLLM (0.1 twice; 0.3), c of SGLang (0.5): weights 1/2, 1/2, 1 and 0.1."""
    errors = Errors(np.array([0.1, 0.1, 0.3, 0.5]), ["vllm", "vllm", "vllm", "sglang"], ["a", "a", "b", "c"])
    found = errors.scatter("vllm", "by hand")
    assert found.log_rms == pytest.approx(((0.01 + 0.09 + 0.1 * 0.25) / 2.1) ** 0.5, abs=5e-4)
    assert found.log_within == pytest.approx(0.3 * small_sample(1.0, 2.1) * (1 + 1 / 2.1) ** 0.5, rel=2e-3)
    assert (found.rows, found.source) == (3, "by hand")
    other = errors.scatter("trtllm", "by hand", 1.0)
    assert other.rows == 4  # all rows speak for it, a group each
    assert other.log_rms == pytest.approx(((0.01 + 0.09 + 0.25) / 3) ** 0.5, abs=5e-4)
    assert errors.without(["a"]).off.tolist() == [0.3, 0.5]
    assert errors.without(["a", "c"]).engines == ["vllm"]


def test_a_share_of_the_weight_that_falls_on_a_value_is_held_by_it() -> None:
    """Rounding of 0.1 + 0.2 = 0.30000000000000004 must not take the next value."""
    values = np.array([3.0, 1.0, 2.0])
    assert quantile(values, np.array([0.7, 0.1, 0.2]), 0.3) == 2.0
    assert quantile(values, np.ones(3), 1 / 3) == 1.0
    assert quantile(values, np.ones(3), 0.34) == 2.0


def test_an_interval_from_the_other_groups_holds_a_row_at_its_very_end() -> None:
    inside, width = covered(Errors(np.array([0.1, -0.1, 0.4]), ["vllm"] * 3, ["a", "b", "c"]))
    few = small_sample(1.0, 2) * 1.5**0.5
    np.testing.assert_allclose(width, [0.4 * few, 0.4 * few, 0.1 * few], rtol=5e-3)
    assert inside.tolist() == [1, 1, 0.1 * few > 0.4]
