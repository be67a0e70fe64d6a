"""Real runs of serving engines (files/README.md, results/cpu-engine): some lengths and batches tell the
others.
"""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.question import Query
from perfmodel.specs import Z, load_calibration
from perfmodel.validate.engine.calibrate import calibrate
from perfmodel.validate.engine.calibration_errors import speedup_logs
from perfmodel.validate.engine.calibration_words import lines
from perfmodel.validate.engine.fit import rows_of
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.sources import calibrate_engine, read_sources, sources_of
from perfmodel.validate.engine.timing import Timing
from tests.engine.rates import FIGURES, errors
from tests.refusals import refused
from tests.sampled import first_fast

PATH = Path(__file__).parent / "files" / "gpt-oss-120b-eagle3-h200.csv"
QUERY = Query("gpt-oss-120b", "h200", 1, 1, draft="eagle:features=3", alpha=0.5, calibration="ideal")


def timings() -> list[Timing]:
    steps = []
    with PATH.open() as file:
        for row in csv.DictReader(file):
            place = {name: float(row[name]) for name in ("batch", "context", "tokens_per_iteration")}
            seconds = float(row["iteration_ms"]) / 1e3
            steps.append(Timing(where=PATH.name, seconds=seconds, gamma=int(row["gamma"]), **place))
    return steps


@pytest.mark.parametrize(
    ("base", "seen", "point", "mean", "worst"),
    first_fast(
        [
            ("h200-sxm-141gb.vllm", lambda t: t.gamma in (0, 7), lambda t: t.gamma == 1, 0.045, 0.08),
            (
                "h200-sxm-141gb.vllm",
                lambda t: t.batch in (1, 4, 16, 64),
                lambda t: t.batch in (2, 8, 32),
                0.05,
                0.11,
            ),
            ("h200-sxm-141gb.vllm", lambda t: t.gamma in (1, 7), lambda t: t.gamma == 0, 0.08, 0.11),
            ("ideal", lambda t: t.gamma in (0, 7), lambda t: t.gamma == 1, 0.05, 0.07),
            ("ideal", lambda t: t.gamma in (1, 7), lambda t: t.gamma == 0, 0.08, 0.14),
        ]
    ),
)
def test_some_rows_tell_the_others(base, seen, point, mean, worst) -> None:
    rows = timings()
    taught = [row for row in rows if seen(row)]
    subject = EngineSubject.of(QUERY, "vllm", "0.22")
    calibrated = calibrate(taught, QUERY, [load_calibration(base)], subject, (PATH.name,))
    assert [*calibrated.tried] == [base], "nor rows apart, which are of CPUs"
    wanted = [t for t in rows if point(t)]
    every = rows_of([*wanted, *rows], QUERY, calibrated.calibration)
    seconds = every.predict(calibrated.calibration)[: len(wanted)]
    errors = np.abs(seconds / [t.seconds for t in wanted] - 1)
    assert errors.mean() < mean
    assert errors.max() < worst
    warned = "no baseline step among these rows" in "\n".join(lines(calibrated))
    assert warned == all(row.gamma for row in taught)


FOLDER = Path(__file__).parents[3] / "results" / "cpu-engine"
SERVED = Query(str(FOLDER / "target.json"), str(FOLDER / "device.yaml"), 1, 1, alpha=0.5)
DRAFT = str(FOLDER / "draft.json")


def files(gammas: str, batches: str) -> list[str]:
    return [str(FOLDER / f"bench-K{gamma}-{batch}.json") for gamma in gammas for batch in batches]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seen", "point", "iteration", "speedup", "width", "inside"),
    [
        # mean errors, as docs/engine.md prints them, half-width stated of iterations, share inside
        (files("025", "148"), files("3", "148"), 0.054, 0.063, 0.159, 1.0),
        (files("05", "148"), files("23", "148"), 0.083, 0.098, 0.160, 0.5),
        (files("0235", "18"), files("235", "4"), 0.069, 0.106, 0.185, 1.0),
    ],
    ids=["K 0, 2, 5 to 3", "K 0, 5 to 2, 3", "1 and 8 requests to 4"],
)
def test_what_no_fit_has_seen(seen, point, iteration, speedup, width, inside) -> None:
    calibrated = calibrate_engine([*seen, *seen[:2]], SERVED, draft=DRAFT)
    assert len(calibrated.rows.timings) == len(seen), "a file that is given twice counts once"
    timed = read_sources(sources_of(files("0", "148")))
    baseline = [row for row in timed if row.batch in {4, 1, 8}]
    wanted = read_sources(sources_of(point))
    rows = rows_of([*wanted, *baseline], replace(SERVED, draft=DRAFT), calibrated.calibration)
    seconds = rows.predict(calibrated.calibration)
    errors = (seconds / rows.measured - 1)[: len(wanted)]
    assert np.abs(errors).mean() == pytest.approx(iteration, abs=0.001)
    stated = Z * calibrated.calibration.observed_error["target_s"].log_rms
    assert np.expm1(stated) == pytest.approx(width, abs=0.001)
    assert np.mean(np.abs(np.log1p(errors)) < stated) == inside
    of_ratios = np.expm1(speedup_logs(rows, seconds))
    assert np.abs(of_ratios).mean() == pytest.approx(speedup, abs=0.001)


@pytest.mark.slow
def test_three_rates_with_and_without_a_draft_follow_from_its_bench_files() -> None:
    calibrated = calibrate_engine(files("0235", "148"), SERVED, draft=DRAFT)
    drafting = replace(SERVED, draft=DRAFT)
    off = list(dict(errors(FOLDER, drafting, calibrated.calibration)).values())
    assert len(off) == 6
    means = []
    for figure in FIGURES:
        means.append(float(np.mean([abs(run[figure]) for run in off])))
    assert means == pytest.approx([0.060, 0.102, 0.007], abs=0.001), "as docs/traffic.md says"


@pytest.mark.parametrize(
    ("sources", "draft", "says"),
    [
        (files("05", "18"), None, r"draft: must be given: bench-K5-1\.json times 5 drafted tokens"),
        (files("0", "18"), None, r"bench-K0-1\.json, bench-K0-8\.json: must hold two draft lengths"),
        ([str(FOLDER / "none-*.json")], DRAFT, "a file, or a pattern that matches files"),
        (
            [str(FOLDER / "engine-*-K2.json")],
            "llama-68m",
            r"draft: must be .*draft\.json, which .* was served with",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_file(sources, draft, says) -> None:
    refused(says, calibrate_engine, sources, SERVED, draft=draft)
