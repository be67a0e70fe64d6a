"""Constants from an engine's steps: what was put in comes out, what rows do not say stays, errors are held
out.
"""

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from perfmodel.answers.question import Query
from perfmodel.cli import run
from perfmodel.specs import load_calibration, load_model
from perfmodel.speculation import with_values
from perfmodel.validate.engine.calibrate import calibrate, record_text
from perfmodel.validate.engine.calibration_errors import USUAL, stated_errors
from perfmodel.validate.engine.calibration_words import lines
from perfmodel.validate.engine.constants import sought
from perfmodel.validate.engine.fit import (
    EngineRows,
    check_enough,
    log_rms,
    rows_of,
    small_sample,
    solved_constants,
    usable,
)
from perfmodel.validate.engine.record import EngineSubject, read_engine_record
from perfmodel.validate.engine.sources import served, sources_of
from perfmodel.validate.engine.timing import Timing
from tests.refusals import refused

BASE = "h100-sxm-80gb.literature"
QUERY = Query("llama-3.1-8b", "h100", 1, 1, draft="llama-3.2-1b", alpha=0.5, calibration=BASE)
TRUTH = {
    "gemm_bandwidth_fraction": 0.72,
    "attention_fixed_s": 2.2e-5,
    "iteration_fixed_s": 6e-4,
    "token_s": 9e-6,
}
PLACES = tuple(itertools.product((1.0, 8.0, 32.0), (1024.0, 8192.0)))
SUBJECT = EngineSubject.of(QUERY, "vllm", "9.9")


def timing(batch: float, context: float, gamma: int, **more) -> Timing:
    omega = 1.0 if not gamma else 1 + 0.6 * gamma
    fields = {"where": "x", "seconds": 1.0, "tokens_per_iteration": omega} | more
    return Timing(batch=batch, context=context, gamma=gamma, **fields)


def engine(rows: list[Timing], noise: float = 0.0, truth: dict[str, float] = TRUTH) -> list[Timing]:
    """The rows as an engine with the constants `truth` would time them."""
    base = load_calibration(BASE)
    calibration = with_values(base, truth)
    scenario = rows_of(rows, QUERY, base).scenario
    seconds = EngineRows(tuple(rows), scenario).predict(calibration)
    draw = random.Random(0)
    measured = [float(s) * (1 + draw.uniform(-noise, noise)) for s in seconds]
    return [structs.replace(row, seconds=s) for row, s in zip(rows, measured, strict=True)]


def timings(*gammas: int, **more) -> list[Timing]:
    """At each place, with each draft length."""
    return [timing(batch, context, gamma, **more) for batch, context in PLACES for gamma in gammas]


def made(rows: list[Timing]):
    return calibrate(rows, QUERY, [load_calibration(BASE)], SUBJECT, ("bench.json",))


@pytest.fixture(scope="module")
def fitted():
    return made(engine(timings(0, 2, 7), noise=0.01))


def test_an_interval_is_the_error_of_lengths_and_batches_left_out_whole(fitted) -> None:
    """K = 2 is off by 0.1 against its own baseline, batch 8 by 0.2 with it, K = 7 by 0.3 one by one; four
    groups of others.
    """
    rows = fitted.rows
    gamma = np.array([row.gamma for row in rows.timings])
    batch = np.array([row.batch for row in rows.timings])
    assert [mask.sum() for mask, _ in fitted.fitted.groups] == [6, 6]
    assert [seconds.shape for _, seconds in fitted.fitted.groups] == [(18,), (18,)]
    of_a_length = rows.measured * np.exp(0.1 * (gamma == 2))
    of_a_batch = rows.measured * np.exp(np.full(18, 0.2))
    groups = ((gamma == 2, of_a_length), (batch == 8, of_a_batch))
    one_by_one = rows.measured * np.exp(0.3 * (gamma == 7))
    stated = stated_errors(replace(fitted.fitted, groups=groups, held_out=one_by_one), rows)
    steps = (4 * 0.06**2 + 0.01 + 0.04 + 0.09 / 3) / 7
    step_error = small_sample(steps**0.5, 8)
    assert stated["target_s"].log_rms == pytest.approx(step_error, rel=0.01)
    speedups = (4 * 0.072**2 + 0.01 + 0.09 / 2) / 7
    speedup_error = small_sample(speedups**0.5, 8)
    assert stated["speedup"].log_rms == pytest.approx(speedup_error, rel=0.01)


def test_a_fit_is_printed_row_by_row(fitted) -> None:
    """With an earlier calibration, another base, a row set aside and one out of line (fit.txt)."""
    slow = timing(1.0, 1024.0, 0, seconds=0.02, prefill_share=0.3, where="slow.json")
    base = load_calibration(BASE)
    held_out = fitted.rows.measured * np.linspace(0.6, 1.2, 18)
    fit = replace(fitted.fitted, held_out=held_out, free=tuple(TRUTH), pinned=("pass_fixed_s", "x"))
    tried = {BASE: 0.1, "x": 0.25}
    others = {"calibration": with_values(base, TRUTH), "previous": base, "tried": tried}
    shown = replace(fitted, fitted=fit, aside=(slow,), **others)
    printed = Path(__file__).with_name("fit.txt").read_text(encoding="utf-8")
    assert lines(shown) == printed.splitlines()


@pytest.mark.parametrize("far", [1.0, 1.3])
def test_a_fit_has_the_least_loss(far: float) -> None:
    """In units of 3 %, errors count by 8 (sqrt(1 + (e / 2)^2) - 1), about their squares; so do priors."""
    rows = engine(timings(0, 3), truth={})
    rows[3] = structs.replace(rows[3], seconds=rows[3].seconds * far)
    base = load_calibration(BASE)
    step_rows = rows_of(rows, QUERY, base)
    places = sought(base, rows, step_rows.scenario.target)
    free = {name: places[name] for name in ("token_s", "gemm_flops_fraction")}
    start = np.array([place.expected for place in free.values()])
    spread = np.array([place.spread for place in free.values()])
    every_row = np.ones(len(rows), bool)
    solved = solved_constants(step_rows, base, free, {}, every_row)
    optimum = np.array([*solved.values.values()])

    def loss(*shift: float) -> float:
        values = optimum + np.array(shift) * spread
        calibration = with_values(base, dict(zip(free, values.tolist(), strict=True)))
        off = np.log(step_rows.predict(calibration))
        off = (off - np.log(step_rows.measured)) / 0.03
        of_rows = 8 * np.sqrt(1 + (off / 2) ** 2)
        of_priors = ((values - start) / spread) ** 2
        return float(np.sum(of_rows) + np.sum(of_priors))

    h = 1e-3
    least = loss(0, 0)
    along_first = loss(h, 0) + loss(-h, 0) - 2 * least
    along_second = loss(0, h) + loss(0, -h) - 2 * least
    same_sign = loss(h, h) + loss(-h, -h)
    other_sign = loss(h, -h) + loss(-h, h)
    across = (same_sign - other_sign) / 4
    slopes = np.array([loss(h, 0) - loss(-h, 0), loss(0, h) - loss(0, -h)])
    curvature = np.array([[along_first, across], [across, along_second]])
    to_the_least = h * np.linalg.solve(curvature, slopes / 2)
    assert to_the_least == pytest.approx(0.0, abs=1e-3)
    in_spreads = np.linalg.inv(curvature / h**2 / 2)
    assert solved.covariance == pytest.approx(in_spreads, rel=0.2)
    stderr = np.sqrt(np.diag(in_spreads)) * spread
    assert [*solved.stderr.values()] == pytest.approx(stderr, rel=0.1)


def test_what_the_rows_do_not_determine_stays_as_in_the_base() -> None:
    places = ((1.0, 0), (2.0, 0), (1.0, 2))
    three = [timing(batch, 1024.0, gamma) for batch, gamma in places]
    fitted = made(engine(three))
    base = load_calibration(BASE)
    assert "attention_bandwidth_fraction" in fitted.fitted.pinned
    assert len(fitted.fitted.free) < 3, "three rows cannot carry three constants"
    for name in fitted.fitted.pinned:
        assert getattr(fitted.calibration, name) == getattr(base, name)
        assert name in fitted.calibration.notes
    assert f"base: {BASE}" in lines(fitted), "no other was tried"
    for (
        name,
        error,
    ) in fitted.calibration.observed_error.items():  # no length or batch lies between two others
        assert error.log_rms == pytest.approx(small_sample(USUAL[name], 5), rel=0.01)
        assert error.source == "4 groups of other servers"


def test_rows_that_scatter_widely_determine_nothing() -> None:
    wide = {"samples": (0.01, 0.01, 1.0, 9.0, 9.0)}
    two = [timing(1.0, 1024.0, 0, **wide), timing(1.0, 1040.0, 2, **wide)]
    fitted = made(engine(two, truth={}))
    assert fitted.fitted.free == ()
    assert fitted.calibration.fit is None
    assert "fitted: nothing: the rows do not say more than the base" in lines(fitted)
    assert fitted.calibration.observed_error["target_s"].rows == 2


def test_bare_passes_are_fitted_as_passes() -> None:
    """`vllm bench forward`: T_T and T_V without what an iteration spends outside them, with drafting if it
    says so.
    """
    shapes = timings(0, 3, kind="pass")
    shapes += [timing(b, 1024.0, 3, kind="pass_with_draft") for b in (1.0, 8.0)]
    rows = engine(shapes)
    by_kind = {(row.batch, row.context, row.gamma, row.kind): row.seconds for row in rows}
    baseline = by_kind[1.0, 1024.0, 0, "pass"]
    verify = by_kind[1.0, 1024.0, 3, "pass"]
    with_draft = by_kind[1.0, 1024.0, 3, "pass_with_draft"]
    assert with_draft > verify > baseline
    assert "iteration_fixed_s" not in sought(load_calibration(BASE), rows, load_model("llama-3.1-8b"))
    measured = np.array([row.seconds for row in rows])
    assert log_rms(made(rows).fitted.held_out, measured) < 0.03


def test_rows_with_much_prefill_are_set_aside_and_named() -> None:
    rows = engine(timings(0, 3))
    twice_s = 2 * rows[0].seconds
    disturbed = structs.replace(rows[0], seconds=twice_s, prefill_share=0.3, where="slow.json")
    assert usable([*rows, disturbed]) == (rows, [disturbed])
    fitted = made([*rows, disturbed])
    assert fitted.aside == (disturbed,)
    (aside,) = (line for line in lines(fitted) if line.startswith("set aside: slow.json"))
    assert "30%" in aside
    assert len(fitted.rows.timings) == len(rows)
    assert lines(fitted)[-1].startswith("held-out error")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([timing(1.0, 1024.0, 3), timing(2.0, 1024.0, 3)], "two draft lengths or more .*given 3"),
        ([timing(1.0, 1024.0, 0), timing(1.0, 1023.0, 3)], "two batches or contexts or more, given one"),
        ([], "two draft lengths or more .*given none"),
    ],
)
def test_too_little_is_refused_in_one_line(rows, says) -> None:
    refused(f"--from: (x|no file): must hold {says}.*--plan", check_enough, rows)
    says = r"--from: slow\.json: must hold two .*: 1 step is set aside because of a prefill"
    slow = structs.replace(timing(1.0, 1024.0, 3), where="slow.json")
    refused(says, check_enough, [], [slow])


def test_the_calibration_answers_questions_and_its_record_fits_it_again(tmp_path, fitted, capsys) -> None:
    record = tmp_path / "engine.json"
    record.write_text(record_text(fitted, "here-1", SUBJECT.replace(engine="sglang"), ("bench.json",)))
    assert len(read_engine_record(record).points) == 18
    files = sources_of([str(record)])
    source = served(QUERY, files, [], None, "vllm", None)
    assert (source.engine, source.engine_version) == ("vllm", "9.9"), "a flag stands before the record"
    other_draft = (QUERY, files, fitted.rows.timings, "other", None, None)
    refused("--draft: must be llama-3.2-1b, which .* was served", served, *other_draft)
    ask = ["--model", QUERY.model, "--hardware", "h100", "--draft", QUERY.draft, "--calibration", BASE]
    ask += ["--results", str(tmp_path)]
    assert run(["validate", "engine", "--from", str(record), *ask]) == 0
    source = capsys.readouterr().out
    (path,) = (tmp_path / "local-1").glob("*.yaml")
    assert path.name == "h100-sxm-80gb.sglang-9.9.yaml", "engine and version as the record says"
    assert f"error of {BASE}, which answered so far" in source
    assert f"--calibration {path}" in source
    again = load_calibration(str(path))
    for name in again.fit.parameters:
        value = getattr(fitted.calibration, name).value
        assert getattr(again, name).value == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("version", ["../../x", "", "1.0\n", "a b", "-1", "x" * 100])
def test_an_engines_version_names_a_file(version) -> None:
    assert EngineSubject.of(QUERY, "vllm", "0.32.0.dev12+gabc").engine_version == "0.32.0.dev12+gabc"
    refused("--engine, --version: engine_version", EngineSubject.of, QUERY, "vllm", version)
