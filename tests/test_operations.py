"""Sums of broadcast values, and what an operation costs by default."""

import numpy as np

from perfmodel.operations import Cost, summed


def test_a_sum_broadcasts_and_alters_none_of_its_values() -> None:
    row = np.array([[1.0, 2.0]])
    column = np.array([[10.0], [20.0]])
    values = [column, 0.5, row, row, row]
    assert np.array_equal(summed(values), [[13.5, 16.5], [23.5, 26.5]])
    assert np.array_equal(row, [[1.0, 2.0]])
    assert np.array_equal(column, [[10.0], [20.0]])
    assert summed([]) == 0.0
    assert summed([1.0, 2.0]) == 3.0


def test_what_an_operation_costs_by_default() -> None:
    assert Cost(1.0, 2.0, 3.0, 4.0).bytes == 9.0
    assert Cost() == Cost(0.0, 0.0, 0.0, 0.0)
