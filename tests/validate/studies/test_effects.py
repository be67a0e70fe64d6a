"""Widths of intervals: drawn errors with known scales give back these scales and cover new sources."""

import numpy as np
import pytest

from perfmodel.specs import COVERAGE, source_errors
from perfmodel.validate.studies.effects import FREEDOM, log_within, log_within_of_prior, scales
from perfmodel.validate.studies.widths import (
    Cell,
    LeftOutError,
    class_of_speedup,
    covered,
    fitted,
    without_each,
)

SOURCES, SERVERS, ROWS = 60, 3, 4


def drawn(seed: int, source: float, server: float, row: float) -> list[LeftOutError]:
    """Errors of `SOURCES` sources with `SERVERS` servers of `ROWS` rows each."""
    rng = np.random.default_rng(seed)
    errors = []
    for i in range(SOURCES):
        of_source = source * rng.standard_t(FREEDOM)
        for j in range(SERVERS):
            shared = of_source + server * rng.standard_t(FREEDOM)
            offs = shared + row * rng.standard_t(FREEDOM, ROWS)
            errors += [LeftOutError(f"s{i}", f"v{j}", off) for off in offs.tolist()]
    return errors


def test_the_scales_of_drawn_errors_are_found_and_new_sources_are_covered() -> None:
    inside = []
    for seed in range(5):
        found = fitted(drawn(seed, source=0.2, server=0.1, row=0.03), draws=1000)
        assert (found.source, found.server, found.row) == pytest.approx((0.2, 0.1, 0.03), rel=0.4)
        assert found.sources == SOURCES
        assert found.rows == SOURCES * SERVERS * ROWS
        new = drawn(seed + 100, source=0.2, server=0.1, row=0.03)
        inside += [abs(e.off) <= found.log_within for e in new]
    assert np.mean(inside) == pytest.approx(COVERAGE, abs=0.04)


def test_few_sources_and_far_ones_make_an_interval_wider() -> None:
    many = [LeftOutError(f"s{i}", "v", off) for i in range(40) for off in (0.1, 0.12)]
    few = [e for e in many if e.source in ("s0", "s1", "s2")]
    far = [*many, *(LeftOutError("far", "v", 1.5) for _ in range(9))]
    assert fitted(few).log_within > 1.2 * fitted(many).log_within
    assert fitted(many).log_within < fitted(far).log_within < 1.5 * fitted(many).log_within


def test_a_width_is_the_same_each_time_and_exists_without_any_row() -> None:
    off = np.array([0.1, -0.1, 0.2])
    one, again = (log_within(scales(off, "aab", "stu", draws=200)) for _ in range(2))
    assert one == again
    assert 0.1 < log_within_of_prior() < 2.0


def test_coverage_counts_rows_sources_and_what_was_left_out_by_judgement() -> None:
    """Source a has three rows, two inside; b has one, inside; one left out by judgement is outside."""
    errors = [LeftOutError("a", 1, off) for off in (0.1, -0.2, 0.5)]
    errors += [LeftOutError("b", 1, 0.1), LeftOutError("b", 2, 2.0, counts=False)]
    found = covered(errors, {"a": 0.3, "b": 0.2})
    assert found["rows"] == 4
    assert found["sources"] == 2
    assert found["all_rows"] == 5
    shares = found["inside"], found["inside_sources"], found["inside_all"]
    assert shares == pytest.approx((3 / 4, (2 / 3 + 1) / 2, 3 / 5))
    assert found["error"] == pytest.approx(np.expm1(0.9 / 4))
    assert found["width"] == pytest.approx(np.expm1(1.1 / 4))


def test_each_source_is_judged_by_a_width_that_has_not_seen_it() -> None:
    errors = [LeftOutError("near", i, off) for i, off in enumerate((0.02, -0.01, 0.01, 0.03))]
    errors += [LeftOutError("far", i, 0.8) for i in range(4)]
    found = without_each(errors)
    assert found["far"] < 0.5 < found["near"]


def test_a_draft_is_new_where_no_other_source_ran_it_in_this_engine() -> None:
    cells = [
        Cell("vllm", "eagle", "hopper", "a"),
        Cell("vllm", "eagle", "blackwell", "b"),
        Cell("vllm", "mtp", "hopper", "InferenceX"),
        Cell("llamacpp", "mtp", "apple", "c"),
    ]
    assert class_of_speedup("vllm", "eagle", "a", cells) == "known"
    assert class_of_speedup("sglang", "eagle", "a", cells) == "new"
    assert class_of_speedup("vllm", "mtp", "SemiAnalysisAI/InferenceX#870", cells) == "new"
    assert class_of_speedup("llamacpp", "mtp", "a", cells) == "llamacpp"


def test_stated_widths_are_those_of_sources_left_out() -> None:
    """Kernels of another device and drafts that were never measured are less sure."""
    stated = source_errors()
    assert stated.steps["own"].log_within < stated.steps["borrowed"].log_within
    assert stated.speedups["known"].log_within < stated.speedups["new"].log_within
