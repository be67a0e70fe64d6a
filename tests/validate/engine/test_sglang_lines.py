"""The figures of SGLang's decoding log and of its gauges."""

from perfmodel.validate.engine.acceptance.sglang_log import (
    LogLine,
    damaged_figures,
    gauges_as_lines,
    log_lines,
)

HYBRID = (
    "Decode batch, #running-req: 8, #full token: 4096, full token usage: 0.02, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True"
)
PLAIN = "Decode batch. #running-req: 4, #token: 2000, token usage: 0.01, accept len: 1.75, cuda graph: True"


def test_a_line_states_requests_tokens_and_acceptance() -> None:
    """A model with sliding windows counts ``#full token``."""
    assert log_lines(f"{HYBRID}\n{PLAIN}\n") == [LogLine(8, 4096, 2.5, 0.5), LogLine(4, 2000, 1.75, 0)]


def test_a_line_that_ends_within_its_accept_length_is_left_out() -> None:
    """The accept length has two decimals."""
    whole = PLAIN.partition(", cuda")[0]
    assert log_lines(whole) == [LogLine(4, 2000, 1.75, 0)]
    for characters in (1, 2, 3):
        assert log_lines(whole[:-characters]) == []


def test_an_implausible_figure_is_quoted_as_printed() -> None:
    assert damaged_figures(f"{HYBRID}\n{PLAIN}") is None
    huge = "9" * 400
    assert damaged_figures(f"{HYBRID}\n{PLAIN.replace('2000', huge)}") == f"4 {huge} 1.75"


def test_a_page_needs_both_gauges() -> None:
    """Two servers on one page have the mean of their gauges."""
    length = 'sglang:spec_accept_length{rank="0"} 2.0\nsglang:spec_accept_length{rank="1"} 3.0\n'
    rate = 'sglang:spec_accept_rate{rank="0"} 0.4\nsglang:spec_accept_rate{rank="1"} 0.6\n'
    assert gauges_as_lines(length + rate) == [LogLine(1, 0, 2.5, 0.5)]
    assert gauges_as_lines(length) == []
    assert gauges_as_lines(rate) == []
