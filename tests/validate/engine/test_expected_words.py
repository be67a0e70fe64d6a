"""The sentence about the acceptance that a server is expected to count."""

import pytest

from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.expected_acceptance import expected_words

EXPECTED = Acceptance("a test", (0.8, 0.6, 0.4), spread=0.1)
"""At K = 3: 1 + 0.8 + 0.8 x 0.6 + 0.8 x 0.6 x 0.4 = 2.47 tokens per iteration."""


@pytest.mark.parametrize(
    ("gained", "verdict"), [(1.5, "outside of it"), (2.5, "within it"), (5.0, "outside of it")]
)
def test_counted_tokens_are_within_the_expected_spread_or_outside(gained: float, verdict: str) -> None:
    words = expected_words(EXPECTED, 3, gained)
    assert words.startswith("expected 2.47 (")
    assert words.endswith(f", {verdict})")


def test_nothing_is_expected_beyond_the_longest_known_draft() -> None:
    assert expected_words(EXPECTED, 4, 2.5) == "expected: not known at K = 4"
