"""A draft that is longer than its acceptance was measured for accepts less at each further position."""

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.specs.acceptance.acceptance_library import acceptance_library


def test_positions_beyond_the_published_ones_accept_less() -> None:
    """EAGLE-3 of Qwen3-8B: seven positions were published. A draft of nine gains less than twice what the
    eighth token could add.
    """
    question = {"batch": 4, "context": 400, "draft": "eagle3"}
    seven, eight, nine = (whatif("qwen3-8b", "h100", gamma=g, **question).acceptance for g in (7, 8, 9))
    eighth = eight.tokens_per_iteration - seven.tokens_per_iteration
    assert 0 < nine.tokens_per_iteration - eight.tokens_per_iteration < eighth
    assert (
        f"each position beyond 7 at {acceptance_library().typical.decay('eagle3'):.2f} of the one before"
        in nine.source
    )


def test_a_tokens_per_iteration_is_not_carried_far_beyond_its_draft_length() -> None:
    """Measured at 1 token: positions 2 and 3 accept 0.90 and 0.90^2 of it, as other MTP layers do, and longer
    drafts are not recommended.
    """
    query = Query("qwen3.5-27b", "h100", 1, 4096, draft="mtp", gamma=1, tokens_per_iteration=1.9)
    a = whatif(query)
    assert a.gamma_optimal <= 3
    decay = acceptance_library().typical.decay("mtp")
    assert f"each position beyond 1 at {decay:.2f} of the one before" in a.acceptance.source
    assert a.acceptance.tokens_per_iteration == pytest.approx(1.9)
    rates = f"0.9/{0.9 * decay:.12g}/{0.9 * decay**2:.12g}"
    by_position = whatif(query, tokens_per_iteration=None, rate=rates, gamma=None)
    assert a.speedup_at_gamma_optimal == pytest.approx(by_position.speedup)
