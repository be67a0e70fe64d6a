"""Ablations: what each takes away, and that all of them are judged."""

from typing import Any

import numpy as np
import pytest

from perfmodel.specs.calibration import load_bundled
from perfmodel.specs.published_engines import engine_decode
from perfmodel.validate.studies import ablations as study
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.steps import DecodeRows, load_kernels

KERNELS = load_kernels("h200-sxm-141gb.vllm")


def test_a_figure_is_the_mean_absolute_error_to_three_digits() -> None:
    """Logarithms of 1.1 and 0.9 are errors of 10 % each."""
    assert study._figure(np.log([1.1, 0.9])) == 0.1
    assert study._figure(np.log([1.12345])) == 0.123


def test_groups_count_alike_in_a_mean() -> None:
    """Two rows of one group err by 10 % and 20 %, one of another by 5 %: (15 % + 5 %) / 2."""
    rows = [row for row in engine_decode() if row.engine == "vllm"]
    first = [row for row in rows if (row.model, row.tensor_parallel) == (rows[0].model, rows[0].tensor_parallel)][:2]
    other = next(row for row in rows if row.model != rows[0].model)
    found = study._mean(np.log([1.1, 0.8, 1.05]), (*first, other))
    assert found == pytest.approx(0.1, abs=1e-3)


def test_what_multiplies_a_table_stays_as_in_the_table_and_the_rest_goes() -> None:
    """No share of a multiprocessor and no layer's time; a small kernel's time is the table's, whatever it is called."""
    found = study._absent(("multiprocessor_bandwidth", "state_layer_s", "small_kernel_s", "quantise_s"))(
        KERNELS.model_copy(
            update={"multiprocessor_bandwidth": KERNELS.small_kernel_s, "state_layer_s": KERNELS.small_kernel_s}
        )
    )
    assert (found.multiprocessor_bandwidth.value, found.state_layer_s.value, found.quantise_s.value) == (0, 0, 0)
    assert KERNELS.quantise_s.value > 0
    assert found.small_kernel_s == KERNELS.small_kernel_s
    assert study._absent(("nothing",))(KERNELS) == KERNELS


def test_changes_of_kernels() -> None:
    changed = {name: change(KERNELS) for name, change in study.CHANGED.items()}
    assert changed["GEMMs by one share of bandwidth and one of the peak"].gemm_efficiency is None
    assert changed["experts as GEMMs"].expert_kernels is None
    assert changed["no CUDA-graph padding"].graph_tokens is None
    assert changed["the research stack's attention waves"].attention_blocks_per_multiprocessor.value == 2.0
    assert study._no_fp8_cache(KERNELS).attention_bandwidth_fraction_fp8.value == 0.0
    assert load_bundled("h200-sxm-141gb.vllm").attention_bandwidth_fraction_fp8.value > 0


def test_every_ablation_is_judged_by_rows_without_what_it_takes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[DecodeRows] = []
    asked: list[list[Parameter]] = []
    few = [row for row in engine_decode() if row.engine == "vllm" and row.context_std_tokens][:2]
    monkeypatch.setattr(study, "own_rows", lambda: few)
    monkeypatch.setattr(study.ratios, "iterations", lambda whole: [])
    monkeypatch.setattr(study, "_judge", lambda rows: seen.append(rows) or {"in sample": len(seen)})
    monkeypatch.setattr(study, "_judge_ratios", lambda rows, parameters: asked.append([*parameters]) or {})
    names = [name for name, _ in study.ablations({"x": 1.0})]
    assert names == [
        *("as shipped", "batches of one length", *study.CHANGED, *study.WITHOUT),
        *("iterations as shipped", *study.RATIOS_WITHOUT, *study.RATIOS_WITH),
    ]
    assert asked[0] == [*SPECULATING]
    for place, parameters in zip(study.RATIOS_WITHOUT.values(), asked[1:], strict=False):
        assert {p.place for p in SPECULATING} - {p.place for p in parameters} == {place}
    assert [parameters[-1] for parameters in asked[-2:]] == [*study.RATIOS_WITH.values()]
    whole, even = seen[:2]
    assert np.all([np.any(group.scenario.context_std > 0) for group in whole.groups])
    assert np.all([np.all(group.scenario.context_std == 0) for group in even.groups])
    for rows, gone in zip(seen[2 + len(study.CHANGED) :], study.WITHOUT.values(), strict=True):
        assert [p for p in DECODING if p not in rows.parameters] == [p for p in DECODING if p.name in gone]
        for name in set(gone) & {"latent_layer_s", "state_layer_s", "quantise_s", "multiprocessor_bandwidth"}:
            assert all(getattr(group.setting.kernels, name).value == 0 for group in rows.groups)


def test_a_judgement_has_errors_within_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off by 10 % with all constants, by 20 % with those of each fold."""

    class Rows:
        rows = tuple(row for row in engine_decode() if row.engine == "vllm")[:1]
        logs = np.log([2.0])

        def predict(self, values: dict[str, float]) -> Any:
            return np.log([2.0 * values["x"]])

    whole: Any = type("Found", (), {"values": {"x": 1.1}})
    monkeypatch.setattr(study, "fit", lambda rows: (whole, None))
    monkeypatch.setattr(study, "refits", lambda rows, slopes, by, values: {by: values})
    monkeypatch.setattr(study, "replay", lambda rows, by, folds: np.log([1.2]) * len(folds[by]))
    assert study._judge(Rows()) == {"in sample": 0.1, "model": 0.2, "gpu": 0.2}  # type: ignore[arg-type]


def test_a_judgement_of_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of two studies and groups, each off by its own fold's constant."""
    rows: Any = [type("Row", (), {"study": "s", "group": "g"}), type("Row", (), {"study": "t", "group": "h"})]
    whole: Any = type("Found", (), {"values": {"x": 1.05}})
    folds = {"s": {"x": 1.1}, "t": {"x": 1.3}, "g": {"x": 1.2}, "h": {"x": 1.4}}
    monkeypatch.setattr(study.ratios, "fit", lambda rows, parameters: whole)
    monkeypatch.setattr(study.ratios, "refits", lambda rows, keys, values, parameters: folds)
    monkeypatch.setattr(study.ratios, "off_by", lambda rows, values: np.log([values["x"]] * len(rows)))
    assert study._judge_ratios(rows, []) == {"in sample": 0.05, "seen": 0.3, "model": 0.2}
