"""Borrowed constants: each row is predicted by the other engines alone, and the widths hold nine in ten."""

from collections.abc import Iterator

import pytest

from perfmodel.specs import load_gpu, source_errors
from perfmodel.validate.studies.iterations import iterations
from perfmodel.validate.studies.other_engines import FIGURES, left_out_errors
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import public_runs
from perfmodel.validate.studies.sources_file import recorded_sources
from perfmodel.validate.studies.width_classes import OTHER_ENGINE

RECORD = recorded_sources()


def pairs(figure: str) -> Iterator[tuple[str, str]]:
    """The engine of each row, and the one whose constants predicted it."""
    engine_of = {run.id: run.engine for run in public_runs()} | {row.name: row.engine for row in iterations()}
    for lender, errors in RECORD["other_engines"][figure].items():
        yield from ((engine_of[name], lender) for name in errors)


@pytest.mark.parametrize("figure", FIGURES)
def test_no_row_is_predicted_by_its_own_engine(figure: str) -> None:
    asked = set(pairs(figure))
    assert all(engine != lender for engine, lender in asked)
    assert {lender for _, lender in asked} == ENGINES.keys()


@pytest.mark.parametrize(("figure", "nearest"), [("step", "borrowed"), ("speedup", "new")])
def test_another_engines_constants_are_less_sure_than_what_is_nearest_to_them(
    figure: str, nearest: str
) -> None:
    """Less sure than kernels of another device, and than a kind of draft that the engine never ran."""
    of_figure = {"step": source_errors().steps, "speedup": source_errors().speedups}[figure]
    for name in ("h100", "b200", "rtx-5090"):
        gpu = load_gpu(name)
        assert of_figure[OTHER_ENGINE].log_within_on(gpu) > 1.15 * of_figure[nearest].log_within_on(gpu)
    covered = RECORD["coverage"][figure][OTHER_ENGINE]
    assert 0.85 <= covered["inside"] <= 0.95


def test_errors_of_a_speedup_and_of_a_ratio_have_opposite_signs() -> None:
    """A speedup that is predicted too large is an iteration that is predicted too short."""
    run = next(run for run in public_runs() if run.speedup and run.tokens_per_iteration and run.counts)
    row = iterations()[0]
    by_lender = {
        "step": {},
        "speedup": {"sglang": {run.id: 0.2}},
        "ratio": {"sglang": {row.name: 0.2}},
    }
    of_run, of_table = left_out_errors(by_lender)["speedup"]
    assert (of_run.source, of_run.off) == (run.source_id, -0.2)
    assert (of_table.source, of_table.off) == (row.study, 0.2)
