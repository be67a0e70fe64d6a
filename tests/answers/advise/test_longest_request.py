"""The longest sequence that a server of `advise` accepts under a load."""

import functools

import numpy as np
import pytest

from perfmodel.answers.advice.longest_request import longest_request
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.speculation import Scenario, memory_of


@functools.cache
def server() -> Scenario:
    return resolve_costs(Query("llama-3.1-8b", "h100", 1, 1000, gamma=0))


@pytest.mark.parametrize(
    ("mean", "context", "stated", "longest"),
    [
        (1000, 500, None, 4000),
        (1000, 2000, None, 8000),
        (50_000, 500, None, 131_072),
        (1000, 500, 777, 777),
    ],
)
def test_four_times_the_mean_request_within_the_positions_of_the_model(
    mean, context, stated, longest
) -> None:
    assert longest_request(server(), None, stated, mean, context, 1, 0) == longest


def test_the_longest_of_nine_lengths_that_fits_for_all_sequences() -> None:
    lengths = np.floor(np.geomspace(4000, 1000, 9))
    fits = memory_of(server(), 240.0, lengths, 0.0, None).fits
    assert 0 < fits.sum() < 9
    assert longest_request(server(), None, None, 1000, 500, 240, 0) == lengths[fits].max()


def test_the_mean_request_is_accepted_even_if_it_does_not_fit_for_all_sequences() -> None:
    assert not memory_of(server(), 5000.0, 1000.0, 0.0, None).fits
    assert longest_request(server(), None, None, 1000, 500, 5000, 0) == 1000
