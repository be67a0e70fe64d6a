"""A bound on the time per token: what keeps it, and the one that a reader sets."""

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import READING_S


def test_a_bound_that_nothing_keeps_is_answered_with_changes_that_keep_it() -> None:
    question = {"model": "gemma-3-27b", "hardware": "a100", "context": 16384, "max_tpot_ms": 30}
    reason = advise(**question).reason
    assert "one sequence would keep it with --weights fp8, with --tp 2 or on h100" in reason
    for change in ({"weights": "fp8"}, {"tp": (2,)}):
        assert advise(**question | change).chosen.tpot_s <= 0.03
    assert "would keep" not in advise(**question | {"max_tpot_ms": 0.1}).reason


def test_a_choice_keeps_up_with_a_reader_unless_the_question_bounds_it() -> None:
    question = {"model": "gpt-oss-120b", "hardware": "dgx-spark", "tp": (2,), "context": 32768}
    free = advise(**question)
    bounded = advise(**question, max_tpot_ms=1e3 * READING_S)
    assert free.chosen == bounded.chosen
    assert free.chosen.tpot_s <= READING_S < free.unbounded.tpot_s
    assert bounded.unbounded is None
    assert free.query.max_tpot_ms is None
    assert advise(**question, max_tpot_ms=1000).chosen == free.unbounded
    assert advise(**question, batch=(118,)).unbounded is None
