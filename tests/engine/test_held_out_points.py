"""Which points of a live engine no fit sees, and which errors are too large."""

import pytest

from perfmodel.validate.engine.timing import Timing
from tests.engine.held_out import HELD_OUT_BATCH, HELD_OUT_GAMMA, is_held_out, missed


@pytest.mark.parametrize(
    ("batch", "gamma", "held_out"),
    [
        (1, 2, False),
        (HELD_OUT_BATCH, 2, True),
        (1, HELD_OUT_GAMMA, True),
        (HELD_OUT_BATCH, HELD_OUT_GAMMA, True),
    ],
)
def test_a_draft_length_and_a_batch_are_held_out(batch: int, gamma: int, held_out: bool) -> None:
    timing = Timing(seconds=0.01, batch=batch, context=1000, gamma=gamma)
    assert is_held_out(timing) is held_out


def test_only_an_error_above_the_wanted_one_of_its_figure_is_missed() -> None:
    errors = {"server": {"tpot": 0.061, "speedup": 0.08, "other": 9.0}, "n-grams": {"speedup": 0.5}}
    assert list(missed(errors, {"tpot": 0.06, "speedup": 0.08})) == [
        "server: tpot 6.1%",
        "n-grams: speedup 50.0%",
    ]
