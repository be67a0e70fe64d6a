"""Compiled formulas repeat the values of the formulas, and what-ifs do not change by them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.costs.compiled import Program
from perfmodel.costs.formulas import PATIENCE, Formula, Runs
from perfmodel.costs.recorded import Untraceable

EXACT = 1e-9


def test_a_program_repeats_a_formula() -> None:
    def formula(a, b):
        waves, left = np.divmod(a, 7.0)
        table = np.interp(np.log(a), [0.0, 1.0, 3.0], [2.0, 5.0, 4.0])
        chosen = np.where(np.greater(b, 2.0), table, -b)
        highest = np.maximum(chosen, a**0.5)
        return np.clip(waves, 1.0, 3.0) * left + highest + 0.0 * b + np.ceil(b)

    program = Program(formula, "a", "b")
    a = np.linspace(1.0, 40.0, 5000)
    b = np.linspace(0.0, 5.0, 5000)
    np.testing.assert_array_equal(program(a, b), formula(a, b))
    for x, y in zip(a[::500], b[::500], strict=True):
        assert program.number(x, y) == pytest.approx(formula(x, y), rel=1e-15)
    assert program.number(1.0, 0.0) == program(1.0, 0.0)


def test_a_program_counts_comparisons() -> None:
    """In a program, too, the sum of two true ones is 2."""

    def formula(a):
        above = [np.greater(a, limit).astype(float) for limit in (1.0, 2.0)]
        below = sum((np.less(a, limit) for limit in (3.0, 4.0)), start=0.0)
        return below - 5.0 * sum(above)

    program = Program(formula, "a")
    a = np.linspace(0.0, 5.0, 50)
    np.testing.assert_array_equal(program(a), formula(a))
    assert program.number(2.5) == formula(np.float64(2.5))


@pytest.mark.parametrize(
    "compare",
    [
        *(partial(each, 2.0) for each in (np.greater, np.greater_equal, np.less, np.less_equal, np.equal)),
        np.isfinite,
    ],
)
def test_a_comparison_keeps_the_0_that_makes_it_a_number(compare: Callable[..., Any]) -> None:
    """Numpy adds true and true to true, but 1.0 and 1.0 to 2.0."""
    program = Program(lambda a: compare(a) + 0.0, "a")
    assert "+ 0.0" in program.source
    assert program(np.array([1.0, 2.0, 3.0])).tolist() == (compare(np.array([1.0, 2.0, 3.0])) + 0.0).tolist()


def test_a_program_refuses_a_formula_that_needs_the_value() -> None:
    with pytest.raises(Untraceable):
        Program(lambda a: 1.0 if a > 3.0 else 2.0, "a")
    with pytest.raises(Untraceable):
        Program(lambda a: np.asarray(a) + 1.0, "a")


def test_a_division_by_zero_is_numpys() -> None:
    def formula(a):
        inverse = 1.0 / np.maximum(a, 0.0)
        return np.where(a > 0.0, inverse, 7.0)

    program = Program(formula, "a")
    with np.errstate(divide="ignore"):
        assert program.number(0.0) == 7.0


def test_a_number_too_large_is_infinite_as_in_numpy() -> None:
    program = Program(lambda a: np.exp(a), "a")
    with np.errstate(over="ignore"):
        assert program.number(1000.0) == np.inf


def test_a_constant_can_be_infinite() -> None:
    program = Program(lambda a: np.where(np.greater(a, 2.0), np.inf, a), "a")
    assert [program.number(a) for a in (1.0, 3.0)] == [1.0, np.inf]
    assert program(np.linspace(1.0, 3.0, 50))[-1] == np.inf


def test_values_that_do_not_depend_on_the_arguments_can_be_changed_one_by_one() -> None:
    values = Program(lambda a: 7.0, "a")(np.linspace(1.0, 3.0, 50))
    values[0] = 1.0
    assert values[:2].tolist() == [1.0, 7.0]


def test_a_formula_that_is_asked_often_gives_the_same_values() -> None:
    """Its first values are those of the formula, the later ones those of its program."""
    evaluated = []

    def formula(batch, context):
        evaluated.append(batch)
        return np.maximum(batch * 3.0, context) / (1.0 + batch)

    runs = Runs()
    often = Formula(formula, "batch", "context", runs=runs)
    batches = [float(batch) for batch in range(3 * PATIENCE)]
    first = [often.at(batch, 9.0) for batch in batches]
    assert len(evaluated) == PATIENCE + 1  # the last one was recorded
    assert first == [formula(batch, 9.0) for batch in batches]
    assert [often.at(batch, 9.0) for batch in batches] == first
    other = Formula(formula, "batch", "context", runs=runs)  # of the same question: compiled at once
    contexts = np.geomspace(1.0, 1e6, 50)
    two_batches = np.array([[1.0], [8.0]])
    along = other.along("context", two_batches)
    np.testing.assert_array_equal(along(contexts), formula(two_batches, contexts))


def test_a_formula_without_a_program_stays_one() -> None:
    def formula(batch):
        return 1.0 if batch > 3.0 else 2.0

    often = Formula(formula, "batch", runs=Runs())
    values = {often.at(5.0 + number) for number in range(2 * PATIENCE)}
    assert values == {1.0}
    assert often.at(1.0) == 2.0


def test_a_program_of_several_values_and_one_along_a_number() -> None:
    def several(a, b):
        return a + b, a * b, 7.0

    def one(a, b):
        return np.exp(a) * b + np.sqrt(a)

    program = Program(several, "a", "b")
    assert program.numbers(2.0, 3.0) == (5.0, 6.0, 7.0)
    product = Program(one, "a", "b")
    a = np.array([[1.0], [2.0]])
    b = np.linspace(0.0, 5.0, 30)
    along = product.along("b", a)
    np.testing.assert_array_equal(along(b), one(a, b))


@pytest.mark.parametrize("draft", ["eagle3", "self", "ngram", "dflash", "mtp"])
def test_a_what_if_answers_the_same_when_its_passes_are_compiled(draft: str) -> None:
    question = Query("deepseek-v3", "h200", 32, 4096, tp=8, draft=draft, alpha=0.75)
    first = whatif(question)
    for context in range(5000, 5000 + PATIENCE):
        whatif(question, context=context)
    assert whatif(question) == first
    compiled = whatif(question, batch=33).as_dict()
    seldom = whatif(question, batch=33, hardware="h200-sxm-141gb").as_dict()  # by a name that nobody asked
    assert _figures(compiled) == pytest.approx(_figures(seldom), rel=EXACT)


def _figures(answer: object) -> list[float]:
    """All numbers of an answer, in order."""
    if isinstance(answer, dict):
        return [each for value in answer.values() for each in _figures(value)]
    if isinstance(answer, list | tuple):
        return [each for value in answer for each in _figures(value)]
    return [float(answer)] if isinstance(answer, int | float) else []


def test_a_program_refuses_a_sum_over_an_axis() -> None:
    """A recorded number stands for one element, and a reduction needs all of them."""
    with pytest.raises(Untraceable, match=r"add\.reduce"):
        Program(lambda a: np.add.reduce(a), "a")
