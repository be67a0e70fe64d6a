"""Loads that are not answered: incomplete ones, and requests that the model has no positions for."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.load.traffic import traffic
from perfmodel.errors import InputError
from tests.answers.advise.loads import LOAD


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"request_rate": 1}, "request_rate, clients: need input_len and output_len"),
        ({"input_len": 100}, "input_len: needs request_rate or clients"),
        ({"request_rate": 1, "clients": 2, **LOAD}, "must be left out with"),
        ({"request_rate": 1, "batch": 2, **LOAD}, "must be left out with"),
    ],
)
def test_an_incomplete_load_is_refused(load: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        advise("llama-3.1-8b", "h100", **load)


def test_requests_beyond_the_positions_are_refused_as_traffic_does() -> None:
    for ask in (advise, traffic):
        with pytest.raises(InputError, match="input_len: must be at most the 40960 positions of qwen3-8b"):
            ask("qwen3-8b", "h100", request_rate=1, input_len=40_000, output_len=2_000)
