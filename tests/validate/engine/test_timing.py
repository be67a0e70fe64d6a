"""Figures of a step that no server can have are refused."""

from typing import Any

import pytest

from perfmodel.validate.engine.timing import Timing
from tests.refusals import refused

GOOD: dict[str, Any] = {"where": "x.json", "seconds": 0.01, "batch": 4.0, "context": 1000.0, "gamma": 3}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", 0.0),
        ("seconds", float("nan")),
        ("seconds", 1e6),
        ("batch", 0.0),
        ("batch", float("inf")),
        ("context", -1.0),
        ("gamma", 4097),
        ("tokens_per_iteration", 0.5),
        ("prompt", 1e10),
        ("ttft_s", float("nan")),
        ("prefill_share", 1.1),
        ("samples", (0.1, float("nan"))),
    ],
)
def test_an_impossible_step_is_one_line(name, value) -> None:
    refused(rf"x.json: {name}(\.1)?: must be", Timing.checked, **GOOD | {name: value})
