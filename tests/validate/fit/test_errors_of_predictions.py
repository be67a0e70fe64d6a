"""Errors of predictions, by hand."""

from math import log

import numpy as np

from perfmodel.validate.fit.errors import Errors, errors_of

NAN = float("nan")


def test_errors_are_over_the_rows_that_have_both() -> None:
    """3 for 1.5 and 1 for 2: +100 % and -50 %, logarithms of 2 and 1/2; a time of 0 or none says nothing."""
    found = errors_of(np.array([3.0, 1.0, NAN, 3.0, 0.0]), np.array([1.5, 2.0, 3.0, NAN, 1.0]))
    assert found == Errors(rows=2, mape=0.75, bias=0.25, worst=1.0, log_rms=log(2))
    below = errors_of(np.array([0.5, 1.1]), np.array([1.0, 1.0]))
    assert below is not None
    assert below.worst == -0.5
    assert errors_of(np.array([NAN, 0.0]), np.array([1.0, 1.0])) is None
