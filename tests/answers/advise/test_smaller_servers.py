"""Servers with smaller weights that an answer recommends to run first. Made-up servers."""

from types import SimpleNamespace

import pytest

from perfmodel.answers.advice.run_first import RunFirst
from perfmodel.answers.advice.smaller_servers import first_of_smaller


def served(gpus: int, request_s: float) -> SimpleNamespace:
    return SimpleNamespace(candidate=SimpleNamespace(layout=SimpleNamespace(gpus=gpus)), request_s=request_s)


@pytest.mark.parametrize(
    ("gpus", "request_s", "by_cost", "is_first"),
    [
        (10, 0.6, False, True),
        (10, 0.61, False, False),
        (6, 2.0, False, True),
        (7, 0.5, False, False),
        (8, 2.0, True, True),
        (9, 0.5, True, False),
        (10, 0.61, True, False),
    ],
)
def test_three_fifths_of_the_gpus_or_of_the_time_and_by_cost_four_fifths_of_the_gpus(
    gpus, request_s, by_cost, is_first
) -> None:
    smaller = SimpleNamespace(
        flags="--weights fp8",
        gain="less time",
        served=served(gpus, request_s),
        alternative=SimpleNamespace(line="vllm serve some/checkpoint"),
    )
    expected = RunFirst("Run the server with --weights fp8 first: less time", "vllm serve some/checkpoint")
    assert first_of_smaller(served(10, 1.0), [smaller], by_cost) == (expected if is_first else None)


def test_without_smaller_servers_none_is_first() -> None:
    assert first_of_smaller(served(10, 1.0), []) is None
