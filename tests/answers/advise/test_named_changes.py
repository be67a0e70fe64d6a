"""Which changes of a question `advise` names next to its choice."""

import pytest

from perfmodel.answers.advice.better_changes import BETTER_FORMAT, BETTER_SWITCH, _is_named


@pytest.mark.parametrize(
    ("gain", "enough", "before", "named"),
    [
        (1.05, BETTER_SWITCH, None, True),
        (1.04, BETTER_SWITCH, None, False),
        (1.5, BETTER_FORMAT, None, True),
        (1.49, BETTER_FORMAT, None, False),
        (1.8, BETTER_FORMAT, 1.5, True),
        (1.79, BETTER_FORMAT, 1.5, False),
        (1.5, BETTER_FORMAT, 1.05, True),
    ],
)
def test_a_format_needs_half_more_and_a_fifth_more_than_one_that_loses_less(
    gain, enough, before, named
) -> None:
    assert _is_named(gain, enough, before) is named
