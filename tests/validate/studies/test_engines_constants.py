"""The engines' fit: groups count as one, quantiles hold what they say, and the shipped constants are those recorded."""

import json

import numpy as np
import pytest
from scipy.stats import norm, t

from perfmodel.specs.calibration import load_bundled
from perfmodel.specs.engines import engines
from perfmodel.specs.fits import Z
from perfmodel.validate.studies import iterations as ratios
from perfmodel.validate.studies.engine_errors import figures
from perfmodel.validate.studies.engines import kept, path
from perfmodel.validate.studies.held_out import Errors, covered, own_rows, quantile, rows_of
from perfmodel.validate.studies.parameters import DECODING, SPECULATING
from perfmodel.validate.studies.robust import weigh_steps


def test_quantiles_hold_their_share() -> None:
    values, weights = np.array([3.0, 1.0, 2.0, 10.0]), np.array([1.0, 1.0, 1.0, 7.0])
    assert quantile(values, weights, 0.3) == 3.0
    assert quantile(values, weights, 0.31) == 10.0
    assert quantile(np.arange(10.0), np.ones(10)) == 8.0


def test_a_group_counts_once_and_others_a_tenth() -> None:
    errors = Errors(np.array([0.1, 0.1, 0.2]), ["vllm", "vllm", "sglang"], ["a", "a", "b"])
    assert errors.weights("vllm").tolist() == [0.5, 0.5, 0.1]
    few = t.ppf(0.95, 1) / norm.ppf(0.95)  # one degree of freedom at least
    assert errors.scatter("vllm", "by hand").log_within == pytest.approx(0.1 * few * (1 + 1 / 1.1) ** 0.5, rel=5e-3)
    assert errors.scatter("sglang", "by hand").log_within == pytest.approx(0.2 * few * (1 + 1 / 1.1) ** 0.5, rel=5e-3)
    inside, width = covered(errors)  # by a tenth of a group each
    assert inside.tolist() == [1, 1, 1]
    np.testing.assert_allclose(width, np.array([0.2, 0.2, 0.1]) * few * 11**0.5, rtol=5e-3)


def test_rows_of_a_group_count_as_far_as_they_err_apart() -> None:
    """Opposite errors have nothing in common, equal ones all; 0.1 and 0.3: 1 - 2 (0.02) / (0.01 + 0.09) = 0.6."""
    for off, rows in (((0.1, -0.1), 2.0), ((0.1, 0.1), 1.0), ((0.1, 0.3), 2 / 1.6)):
        errors = Errors(np.array(off), ["vllm"] * 2, ["a"] * 2)
        assert errors.weights("vllm") == pytest.approx([rows / 2, rows / 2])
        assert errors.weights("sglang") == pytest.approx([rows / 20, rows / 20])


def test_many_groups_are_not_widened() -> None:
    errors = Errors(np.linspace(0.0, 0.2, 101), ["vllm"] * 101, list(range(101)))
    assert errors.scatter("vllm", "by hand").log_within == pytest.approx(0.18, rel=0.02)


def test_a_model_of_one_degree_is_not_seen_at_another() -> None:
    groups = [("vllm", "a", "h200", 1), ("vllm", "a", "h200", 2), ("vllm", "b", "h200", 1), ("sglang", "a", "h200", 1)]
    kept = Errors(np.array([0.1, 0.2, 0.3, 0.4]), [g[0] for g in groups], groups).beside_others()
    assert kept.groups == groups[:2]
    assert kept.off.tolist() == [0.1, 0.2]


def test_an_engine_that_was_not_seen_speculating_has_the_interval_of_engines_left_out() -> None:
    stated = engines().engines
    assert not stated["trtllm"].speculating
    left_out = stated["trtllm"].errors["seen"]["ratio"]
    assert left_out.source == "engines left out of ratios"
    assert left_out.deviation > 1.5 * stated["vllm"].errors["model"]["ratio"].deviation


def test_another_makers_device_is_as_unsure_as_its_steps_were_off() -> None:
    off = figures()["steps"]["maker"]["sglang"]
    for engine in engines().engines.values():
        error = engine.errors["maker"]["target_s"]
        assert np.exp(Z * error.deviation) - 1 > -off["worst"]
        assert error.rows == off["rows"] == 6


def test_rows_that_are_not_trained_on_do_not_count() -> None:
    rows = rows_of("seen")
    train = np.array([row.engine == "vllm" for row in rows.rows])
    weigh = weigh_steps(rows, train)
    off = np.where(train, 0.0, 5.0)
    assert np.all(weigh(off) == 0)
    off[np.flatnonzero(train)[0]] = 0.1
    assert np.any(weigh(off) != 0)


def test_what_ships_is_what_was_fitted() -> None:
    found, places = kept(), engines().places()
    for parameter in DECODING:
        assert places[parameter.place].value == pytest.approx(found["steps"][parameter.place], rel=1e-3)
        assert places[parameter.place].times == parameter.times
    for parameter in SPECULATING:
        assert places[parameter.place].value == pytest.approx(found["iteration"][parameter.place], rel=1e-3)
    assert {p.place for p in (*DECODING, *SPECULATING)} == set(places)


def test_the_shipped_calibrations_predict_the_rows_as_the_fit_does() -> None:
    """The way through engines.yaml, and the way through the fit's own arrays."""
    rows = rows_of("seen")
    by_fit = rows.predict(kept()["steps"])
    for group in rows.groups[::5]:
        row = rows.rows[group.index[0]]
        by_file = np.log(group.predict(load_bundled(f"{row.hardware}.{row.engine}")))
        np.testing.assert_allclose(by_file, by_fit[group.index], rtol=2e-4)


def test_folds_leave_out_what_they_say() -> None:
    found = json.loads(path().read_text(encoding="utf-8"))
    models = {f"{row.engine} {row.model}" for row in own_rows()}
    assert set(found["step_folds"]["model"]) == models
    assert set(found["step_folds"]["gpu"]) == {row.hardware for row in own_rows()}
    studies = {row.study for row in ratios.iterations(found["steps"])}
    assert set(found["ratio_folds"]["model"]) == studies


def test_errors_and_coverage_are_what_is_promised() -> None:
    """The gate holds every figure; these are the ones that a reader relies on."""
    found = figures()
    seen = found["steps"]["seen"]
    assert seen["vllm"]["mape"] < 0.045
    assert seen["trtllm"]["mape"] < 0.09
    for relation in found["steps"].values():
        for engine, e in relation.items():
            if "inside" in e:
                assert e["inside"] / e["rows"] >= (0.83 if engine != "all" else 0.89)
                assert e["width"] < 0.36
    assert found["ratios"]["seen"]["all"]["mape"] < 0.075
    assert found["ratios"]["model"]["all"]["mape"] < 0.075
    side = found["sides"]["seen"]["all"]
    assert side["right"] >= 0.93 * side["rows"]
    assert side["sure_and_wrong"] <= 0.03 * side["rows"]
