"""Counts of acceptance are grouped by octaves of the context."""

import pytest

from perfmodel.validate.engine.acceptance.contexts import octaves, quantile


@pytest.mark.parametrize(
    ("contexts", "drafts", "means", "groups"),
    [
        # 70 and 100 are of one octave; 2 of 110 drafts are below a tenth, as are the 3 at 300
        ((70, 100, 150, 300, 5000), (2, 50, 45, 3, 10), (5140 / 52, 150, 50900 / 13), [[0, 1], [2], [3, 4]]),
        ((100, 5000), (91, 9), (541,), [[0, 1]]),
        ((300, 100), (10, 90), (100, 300), [[1], [0]]),
        ((100, 120), (0, 0), (110,), [[0, 1]]),
        ((100, None), (1, 2), (), [[0, 1]]),
        ((100, None), (1, 1), (100,), [[0, 1]]),
    ],
)
def test_counts_are_grouped_by_octaves_of_a_tenth_of_the_drafts(contexts, drafts, means, groups) -> None:
    by_octave = octaves(contexts, drafts)
    assert [group for _, group in by_octave] == groups
    assert [group.mean for group, _ in by_octave if group] == pytest.approx(means)
    three = [(100, 5), (200, 5), (300, 10)]
    assert quantile(three, 0.5) == 100
    assert quantile([(100, 0)], 0.5) == 100
