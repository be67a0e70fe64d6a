"""Acceptance figures of vLLM without rates of positions: their constant rate, and the draft length."""

import pytest

from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.acceptance import AcceptanceSubject, draft_length, import_file, import_text
from tests.refusals import refused
from tests.validate.engine.figures import acceptance, subject

LINE = "SpecDecoding metrics: {mean}Draft acceptance rate: 51.7%, Accepted: {} tokens, Drafted: {} tokens\n"
MEAN = "Mean acceptance length: {}, "
PAGE = (
    'vllm:spec_decode_num_drafts_total{{engine="0"}} {}\n'
    'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {}\n'
    'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {}\n'
)
SUBJECT = AcceptanceSubject("target", "draft", "full", (4096,), 3, gamma_given=False)


def tokens_per_iteration(text: str) -> float:
    (row,) = import_text("figures", text, None, SUBJECT).rows
    assert row.alpha is not None
    return float(Acceptance.from_alpha(row.alpha).tokens_per_iteration(3))


def test_log_lines_count_together() -> None:
    """1,000 drafts of three tokens with 1,550 accepted, and 200 with 50 accepted."""
    text = LINE.format(1550, 3000, mean="") + LINE.format(50, 600, mean="")
    assert tokens_per_iteration(text) == pytest.approx(1 + 1600 / 1200)
    refused("nothing was drafted", import_text, "x", LINE.format(0, 0, mean=""), None, SUBJECT)
    refused("Accepted: must be from 1 to 4", import_text, "x", LINE.format(9, 8, mean=""), None, SUBJECT)


def test_a_page_counts_drafts_and_accepted_tokens() -> None:
    text = PAGE.format(1000, 1550, 3000)
    assert tokens_per_iteration(text) == pytest.approx(2.55)
    assert draft_length(text) == 3


def test_the_draft_length_follows_from_the_mean_of_a_line() -> None:
    """1.55 accepted tokens per draft and 1,550 in all are 1,000 drafts."""
    of_three = LINE.format(1550, 3000, mean=MEAN.format(2.55))
    of_five = LINE.format(1550, 5000, mean=MEAN.format(2.55))
    assert draft_length(of_three) == 3
    assert draft_length(of_three + of_three) == 3
    assert draft_length(of_three + of_five) is None


@pytest.mark.parametrize(
    ("mean", "accepted", "drafted"),
    [("2.5.1", "5", "10"), ("2.5", "9" * 400, "10"), ("2.5", "5", "9" * 400), ("1.0", "0", "10")],
)
def test_a_line_that_cannot_be_right_shows_no_draft_length(mean: str, accepted: str, drafted: str) -> None:
    assert draft_length(LINE.format(accepted, drafted, mean=MEAN.format(mean))) is None


TOTALS = (
    "INFO 03-19 metrics.py:477] Speculative metrics: Draft acceptance rate: 0.612, System efficiency: "
    "0.540, Number of speculative tokens: 4, Number of accepted tokens: 4231, Number of draft tokens: 6914, "
    "Number of emitted tokens: {emitted}.\n"
)


def test_the_totals_of_vllms_first_engine_state_length_and_rate(tmp_path) -> None:
    """6,914 tokens in drafts of four are 1,728.5 drafts. The last line has all since the start."""
    path = tmp_path / "log"
    path.write_text(TOTALS.format(emitted=1800) + TOTALS.format(emitted=4988))
    assert draft_length(path.read_text()) == 4
    measured = acceptance(path, 4, tmp_path)
    assert measured.tokens_per_iteration(4) == pytest.approx(4988 / 1728.5)
    path.write_text(TOTALS.format(emitted=9000))
    refused("Number of emitted tokens: must be from 1 to 5", import_file, path, None, subject(4))
