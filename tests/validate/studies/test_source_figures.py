"""Errors of public runs whose source was left out: which rows they are of, how they are grouped, and what is
stated of them.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfmodel.validate.studies import gate, record as accuracy, source_figures
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.decisions import chance_counts
from perfmodel.validate.studies.iterations import iterations
from perfmodel.validate.studies.judged_runs import JudgedRun, errors_left_out, is_slowed, speedup_of_table
from perfmodel.validate.studies.public_runs import public_runs
from perfmodel.validate.studies.run_groups import groups_of, sources_by_name
from perfmodel.validate.studies.source_figures import group_errors
from perfmodel.validate.studies.sources_file import recorded_sources


def test_sources_left_out_are_off_by_what_is_promised() -> None:
    """By the record, which `test_accuracy` compares with the code.

    The widths are those of sources left out. Constants that have seen a row err less on it, so more rows lie
    inside as shipped. So do rows whose class of devices has few others. Coverage judges each row by widths
    without its source. Two sources have nearly all speedups of llama.cpp and differ in their errors, so that
    fewer of its rows lie inside.
    """
    stated = gate.read(accuracy.PATH)["sources"]
    for figure, seen, unseen in (("step", 0.09, 0.15), ("ratio", 0.06, 0.1), ("speedup", 0.06, 0.1)):
        of = stated[figure]["llama.cpp"]
        assert of["shipped"] < seen
        assert of["error"] < unseen
        assert 0.85 <= of.get("inside", 0.9) <= 0.98
    for name in ("own", "borrowed", "llamacpp"):
        assert 0.85 <= stated["coverage"]["step"][name]["inside"] <= 0.95
    for name, least in (("known", 0.85), ("new", 0.85), ("llamacpp", 0.8)):
        assert least <= stated["coverage"]["speedup"][name]["inside"] <= 0.98
    assert 0.85 <= stated["step"]["all"]["inside"] <= 0.95
    assert 0.85 <= stated["step"]["all"]["inside_shipped"] <= 0.97


PARTS = [
    JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "ngram", 0.1, 0.2, 1.2, (0.9, 1.2)),
    JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "ngram", -0.3, -0.1, 1.2, None),
    # holds the measurement by the constants that have not seen it
    JudgedRun("b", "vllm", "h100-sxm-80gb", "m", "ngram", 0.4, 0.5, 1.2, (1.05, 1.5)),
]


def test_errors_of_a_part_by_hand() -> None:
    """Two rows of a source that are off by 0.1 and -0.3, and one of another by 0.4."""
    errors = group_errors(PARTS)
    logs = {"error": 0.8 / 3, "macro": 0.3, "bias": 0.2 / 3, "shipped": 0.8 / 3}
    for name, off in logs.items():
        assert errors[name] == pytest.approx(math.expm1(off)), name
    first_width = (1.2 / 0.9) ** 0.5
    second_width = (1.5 / 1.05) ** 0.5
    assert errors["rows"] == 3
    assert errors["sources"] == 2
    assert errors["inside"] == 1.0
    assert errors["inside_shipped"] == 0.5
    worst = math.expm1(0.4)
    assert errors["worst"] == {"source": "b", "error": pytest.approx(worst)}
    assert errors["width"] == pytest.approx((first_width + second_width) / 2 - 1)
    assert "inside" not in group_errors(PARTS[1:2])


def test_an_interval_of_a_speedup_is_as_wide_as_its_own_extra_time() -> None:
    """Answers predict iterations of two steps, of which a half is extra time. Without the source it is three
    quarters of four, so each end is half as far again from the prediction, as a logarithm.
    """
    row = JudgedRun(
        "a", "vllm", "h100-sxm-80gb", "m", "mtp", math.log(0.5), 0.0, 1.2, (0.64, 1.44), ratio=2.0
    )
    assert row.interval_left_out == pytest.approx((0.5 * 0.64**1.5, 0.5 * 1.44**1.5))
    assert replace(row, ratio=None).interval_left_out == pytest.approx((0.32, 0.72))


def test_runs_that_a_known_defect_slows_are_those_whose_answer_names_it() -> None:
    """MTP of a model with recurrent layers and experts on Ampere, not without experts, nor on Blackwell."""
    slowed = {}
    for run in public_runs():
        if run.draft == "mtp" and run.engine == "vllm" and run.model.startswith("qwen3.5-"):
            slowed.setdefault((run.model, run.hardware), is_slowed(run))
    assert slowed["qwen3.5-35b-a3b", "rtx-3090-24gb:nvlink"]
    assert not slowed["qwen3.5-27b", "rtx-3090-24gb:nvlink"]
    assert not slowed["qwen3.5-397b-a17b", "rtx-pro-6000-96gb"]


def test_errors_of_a_ratio_have_the_opposite_sign_of_those_of_its_speedup() -> None:
    """Of public runs, whose speedups are in the record, and of the tables' rows, whose ratios are fitted."""
    recorded = recorded_sources()["errors"]["speedup"]
    assert errors_left_out("speedup") == recorded
    assert errors_left_out("ratio") == {id: -error for id, error in recorded.items()}
    row = next(row for row in iterations() if row.gained and row.width == 1)
    judged = speedup_of_table(row, 0.2)
    assert judged.off == -0.2
    assert judged.interval[0] < math.exp(judged.shipped) < judged.interval[1]
    assert math.log(row.ratio / judged.ratio) == pytest.approx(judged.shipped, abs=1e-6)


def test_a_row_is_under_its_engine_its_draft_and_what_other_sources_measured() -> None:
    """A device is new to a source if no other one measured it. A draft that a known defect slows counts
    nowhere else.
    """
    device = "rtx-3090-24gb"
    usual = JudgedRun("a", "vllm", device, "m", "mtp", 0.1, 0.1, 1.2)
    elsewhere = replace(usual, source="b", draft="")
    slowed = replace(usual, slowed=True)
    of_llamacpp = replace(usual, engine="llamacpp", draft="", kind="moe_batch")
    sources_of = {("vllm", device): {"a"}}
    groups = dict(groups_of([usual, elsewhere, slowed, of_llamacpp], sources_of))
    assert groups["all"] == groups["vLLM"] == [usual, elsewhere]
    assert groups["device in other sources"] == [elsewhere]
    assert groups["new device"] == [usual]
    assert groups["new model"] == [usual, elsewhere]
    assert groups["draft mtp"] == [usual]
    assert groups["slowed by a known defect"] == [slowed]
    assert groups["llama.cpp"] == groups["llama.cpp, moe, batch"] == [of_llamacpp]
    assert not groups["NVIDIA data-centre devices"]
    drafting = replace(of_llamacpp, draft="mtp")
    assert "llama.cpp, moe, batch" not in dict(groups_of([drafting], sources_of))


def test_sources_of_a_name_are_those_of_public_runs_and_of_the_tables() -> None:
    step = JudgedRun("a", "vllm", "h200-sxm-141gb", "m", "", 0.1, 0.1, 1.2)
    sources = sources_by_name([step])
    assert sources["vllm", "m"] == {"a"}
    assert sources["vllm", "h200-sxm-141gb"] > {"a"}
    assert sources["vllm", "llama-3.1-70b"], "the tables name its twin llama-3.3-70b"


@pytest.mark.parametrize(
    ("hardware", "is_data_centre"),
    [
        ("a100-sxm-80gb", True),
        ("h200-sxm-141gb", True),
        ("b300-sxm-288gb", True),
        ("gb200-186gb", True),
        ("rtx-5090-32gb", False),
        ("mi300x-192gb", False),
    ],
)
def test_nvidias_data_centre_devices_are_a_group(hardware: str, is_data_centre: bool) -> None:
    row = JudgedRun("a", "vllm", hardware, "m", "", 0.1, 0.1, 1.2)
    groups = dict(groups_of([row], {}))
    assert groups["NVIDIA data-centre devices"] == ([row] if is_data_centre else [])


@pytest.mark.parametrize(
    ("interval", "share"),
    [((1.0 + 1e-12, 1.5), 1.0), ((0.5, 1.0 - 1e-12), 1.0), ((1.001, 1.5), 0.0), ((0.5, 0.999), 0.0)],
)
def test_a_measurement_on_an_end_of_its_interval_is_inside(interval, share: float) -> None:
    row = JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "mtp", 0.0, 0.0, 1.2, interval)
    assert group_errors([row])["inside"] == share


def test_stated_chances_are_compared_with_the_share_above_1() -> None:
    """Two speedups whose intervals have 1 in the middle, one measured above 1; and one that surely pays."""
    rows = [
        JudgedRun(source, "vllm", "h100-sxm-80gb", "m", "mtp", 0.0, 0.0, measured, interval)
        for source, measured, interval in [
            ("a", 1.25, (0.64, 1.0)),
            ("b", 0.8, (1.0, 1.5625)),
            ("b", 2.0, (0.9, 1.1)),
        ]
    ]
    counts = chance_counts(rows)
    assert [(c["least"], c["rows"], c["sources"]) for c in counts] == [(0.35, 2, 2), (0.95, 1, 1)]
    assert [c["stated"] for c in counts] == pytest.approx([0.5, 1.0])
    assert [c["above_one"] for c in counts] == [0.5, 1.0]


def test_llamacpp_is_judged_apart_from_serving_engines_and_coverage_has_the_classes_of_mlx(
    monkeypatch,
) -> None:
    """A sweep of vLLM is predicted as measured. One of llama.cpp is expected to gain nothing, so a measured
    speedup of 1.25 is lost, a fifth of the throughput. Its prediction of 0.9 is on the wrong side of 1.
    """
    predicted = {"vllm": 1.25, "llamacpp": 0.9}
    answered = [
        Answered(replace(run, id="made up", gamma=gamma), "speedup", predicted[engine], 1.25, None)
        for engine in predicted
        for run in [next(run for run in public_runs() if run.engine == engine)]
        for gamma in (1, 3)
    ]
    off = {engine: math.log(speedup / 1.25) for engine, speedup in predicted.items()}
    rows = [
        JudgedRun("a", engine, "h100-sxm-80gb", "m", "mtp", error, error, 1.25, (0.99, 1.01))
        for engine, error in off.items()
    ]
    monkeypatch.setattr(source_figures, "judged", lambda figure: rows)
    monkeypatch.setattr(source_figures, "of_figure", lambda figure: answered)
    monkeypatch.setattr(source_figures, "refusals", dict)
    monkeypatch.setattr(source_figures, "recorded_sources", lambda: {"coverage": {"step": {"own": 1}}})
    of_mlx = SimpleNamespace(read_mapping=lambda path: {"coverage": {"step": {"mlx": 2}}})
    monkeypatch.setattr(source_figures, "files", of_mlx)
    found = source_figures.figures()
    lengths = found["best_length"]
    assert {name: (of["sweeps"], of["lost"]) for name, of in lengths.items()} == {
        "engines": (1, 0.0),
        "llamacpp": (1, pytest.approx(0.2)),
    }
    assert {name: (of["rows"], of["right"]) for name, of in found["sides"].items()} == {
        "all": (1, 1),
        "vLLM": (1, 1),
        "llama.cpp": (1, 0),
    }
    for figure in ("step", "ratio", "speedup"):
        assert found[figure]["vLLM"]["error"] == 0.0
        assert found[figure]["llama.cpp"]["error"] == pytest.approx(1.25 / 0.9 - 1)
    assert found["coverage"] == {"step": {"own": 1, "mlx": 2}}
