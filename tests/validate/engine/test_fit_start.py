"""Where a fit to an engine's rows starts, what the rows weigh, and which of them are compared, by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from perfmodel.specs import load_calibration, load_model
from perfmodel.validate.engine.calibrate import distinct
from perfmodel.validate.engine.constants import sought
from perfmodel.validate.engine.fit import (
    EngineRows,
    check_enough,
    least_determined,
    scatter,
    small_sample,
    usable as usable_rows,
)
from perfmodel.validate.engine.speedup_pairs import speedup_pairs
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.solving import NOTHING, Estimate, estimate
from tests.refusals import refused


def timing(batch: float, gamma: int, seconds: float, **more: Any) -> Timing:
    usual = {"where": "x", "batch": batch, "context": 1000.0, "gamma": gamma, "seconds": seconds}
    return Timing(**usual | more)


BASE = load_calibration("h100-sxm-80gb.literature")


LLAMA = load_model("llama-3.1-8b")


ROWS = (timing(1, 0, 0.010), timing(2, 1, 0.024), timing(4, 3, 0.064))


SOUGHT = [
    "attention_fixed_s",
    "pass_fixed_s",
    "token_s",
    "iteration_fixed_s",
    "iteration_sequence_s",
    "kv_reread_per_query",
    "gemm_bandwidth_fraction",
    "gemm_flops_fraction",
    "attention_bandwidth_fraction",
]


def test_where_constants_are_sought() -> None:
    """Layers 32; medians of seconds .024, by token (.010, .006, .004) .006, by sequence (.010, .012, .016)
    .012.

    Beside a baseline the priors of an iteration are a fifth of the shortest drafting one, .024 and .012 a
    sequence.
    """
    searched = sought(BASE, ROWS, LLAMA)

    def prior(name: str) -> tuple[float, float]:
        return searched[name].expected, searched[name].spread

    def bounds(name: str) -> tuple[float, float]:
        return searched[name].low, searched[name].high

    assert prior("attention_fixed_s") == pytest.approx((BASE.attention_fixed_s.value, 0.024 / 32 / 2))
    assert prior("pass_fixed_s") == pytest.approx((BASE.pass_fixed_s.value, 0.012))
    assert prior("token_s") == pytest.approx((BASE.token_s.value, 0.003))
    assert prior("iteration_fixed_s") == pytest.approx((BASE.iteration_fixed_s.value, 0.0048))
    assert prior("iteration_sequence_s") == pytest.approx((BASE.iteration_sequence_s.value, 0.0024))
    assert bounds("attention_fixed_s") == pytest.approx((0, 0.064 / 32))
    assert bounds("pass_fixed_s") == pytest.approx((0, 0.064))
    assert bounds("token_s") == pytest.approx((0, 0.010))
    assert bounds("iteration_fixed_s") == pytest.approx((0, 0.064))
    assert bounds("iteration_sequence_s") == pytest.approx((0, 0.016))
    assert prior("kv_reread_per_query") == (BASE.kv_reread_per_query.value, 0.5)
    assert bounds("kv_reread_per_query") == (0.0, 1.0)
    share = BASE.gemm_bandwidth_fraction.value
    assert prior("gemm_bandwidth_fraction") == (share, share / 2)
    assert bounds("gemm_bandwidth_fraction") == (0.02, 1.0)
    assert [*searched] == SOUGHT
    # no baseline: a twentieth of medians .044 and .014
    alone = sought(BASE, ROWS[1:], LLAMA)
    assert alone["iteration_fixed_s"].spread == pytest.approx(0.0022)
    assert alone["iteration_sequence_s"].spread == pytest.approx(0.0007)
    rows_of_passes = [structs.replace(row, kind="pass") for row in ROWS]
    passes = sought(BASE, rows_of_passes, LLAMA)
    assert [name for name in searched if name not in passes] == ["iteration_fixed_s", "iteration_sequence_s"]
    assert sought(BASE, ROWS[:1], LLAMA).keys() == passes.keys()


def test_rows_scatter_by_their_quartiles() -> None:
    assert scatter((1.0, 2.0, 3.0)) == 0.0
    assert scatter((0.0,) * 4) == 0.0
    assert scatter((1.0, 2.0, 3.0, 4.0)) == pytest.approx(1.5 / 1.349 / 2.5)


def test_an_unsteady_row_weighs_less() -> None:
    unsteady = timing(1, 0, 0.01, samples=(1.0, 2.0, 3.0, 4.0))
    rows = EngineRows((timing(1, 0, 0.01), unsteady), None)
    assert rows.noise == pytest.approx([0.03, 0.03 * scatter(unsteady.samples) / 0.2])


def test_few_rows_make_an_error_as_wide_as_students_distribution() -> None:
    """The 95th percentile of Student's distribution over that of the normal one, 1.644854."""
    assert small_sample(1.0, 2) == pytest.approx(6.313752 / 1.644854)
    assert small_sample(1.0, 1) == pytest.approx(6.313752 / 1.644854)
    assert small_sample(2.0, 6) == pytest.approx(2 * 2.015048 / 1.644854)


@pytest.mark.parametrize(
    ("errors", "rows", "at_bound", "name"),
    [
        ((0.4, 0.45), 3, (), None),
        ((0.4, 0.55), 3, (), "pass_fixed_s"),
        ((0.4, 0.45), 2, (), "pass_fixed_s"),
        ((0.6, 0.55), 3, ("pass_fixed_s",), "pass_fixed_s"),
    ],
)
def test_a_constant_that_the_rows_say_least_of(errors, rows, at_bound, name) -> None:
    """Its standard error is above half of its unit, it is at a bound, or there are no more rows than
    constants.
    """
    first_two = itertools.islice(sought(BASE, ROWS, LLAMA).items(), 2)
    free = dict(first_two)
    values = dict.fromkeys(free, 1.0)
    covariance = np.diag(np.array(errors) ** 2)
    end = Estimate(tuple(free.values()), values, NOTHING, covariance, at_bound)
    assert least_determined(free, end, rows) == name


def test_of_no_constants_none_is_least_determined() -> None:
    nothing = estimate([], lambda values: np.zeros(0))
    assert least_determined({}, nothing, 0) is None


def test_a_row_with_too_much_prefill_is_set_aside() -> None:
    at_the_limit = timing(1, 0, 1.0, prefill_share=0.06)
    beyond = timing(1, 0, 1.0, prefill_share=0.061)
    assert usable_rows([at_the_limit, beyond]) == ([at_the_limit], [beyond])


@pytest.mark.parametrize(
    ("files", "names"), [(4, "a0, a1, a2, a3: must"), (5, "a0, a1, a2, a3 and 1 more: must")]
)
def test_files_of_too_few_rows_are_named(files: int, names: str) -> None:
    rows = [timing(1, 0, 1.0, where=f"a{i}: run") for i in range(files)]
    refused(names, check_enough, rows)


def test_a_row_in_several_files_counts_once() -> None:
    one = timing(4, 3, 2.0)
    other = timing(4, 3, 3.0)
    again = structs.replace(one, where="again")
    assert distinct([one, again, other]) == [one, other]


def test_a_speedup_has_a_plain_step_of_its_batch_within_a_tenth_of_its_context() -> None:
    drafting = timing(2, 3, 0.1)
    plain = timing(2, 0, 0.1)
    short = timing(2, 0, 0.1, context=899.0)
    long = timing(2, 0, 0.1, context=1111.0)
    nearest = timing(2, 0, 0.1, context=900.0)
    assert speedup_pairs([drafting, short, nearest, plain]) == [(0, 2)]
    of_one_pass = structs.replace(plain, kind="pass")
    assert speedup_pairs([drafting, timing(4, 0, 0.1), of_one_pass]) == []
    assert speedup_pairs([long, drafting]) == [(1, 0)]
