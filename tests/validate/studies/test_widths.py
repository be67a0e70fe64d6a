"""Widths of intervals: drawn errors are covered as often as stated, and few sources borrow from others."""

import numpy as np
import pytest

from perfmodel.specs import COVERAGE, load_gpu, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.width_classes import MeasuredDraft, class_of_speedup
from perfmodel.validate.studies.widths import covered, ends, fitted, fitted_speedups, within

SOURCES = 60
ROWS = 8


def drawn(seed: int, of_source: float, of_row: float) -> list[LeftOutError]:
    """Errors of `SOURCES` sources with a common part each, Student t as those of public runs."""
    rng = np.random.default_rng(seed)
    common = of_source * rng.standard_t(4, SOURCES)
    own = of_row * rng.standard_t(4, (SOURCES, ROWS))
    offs = common[:, None] + own
    return [LeftOutError(f"s{i}", off) for i, row in enumerate(offs.tolist()) for off in row]


def sources(letter: str, count: int, off: float, device: str = "") -> list[LeftOutError]:
    """That many sources with an error each, all the same."""
    return [LeftOutError(f"{letter}{i}", off, device=device) for i in range(count)]


def test_new_sources_are_covered_as_often_as_stated() -> None:
    inside = []
    for seed in range(5):
        width = fitted({"own": drawn(seed, 0.2, 0.05)}, "own")
        assert width.sources == SOURCES
        assert width.rows == SOURCES * ROWS
        others = drawn(seed + 100, 0.2, 0.05)
        inside += [abs(error.off) <= width.log_within for error in others]
    assert np.mean(inside) == pytest.approx(COVERAGE, abs=0.04)


def test_one_source_with_many_rows_is_outvoted_by_several_with_few() -> None:
    """Its rows share their error, so forty of them say hardly more than one."""
    many = [LeftOutError("many", 0.01 + 1e-4 * i) for i in range(40)]
    several = sources("s", 4, 0.3)
    assert within({"own": [*many, *several]}, "own") == 0.3


def test_a_series_counts_about_once_where_two_of_them_cancel() -> None:
    """Two servers at forty contexts each, one told 5 % too slow and one too fast: two errors, not eighty."""
    jitter = 1e-4 * np.arange(40)
    fast = [LeftOutError("many", -0.05 - j, series="fast") for j in jitter.tolist()]
    slow = [LeftOutError("many", 0.05 + j, series="slow") for j in jitter.tolist()]
    several = sources("s", 4, 0.3)
    assert within({"own": [*fast, *slow, *several]}, "own") == 0.3


def test_a_class_with_one_source_borrows_from_the_others() -> None:
    alone = [LeftOutError("a", 0.01), LeftOutError("a", -0.02)]
    others = sources("s", 20, 0.4)
    assert within({"few": alone}, "few") == 0.02
    assert within({"few": alone, "many": others}, "few") == 0.4


@pytest.mark.parametrize(("others", "width"), [(39, 0.1), (41, 0.5)])
def test_ten_sources_of_another_class_count_as_much_as_one_of_the_class(others: int, width: float) -> None:
    """A tenth of the weight lies outside the interval: 4 of 40."""
    by_class = {"own": sources("s", 36, 0.1), "other": sources("t", others, 0.5)}
    assert within(by_class, "own") == width
    assert within(by_class, "other") == 0.5


@pytest.mark.parametrize(("others", "width"), [(19, 0.1), (21, 0.5)])
def test_five_sources_on_another_device_count_as_much_as_one_on_the_device(others: int, width: float) -> None:
    errors = [*sources("s", 36, 0.1, "hopper"), *sources("t", others, 0.5, "ampere")]
    assert within({"own": errors}, "own", "hopper") == width


@pytest.mark.parametrize(("others", "width"), [(199, 0.1), (201, 0.5)])
def test_another_class_on_the_same_device_counts_as_one_elsewhere(others: int, width: float) -> None:
    """A tenth of a fifth of the weight of one of the class: 200 weigh 4 of 40."""
    by_class = {"own": sources("s", 36, 0.1, "hopper"), "other": sources("t", others, 0.5, "hopper")}
    assert within(by_class, "own", "hopper") == width


def test_a_class_of_devices_has_its_own_width_and_hears_the_others() -> None:
    """Five sources on another device count as much as one on the device itself; an unknown device has all."""
    sure = sources("s", 20, 0.1, "hopper")
    unsure = sources("t", 10, 0.5, "ampere")
    width = fitted({"own": [*sure, *unsure]}, "own")
    assert width.devices == {"ampere": 0.5, "hopper": 0.1}
    assert width.log_within == 0.5
    unsure += sources("u", 10, 0.5, "ada")
    width = fitted({"own": [*sure, *unsure]}, "own")
    assert width.devices["hopper"] == 0.5


def test_an_error_of_a_speedup_is_relative_to_the_extra_time_of_an_iteration() -> None:
    """Of a ratio of 2, half an iteration is extra; of 1.01 a tenth is assumed."""
    error = LeftOutError.of_ratio("a", np.log(2.0 / 1.6), 1.6)
    assert error.relative == pytest.approx(np.log(1.25) / 0.5)
    assert extra_share(np.array([2.0, 1.01])).tolist() == [0.5, 0.1]


def test_speedups_leave_as_many_errors_below_their_interval_as_above_it() -> None:
    """Nineteen sources whose iterations are told too short, and one that is told too long."""
    errors = [LeftOutError(f"s{i}", -0.1 * (i + 1)) for i in range(19)] + [LeftOutError("long", 0.2)]
    interval = ends({"new": errors}, "new")
    assert (interval.below, interval.above) == pytest.approx((1.8, 0.0))
    assert (interval.half, interval.middle) == pytest.approx((0.9, -0.9))
    assert interval.hold(-1.8)
    assert not interval.hold(-1.9)
    stated = fitted_speedups({"new": errors}, "new")
    assert (stated.log_within, stated.log_middle) == pytest.approx((0.9, -0.9))
    judged = covered({"new": errors}, "new", of_speedups=True)
    assert judged["inside"] == pytest.approx(18 / 20)


def test_coverage_counts_rows_sources_and_what_was_left_out_by_judgement() -> None:
    """Judged by b's error of 0.1, one of a's rows is inside; by a's 0.5, b is; what does not count is not."""
    errors = [LeftOutError("a", off) for off in (0.1, -0.2, 0.5)]
    errors += [LeftOutError("b", 0.1), LeftOutError("b", 2.0, counts=False)]
    coverage = covered({"own": errors}, "own")
    assert coverage["rows"] == 4
    assert coverage["sources"] == 2
    assert coverage["all_rows"] == 5
    assert coverage["inside"] == pytest.approx(2 / 4)
    assert coverage["inside_sources"] == pytest.approx((1 / 3 + 1) / 2)
    assert coverage["inside_all"] == pytest.approx(2 / 5)
    assert coverage["error"] == pytest.approx(np.expm1(0.9 / 4))
    mean_width = (3 * 0.1 + 0.5) / 4
    assert coverage["width"] == pytest.approx(np.expm1(mean_width))


def test_a_draft_is_new_where_no_other_source_ran_it_in_this_engine() -> None:
    cells = [
        MeasuredDraft("vllm", "eagle", "hopper", "a"),
        MeasuredDraft("vllm", "eagle", "blackwell", "b"),
        MeasuredDraft("vllm", "mtp", "hopper", "InferenceX"),
        MeasuredDraft("llamacpp", "mtp", "apple", "c"),
    ]
    assert class_of_speedup("vllm", "eagle", "a", cells) == "known"
    assert class_of_speedup("sglang", "eagle", "a", cells) == "new"
    assert class_of_speedup("vllm", "mtp", "SemiAnalysisAI/InferenceX#870", cells) == "new"
    assert class_of_speedup("llamacpp", "mtp", "a", cells) == "llamacpp"


def test_stated_widths_are_those_of_sources_left_out() -> None:
    """Kernels of another device are less sure, and Blackwell than Hopper. A kind of draft that was never
    measured is less sure where most rows are, and predicted too fast.
    """
    stated = source_errors()
    own = stated.steps["own"]
    assert own.log_within < stated.steps["borrowed"].log_within
    on_hopper = own.log_within_on(load_gpu("h100"))
    assert on_hopper < own.log_within_on(load_gpu("b200"))
    assert own.log_within_on(load_gpu("l40s")) == own.log_within
    known, new = stated.speedups["known"], stated.speedups["new"]
    hopper = load_gpu("h100")
    assert known.log_within_on(hopper) < new.log_within_on(hopper)
    assert new.log_middle_on(hopper) < known.log_middle_on(hopper) < 0.0
    assert new.log_middle_on(load_gpu("l40s")) == new.log_middle < 0.0
