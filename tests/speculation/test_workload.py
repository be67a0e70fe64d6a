"""What a workload may be: both ends of each axis, and one step beyond them."""

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.speculation import Workload

LARGEST = 2.0**40


def test_numbers_at_the_ends_of_what_is_allowed() -> None:
    one, most = Workload.of(1, 1, 0), Workload.of(LARGEST, [LARGEST], 1024)
    assert (one.batch, one.context, one.gamma) == (1.0, 1.0, 0)
    assert (most.batch, most.context.tolist(), most.gamma) == (LARGEST, [LARGEST], 1024)
    assert most.gamma.dtype == np.int64
    assert Workload.of(3, 4).gamma == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0.999, 1, 0), "--batch: must be numbers from 1 to 1099511627776, given 0.999"),
        ((0, 1, 0), "--batch: .* given 0$"),
        ((LARGEST * 1.001, 1, 0), "--batch: must be numbers from 1"),
        ((1, 0.5, 0), "--context: must be numbers from 1 to 1099511627776, given 0.5"),
        ((1, [5, 2 * LARGEST, 0], 0), "--context: .* given 2199023255552$"),
        ((1, 1, -1), "--gamma: must be whole numbers from 0 to 1024, given -1$"),
        ((1, 1, 1025), "--gamma: .* given 1025$"),
        ((1, 1, [3, 2.5]), "--gamma: .* given 2.5$"),
        ((1, float("nan"), 0), "--context: must be finite numbers"),
        (([], 1, 0), "--batch: must be finite numbers"),
        (("many", 1, 0), "--batch: must be a number, given 'many'"),
        (({}, 1, 0), "--batch: must be a number, given 'dict'"),
        (([1, 2], [1, 2, 3], 0), "of shapes that broadcast together"),
    ],
)
def test_one_step_beyond_is_refused(given: tuple, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Workload.of(*given)
