"""Intervals of steps: what sources that were left out are off by."""

import math

import numpy as np
import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.specs import kernels_of, load_gpu, step_errors
from perfmodel.specs.engines.source_errors import BORROWED, OTHER
from perfmodel.validate.studies import gate, record as accuracy
from perfmodel.validate.studies.sources import Judged, _part


def test_a_crowded_batch_and_an_engine_without_rows_have_their_own_deviations() -> None:
    errors = step_errors()
    for engine, row in errors.engines.items():
        parts = errors.source, errors.server, row.crowded
        expected = errors.widening[BORROWED] * math.hypot(*parts)
        assert float(errors.deviation(engine, 64, BORROWED)) == pytest.approx(expected)
    at = errors.crowded_from
    below = errors.deviation("sglang", np.array([1, at - 1]), "hopper")
    assert np.all(below < errors.deviation("sglang", at, "hopper"))
    assert errors.deviation("unheard-of", 1, "hopper") == errors.deviation(OTHER, 1, OTHER)


def test_kernels_of_its_own_make_a_device_surer_and_a_new_architecture_less_sure() -> None:
    question = {"model": "qwen3-8b", "batch": 1, "context": 1000, "gamma": 0}
    widths = [
        np.divide(*whatif(hardware=gpu, **question).ar_tpot_interval)
        for gpu in ("h100", "gh200-96gb", "b200")
    ]
    assert widths[0] > max(widths[1:])
    assert (kernels_of(load_gpu("h100"), "h100-sxm-80gb"), kernels_of(load_gpu("h800"), "h100-sxm-80gb")) == (
        "hopper",
        BORROWED,
    )


def test_sources_left_out_are_off_by_what_is_promised() -> None:
    """By the record, which `test_accuracy` compares with the code."""
    found = gate.read(accuracy.PATH)["sources"]
    for figure, shipped, left_out in (("step", 0.09, 0.15), ("ratio", 0.06, 0.1), ("speedup", 0.06, 0.1)):
        of = found[figure]["llama.cpp"]
        assert of["shipped"] < shipped
        assert of["error"] < left_out
        assert 0.85 <= of.get("inside", 0.9) <= 0.95
    assert all(0.85 <= found["step"]["all"][name] <= 0.95 for name in ("inside", "inside_shipped"))


def test_errors_of_a_part_by_hand() -> None:
    """Two rows of a source that are off by 0.1 and -0.3, and one of another by 0.4."""
    near, far, other = (
        Judged(source, "vllm", "h100-sxm-80gb", "m", "ngram", off, shipped, interval)
        for source, off, shipped, interval in (
            ("a", 0.1, 0.2, (0.9, 1.2)),
            ("a", -0.3, -0.1, None),
            ("b", 0.4, 0.5, (1.05, 1.5)),  # holds the measurement by the constants that have not seen it
        )
    )
    found = _part([near, far, other])
    logs = {"error": 0.8 / 3, "macro": 0.3, "bias": 0.2 / 3, "shipped": 0.8 / 3}
    assert {name: found[name] for name in logs} == pytest.approx({n: math.expm1(x) for n, x in logs.items()})
    assert (found["rows"], found["sources"], found["inside"], found["inside_shipped"]) == (3, 2, 1.0, 0.5)
    assert found["worst"] == {"source": "b", "error": pytest.approx(math.expm1(0.4))}
    assert found["width"] == pytest.approx(((1.2 / 0.9) ** 0.5 + (1.5 / 1.05) ** 0.5) / 2 - 1)
    assert "inside" not in _part([far])
