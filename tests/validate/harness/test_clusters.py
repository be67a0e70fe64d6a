"""Standard errors of acceptance over documents."""

import math

import pytest

from perfmodel.validate.harness.clusters import ratio_error, standard_error


def test_by_hand() -> None:
    """Documents of 4 and 6 iterations that gained 8 and 9 tokens: ratio 1.7, residuals 1.2 and -1.2."""
    assert ratio_error([8, 9], [4, 6]) == pytest.approx(math.sqrt(2 * (1.2**2 + 1.2**2)) / 10)
    found = standard_error([[1, 2, 1], [4, 1, 1], [0, 0, 0]])
    assert found is not None
    assert found["documents"] == 2, "one that ended with its first token says nothing"
    assert found["tokens_per_iteration"] == ratio_error([8, 9], [4, 6])
    assert found["positions"] == [ratio_error([3, 2], [4, 6]), ratio_error([1, 1], [3, 2])]
