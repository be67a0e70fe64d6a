"""Functions for plain numbers give what numpy's functions of the same name give."""

import numpy as np
import pytest

from perfmodel.costs.plain_numbers import NUMBERS

PLACES = [1.0, 2.0, 4.0]
VALUES = [10.0, 30.0, 20.0]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        *(("interp", (at, PLACES, VALUES)) for at in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0)),
        *(("searchsorted", (PLACES, at)) for at in (0.5, 1.0, 1.5, 4.0, 9.0)),
        *(("clip", (value, 1.0, 3.0)) for value in (0.0, 1.0, 2.0, 3.0, 4.0)),
        *(("maximum", pair) for pair in ((1.0, 2.0), (2.0, 1.0), (2.0, 2.0))),
        *(("minimum", pair) for pair in ((1.0, 2.0), (2.0, 1.0), (2.0, 2.0))),
        ("where", (True, 1.0, 2.0)),
        ("where", (False, 1.0, 2.0)),
        ("take", (VALUES, 1)),
        ("divmod", (7.5, 2.0)),
        ("negative", (1.5,)),
        *((name, (0.3,)) for name in ("ceil", "floor", "exp", "expm1", "log", "log1p", "log2", "sqrt")),
        ("isfinite", (float("inf"),)),
        ("abs", (-1.5,)),
    ],
)
def test_a_function_of_plain_numbers_is_numpys(function, inputs) -> None:
    expected = getattr(np, function)(*inputs)
    assert NUMBERS[function](*inputs) == pytest.approx(expected, rel=1e-15)


def test_a_part_is_one_of_several_results() -> None:
    assert NUMBERS["part"]((3.0, 1.5), 1) == 1.5
