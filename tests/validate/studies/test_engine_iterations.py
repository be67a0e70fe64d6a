"""Ratios of iterations: what one is made of, how rows are read, and how errors of a group are shared out."""

from dataclasses import replace
from math import log, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.specs.calibration import load_bundled
from perfmodel.specs.published_engines import engine_speculation, served, step_law
from perfmodel.validate.studies import iterations as ratios
from perfmodel.validate.studies.engines import kept
from perfmodel.validate.studies.iterations import Iteration, iterations, off_by, refits, weigh, with_values

SCENARIO = resolve(Query("llama-3.1-8b", "h100", 8, 512, 3, draft="eagle", alpha=0.7, engine="vllm"))
CALIBRATION = SCENARIO.machine.calibration


def iteration(steps: int = 3, width: int = 1, verified: int = 4, ratio: float = 1.5) -> Iteration:
    return Iteration("x", "s", "g", SCENARIO, 8.0, 512.0, steps, width, verified, ratio, 0.03, 0.1)


@pytest.fixture(scope="module")
def rows() -> list[Iteration]:
    return iterations(kept()["steps"])


def test_a_chain_drafts_one_token_a_pass_and_a_tree_a_level() -> None:
    """Three steps: three passes over one token, or one over the root and two over four tokens."""
    target, one, four = (float(x) for x in (
        SCENARIO.target_pass_s(8.0, 512.0), SCENARIO.draft_pass_s(8.0, 512.0), SCENARIO.draft_pass_s(8.0, 512.0, 4.0)
    ))  # fmt: skip
    beside = float(SCENARIO.overhead_s(8.0, 512.0))
    chain = 3 * one + float(SCENARIO.target_pass_s(8.0, 512.0, 4.0)) + beside
    tree = one + 2 * four + float(SCENARIO.target_pass_s(8.0, 512.0, 8.0)) + beside
    assert four > 1.001 * one
    assert iteration().predict(CALIBRATION) == pytest.approx(chain / target, rel=1e-9)
    assert iteration(3, 4, 8).predict(CALIBRATION) == pytest.approx(tree / target, rel=1e-9)
    two = one + float(SCENARIO.draft_pass_s(8.0, 512.0, 2.0)) + float(SCENARIO.target_pass_s(8.0, 512.0, 3.0)) + beside
    assert iteration(2, 2, 3).predict(CALIBRATION) == pytest.approx(two / target, rel=1e-9)
    assert iteration().engine == "vllm"


def test_errors_are_of_the_logarithm_of_predicted_over_measured() -> None:
    predicted = iteration().predict(CALIBRATION)
    found = off_by([iteration(ratio=predicted), iteration(ratio=predicted / 2)], {})
    assert found == pytest.approx([0.0, log(2)], abs=1e-12)


def test_a_value_of_one_engine_comes_before_that_of_all() -> None:
    sglang = load_bundled("h100-sxm-80gb.sglang")
    given = {"all.draft_pass_s": 1e-3, "sglang.draft_pass_s": 2e-3, "all.kv_reread_per_query": 0.5}
    assert with_values(sglang, given).draft_pass_s.value == 2e-3
    assert with_values(CALIBRATION, given).draft_pass_s.value == 1e-3
    assert with_values(CALIBRATION, given).kv_reread_per_query.value == 0.5
    assert with_values(CALIBRATION, given).iteration_fixed_s == CALIBRATION.iteration_fixed_s
    assert with_values(CALIBRATION, {"sglang.draft_pass_s": 9.0}) == CALIBRATION


def test_rows_of_a_group_share_a_part_of_their_error() -> None:
    """Two rows off by 0.1 and 0.3: 0.2 together, against 0.15 and 0.1 / sqrt(2), and 0.1 each way on their own."""
    made: list[Any] = [SimpleNamespace(group=g, own=own, shared=s) for g, own, s in (
        ("a", 0.1, 0.15), ("b", 0.2, 0.3), ("a", 0.1, 0.15), ("a", 0.1, 0.15), ("c", 0.1, 0.1)
    )]  # fmt: skip
    train = np.array([True, True, True, False, False])
    found = weigh(made, train)(np.array([0.1, 0.6, 0.3, 9.0, 9.0]))
    assert found == pytest.approx([0.2 / sqrt(0.15**2 + 0.005), -1.0, 1.0, 0.6 / sqrt(0.13), 0.0])


def test_rows_are_read_from_their_tables(rows: list[Iteration]) -> None:
    """Every clean chain of vLLM that was timed, every clean row of SGLang, printed speedups but n-grams', a law."""
    by, measured = {row.name: row for row in rows}, {row.id: row for row in engine_speculation()}
    timed = {r.id for r in measured.values() if r.engine == "vllm" and r.clean and r.iteration_ms and r.topk == 1}
    clean = {r.id for r in measured.values() if r.engine == "sglang" and r.clean}
    printed = {r.id: r for r in served() if r.draft != "ngram"}
    laws = {f"{step_law().id}-{batch}" for batch in (1, 4, 16, 64)}
    assert set(by) == {*timed, *clean, *printed, *laws}
    assert (len(timed), len(clean)) == (13, 19)
    for name in timed | clean:
        row, its = measured[name], by[name]
        assert (its.batch, its.context, its.steps, its.width, its.verified, its.study, its.gained) == (
            row.batch, row.context_tokens or 512.0, row.steps, row.topk, row.verified_tokens, row.source,
            row.tokens_per_iteration,
        )  # fmt: skip
        assert its.scenario.draft_shard.model.name != its.scenario.target.name
        assert its.scenario.machine.tensor_parallel == row.tensor_parallel
    assert all((by[name].own, by[name].shared) == (0.05, 0.05) for name in timed)
    assert all((by[name].own, by[name].shared) == (0.10, 0.15) for name in clean)
    for name in timed:
        assert by[name].ratio == measured[name].iteration_ms / measured[name].step_ms
    for name in clean:
        assert by[name].ratio == measured[name].tokens_per_iteration / measured[name].speedup
    for name, line in printed.items():
        its = by[name]
        assert (its.batch, its.context, its.steps, its.width, its.verified) == (
            line.batch,
            512.0,
            line.gamma,
            1,
            line.gamma + 1,
        )
        assert (its.ratio, its.own, its.shared) == (line.tokens_per_iteration / line.speedup, 0.05, 0.12)
        assert its.gained == line.tokens_per_iteration
        assert its.group == f"{line.draft} {line.task}"


def test_rows_that_prefill_disturbed_or_that_nobody_timed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of vLLM only clean chains with both times, of SGLang only clean rows; a gain of 1.5 tokens is a gain."""
    vllm = next(r for r in engine_speculation() if r.engine == "vllm" and r.clean and r.ratio and r.is_chain)
    sglang = next(r for r in engine_speculation() if r.engine == "sglang" and r.clean)
    bad: list[Any] = [replace(vllm, clean=False), replace(vllm, iteration_ms=None)]
    bad += [replace(vllm, topk=2), replace(sglang, clean=False)]
    eagle = replace(next(r for r in served() if r.draft == "eagle"), tokens_per_iteration=1.5)
    monkeypatch.setattr(ratios, "engine_speculation", lambda: [*bad, vllm])
    monkeypatch.setattr(ratios, "served", lambda: [eagle])
    found = iterations(kept()["steps"])
    assert [row.name for row in found][:2] == [vllm.id, eagle.id]
    assert len(found) == 2 + 4
    assert found[1].gained == 1.5


def test_the_law_is_a_row_at_four_batches(rows: list[Iteration]) -> None:
    """Its ratio is what one token an iteration would be slowed down by; it says nothing of what is gained."""
    found = [row for row in rows if row.group == "the law"]
    first = next(row for row in served() if row.draft == "eagle")
    assert [row.batch for row in found] == [1, 4, 16, 64]
    assert all((row.own, row.shared, row.gained, row.steps) == (0.03, 0.10, None, first.gamma) for row in found)
    for row in found:
        asked = replace(first, batch=int(row.batch), tokens_per_iteration=1.0)
        assert row.ratio * step_law().speedup(asked, 512.0, 1.0) == pytest.approx(1.0)


def test_a_fit_leaves_out_what_it_is_told_and_a_fold_its_rows(rows: list[Iteration]) -> None:
    """Two rows that the constants meet exactly, and one that asks for twice as much."""
    few = [row for row in rows if row.name in {r.id for r in engine_speculation() if r.engine == "vllm"}][:3]
    parameters = [p for p in ratios.SPECULATING if p.name != "draft_pass_s"]
    found = ratios.fit(few, parameters)
    assert set(found.values) == {p.place for p in parameters} < {p.place for p in ratios.SPECULATING}
    apart = refits(few, ["x", "y", "y"], found.values, parameters)
    assert set(apart) == {"x", "y"}
    only = ratios.fit(few[1:], parameters)  # from what is expected, and in more rounds
    assert apart["x"] == pytest.approx(only.values, rel=1e-3)
    assert apart["x"] != pytest.approx(apart["y"], rel=1e-6)
