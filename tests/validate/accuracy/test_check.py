"""The gate for a folder of records: errors by hand, a limit, a baseline, a calibration that is 10 % off."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from perfmodel.answers.question import Query
from perfmodel.cli import run
from perfmodel.specs import Calibration, load_calibration
from perfmodel.specs.boundary.frozen import annotations
from perfmodel.validate.accuracy.check import baseline_text, faults, parts_of, read_baseline
from perfmodel.validate.accuracy.figure import Figure
from perfmodel.validate.accuracy.folder import figures
from perfmodel.validate.engine.calibrate import calibrate, record_text
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.harness.micro.write import write_yaml
from perfmodel.validate.records import RESULTS, latest, records, stamped
from tests.refusals import refused
from tests.validate.engine.test_published_run import PATH, QUERY, timings

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One own record, as somebody else's repository would hold it: beside other JSON files."""
    (tmp_path / "mine").mkdir()
    for kind in ("measure", "microbench"):
        shutil.copy(latest(records(RESULTS, "cpu-1"), kind).path, tmp_path / "mine")
    (tmp_path / "mine" / "notes.json").write_text('["of something else"]')
    return tmp_path


def check(folder: Path, *more: str) -> int:
    return run(["validate", "check", "--results", str(folder), *more])


def off_by(folder: Path, factor: float) -> Path:
    """The calibration of the record with every bandwidth it reaches off by a factor."""
    c = load_calibration("xeon-amx-2core.micro")
    names = [name for name in annotations(Calibration) if name.endswith("bandwidth_fraction")]
    constants = {name: getattr(c, name) for name in names}
    changes = {name: constant.replace(value=constant.value * factor) for name, constant in constants.items()}
    return write_yaml(c.replace(**changes), folder / f"off-{factor}.yaml", "broken on purpose")


def test_the_limit_is_kept_or_not(folder, capsys) -> None:
    mape = {p.name: p.errors.mape for p in parts_of(figures(folder))}
    most = max(mape.values())
    allowed = f"{100 * most + 0.1:.1f}%"
    assert check(folder, "--max-error", allowed) == 0
    assert "check: PASS; 240 figures of 1 records" in capsys.readouterr().out
    assert check(folder, "--max-error", str(most - 0.001)) == 1
    printed = capsys.readouterr()
    assert "--baseline FILE --write" not in printed.err  # whoever states a limit knows what it is for
    worst = max(mape, key=lambda name: mape[name])
    assert f"above the limit: {worst}: mean error {most:.1%} of 40 figures" in printed.err
    assert "check: FAIL" in printed.out


def test_the_machines_own_folder_is_a_folder_of_records(folder) -> None:
    assert figures(folder / "mine") == figures(folder)


def test_without_a_limit_it_is_ten_per_cent_and_a_baseline_is_advised(folder, capsys) -> None:
    assert check(folder) == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.endswith("--baseline FILE --write once, then --baseline FILE")
    assert check(folder, "--figure", "speedup") == 0
    assert "mean errors up to 10.0%" in capsys.readouterr().out


def test_a_check_as_json(folder, capsys) -> None:
    assert check(folder, "--figure", "speedup", "--max-error", "1%", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["faults"][0].startswith("above the limit: cpu-1/cpu-full/speedup")
    assert answer["schema_version"] == 1
    assert len(answer["rows"]) == 40


@pytest.mark.parametrize("factor", [0.9, 1 / 0.9])
def test_a_calibration_that_is_a_tenth_off_fails_and_says_by_how_much(folder, factor, capsys) -> None:
    """Slower or faster: the errors of this record grow one way only, and its predictions move both ways."""
    baseline = folder / "baseline.json"
    assert check(folder, "--baseline", str(baseline), "--write") == 0
    assert f"wrote {baseline}\n" in capsys.readouterr().out
    assert check(folder, "--baseline", str(baseline)) == 0
    assert "wrote" not in capsys.readouterr().out
    broken = str(off_by(folder, factor))
    before = {f.name: f.predicted for f in figures(folder)}
    steps = [figure for figure in figures(folder, broken) if figure.part.endswith("target_s")]
    by = [figure.predicted / before[figure.name] for figure in steps]
    assert check(folder, "--baseline", str(baseline), "--calibration", broken) == 1
    printed = capsys.readouterr()
    stderr = printed.err
    lines = [line.split() for line in printed.out.splitlines() if line]
    assert ["machine/plan/figure", "rows", "mean", "error", "before", "bias", "worst", "calibration"] in lines
    (row,) = (line for line in lines if line[0] == "cpu-1/cpu-full/target_s")
    assert row[1] == "40"
    assert row[3] == "11.3%"
    assert row[-1] == "xeon-amx-2core.micro"
    assert printed.out.endswith(f"; no limit, 1 point above {baseline} at most\n")
    geometric_mean = np.exp(np.mean(np.log(by)))
    mean = float(geometric_mean) - 1
    assert f"moved: cpu-1/cpu-full/target_s: predictions by {mean:+.1%} on average over 40 figures" in stderr
    assert 0.05 < abs(mean) < 0.12
    assert ("grown: cpu-1/cpu-full/target_s: mean error 11.3% -> " in stderr) == (factor > 1)
    assert check(folder, "--baseline", str(baseline), "--calibration", broken, "--write") == 0
    assert check(folder, "--baseline", str(baseline), "--calibration", broken) == 0


def made_up(part: str, row: str, measured: float, predicted: float) -> Figure:
    return Figure(part, "m/record", row, measured, predicted, "c", False)


def test_growth_and_loss_by_hand(tmp_path) -> None:
    """A new row makes a part that is 5 % off 8 % off on average: no prediction moved, the error grew by 3
    points.
    """
    old = [made_up("m/p/speedup", "a", 4.0, 4.2), made_up("m/p/target_s", "a", 1.0, 1.0)]
    path = tmp_path / "b.json"
    path.write_text(baseline_text(parts_of(old), {}))
    before = read_baseline(path)
    assert faults(parts_of(old), None, before) == []
    new = [*old, made_up("m/p/speedup", "b", 1.0, 0.89)]
    assert faults(parts_of(new), None, before) == [
        "grown: m/p/speedup: mean error 5.0% -> 8.0%, by 3.0 points"
    ]
    assert faults(parts_of(new), 0.07, None) == [
        "above the limit: m/p/speedup: mean error 8.0% of 2 figures, limit 7.0%; worst -11.0% at b"
    ]
    assert faults(parts_of(old[:1]), None, before) == [
        "lost: m/p/target_s: is in the baseline and is no longer measured"
    ]
    assert faults(parts_of(old[:1]), None, before.of(["speedup"])) == []
    # within a point
    slower = made_up("m/p/speedup", "a", 4.0, 4.18)
    assert faults(parts_of([slower, old[1]]), None, before) == []
    at_the_limit = made_up("m/p/speedup", "a", 1.0, 1.25)
    assert faults(parts_of([at_the_limit]), 0.25, None) == []
    many = [made_up(f"m/p/{n}", "a", 1.0, 1.5) for n in range(8)]
    higher = [replace(figure, predicted=1.6) for figure in many]
    path.write_text(baseline_text(parts_of(higher), {}))
    moved = "predictions by -6.2% on average over 1 figures of the baseline"
    messages = faults(parts_of(many), None, read_baseline(path))
    assert messages == [f"moved: m/p/{n}: {moved}" for n in range(8)]


def measured_again(folder: Path, factor: float, kept: slice = slice(None)) -> None:
    """A later record of the same plan, all but the draft's times by a factor, in place of the first."""
    (path,) = (p for p in folder.glob("mine/*.json") if p.name.endswith("cpu-full.json"))
    record = json.loads(path.read_text(encoding="utf-8"))
    for point in record["points"]:
        for name in {*point["samples"]} - {"sd_draft_s"}:
            samples = point["samples"]
            samples[name] = [factor * seconds for seconds in samples[name]]
    record["points"] = record["points"][kept]
    path.unlink()
    later = path.with_name(f"2027{path.name[4:]}")
    later.write_text(stamped(json.dumps(record)))


@pytest.mark.parametrize(
    ("factor", "kept", "says"),
    [
        (1.3, slice(None), "drifted: cpu-1/cpu-full/target_s: measured +30.0% on average over 40 points"),
        (0.95, slice(None), "drifted: cpu-1/cpu-full/ar_tpot_s: measured -5.0% on average over 40 points"),
        (1.0, slice(2, None), "lost: cpu-1/cpu-full/target_s: 1 points of the baseline are no longer"),
    ],
)
def test_a_slower_a_faster_and_a_lost_measurement_are_seen(folder, factor, kept, says, capsys) -> None:
    baseline = ("--baseline", str(folder / "b.json"))
    assert check(folder, *baseline, "--write") == 0
    measured_again(folder, factor, kept)
    assert check(folder, *baseline) == 1
    assert says in capsys.readouterr().err
    if factor == 0.95:
        assert check(folder, *baseline, "--max-drift", "6%") == 0
    assert check(folder, *baseline, "--write") == check(folder, *baseline) == 0


def test_the_action_checks_records_with_its_inputs(folder, tmp_path) -> None:
    """Its script as a workflow runs it, but for the installation."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (each for each in action["runs"]["steps"] if "run" in each)
    programs = tmp_path / "perfmodel" / "bin"
    programs.mkdir(parents=True)
    commands = (("python", "exit 0"), ("perfmodel", f'exec "{sys.executable}" -m perfmodel "$@"'))
    for name, does in commands:
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    baseline = str(folder / "b.json")
    inputs = dict.fromkeys(step["env"], "") | {"RESULTS": str(folder), "BASELINE": baseline}
    environment = inputs | {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}

    def status(**more: str) -> int:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, env=os.environ | environment | path | more, check=False).returncode

    assert status() == 2  # no baseline yet
    assert check(folder, "--baseline", str(folder / "b.json"), "--write") == 0
    assert status() == 0
    measured_again(folder, 1.3)
    assert status() == 1
    assert status(MAX_DRIFT="40%") == 1  # the errors have grown too
    assert status(BASELINE="", MAX_ERROR="90%") == 0
    assert (tmp_path / "summary.md").read_text().count("drifted: ") == 4


def test_drift_by_hand(tmp_path) -> None:
    """A figure may drift by 3 % on average, and one of its points by 9 %; an older baseline kept no times."""
    old = [made_up("m/p/target_s", row, 1.0, 1.0) for row in "abcd"]
    path = tmp_path / "b.json"
    path.write_text(baseline_text(parts_of(old), {}))
    before = read_baseline(path)

    def now(*times: float) -> list[str]:
        again = [replace(f, measured=s, predicted=s) for f, s in zip(old, times, strict=True)]
        return faults(parts_of(again), None, before.replace(predicted={}))

    assert now(1.029, 1.029, 1.029, 1.029) == now(1.08, 1.0, 1.0, 1.0) == []
    most = "over 4 points of the baseline; most at a"
    assert now(1.04, 1.04, 1.04, 1.04) == [f"drifted: m/p/target_s: measured +4.0% on average {most}, +4.0%"]
    assert now(0.9, 1.0, 1.0, 1.0) == [f"drifted: m/p/target_s: measured -2.6% on average {most}, -10.0%"]
    text = json.loads(path.read_text())
    rows = {"m/p/target_s": dict.fromkeys("abcde", 1.0)}
    path.write_text(json.dumps(text | {"rows": rows}))
    before = read_baseline(path)
    assert now(9.0, 9.0, 9.0, 9.0)[0].startswith("lost: m/p/target_s: 1 points")


def test_an_empty_or_damaged_folder_is_refused(folder, capsys) -> None:
    """A pipe is not waited for."""
    (folder / "empty").mkdir()
    (path,) = (p for p in folder.glob("mine/*.json") if p.name.endswith("cpu-full.json"))
    path.write_text(path.read_text(encoding="utf-8")[:-100])
    (folder / "piped").mkdir()
    os.mkfifo(folder / "piped" / "pipe.json")
    for where, words in (
        ("empty", "must hold records"),
        ("none", "must be a folder"),
        ("mine", path.name),
        ("piped", "pipe.json: must be a readable file"),
    ):
        assert check(folder / where) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("value", [-0.01, 0.0, 5e-324, float("nan"), float("inf"), 1e300])
def test_a_baseline_holds_times_and_speedups_above_0(tmp_path, value) -> None:
    """Whose quotients with any prediction are numbers, so that the check compares no NaN and divides by no
    0.
    """
    path = tmp_path / "b.json"
    text = baseline_text(parts_of([made_up("m/p/target_s", "a", 1.0, 1.25)]), {})
    path.write_text(text.replace('"m/record/a/target_s": 1.25', f'"m/record/a/target_s": {value}'))
    refused(r"b\.json", read_baseline, path)
    path.write_text(text.replace('"mape": 0.25', '"mape": -0.25'))
    refused(r"b\.json: parts\.m/p/target_s\.mape", read_baseline, path)


def test_records_of_an_engine_are_checked_with_what_was_fitted_to_them(tmp_path, capsys) -> None:
    """Times per token, plain and speculating, and the speedup of the two, by hand; a foreign calibration is
    worse.
    """
    query = Query(**QUERY.as_dict() | {"calibration": None})
    subject = EngineSubject.of(query, "vllm", "0.22")
    steps = [t for t in timings() if t.gamma in (0, 7) and t.batch in (1, 4, 16, 64)]
    calibrated = calibrate(steps, query, [load_calibration("ideal")], subject, (PATH.name,))
    path = write_yaml(calibrated.calibration, tmp_path / f"{calibrated.calibration.name}.yaml", "a test")
    record = path.with_suffix(".json")
    record.write_text(record_text(calibrated, "h200-1", subject, (PATH.name,)))
    fitted_figures = figures(tmp_path)
    assert {f.calibration for f in fitted_figures} == {calibrated.calibration.name}
    assert {f.fitted for f in fitted_figures} == {True}
    assert {f.fitted for f in figures(tmp_path, "ideal")} == {False}
    by_name = {f.name: f for f in fitted_figures}
    seconds = calibrated.rows.predict(calibrated.calibration)
    timed = zip(calibrated.rows.timings, seconds, strict=True)
    rows = {(timing.batch, timing.gamma): (timing, predicted_s) for timing, predicted_s in timed}
    plain, plain_s = rows[4.0, 0]
    spec, spec_s = rows[4.0, 7]
    (key,) = (k for k in by_name if f"{spec.name}/speedup" in k)
    gained = spec.tokens_per_iteration
    measured = plain.seconds / spec.seconds * gained
    assert by_name[key].measured == pytest.approx(measured)
    assert by_name[key].predicted == pytest.approx(plain_s / spec_s * gained, rel=1e-4)
    (key,) = (k for k in by_name if f"{spec.name}/sd_tpot_s" in k)
    assert by_name[key].measured == pytest.approx(spec.tpot_s)
    assert check(tmp_path, "--max-error", "10%") == 0
    assert "* fitted on these very records" in capsys.readouterr().out
    assert check(tmp_path, "--max-error", "10%", "--calibration", "ideal") == 1
    # a baseline pins the calibration: one fitted anew to an engine that became slower does not hide that it
    # has
    baseline = ("--baseline", str(tmp_path.parent / "engine-baseline.json"))
    assert check(tmp_path, *baseline, "--write") == 0
    assert check(tmp_path, *baseline) == 0
    slower = [t.replace(seconds=1.5 * t.seconds) for t in steps]
    anew = calibrate(slower, query, [load_calibration("ideal")], subject, (PATH.name,))
    path.unlink()
    write_yaml(anew.calibration, path, "a test")
    record.write_text(record_text(anew, "h200-1", subject, (PATH.name,)))
    assert check(tmp_path, *baseline) == 1
    assert "grown: " in capsys.readouterr().err
