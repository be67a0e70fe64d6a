"""Counters of accepted tokens: what log lines add up to, and what a schedule of draft lengths does to it."""

import pytest

from perfmodel.validate.engine.acceptance import draft_length, possible_lengths, vllm as vllm_figures
from perfmodel.validate.engine.acceptance.counters import Counters
from tests.refusals import refused
from tests.validate.engine.figures import page


@pytest.mark.parametrize(
    ("accepted", "rates"),
    [("10", "0.5.5"), ("10", "1.5, 0.2"), ("10", ", ,"), ("10", "."), ("9" * 400, "0.5")],
)
def test_a_log_line_of_vllm_states_rates(accepted, rates) -> None:
    line = (
        f"SpecDecoding metrics: Accepted: {accepted} tokens, Drafted: 20 tokens, Per-position acceptance "
        f"rate: {rates}, Avg"
    )
    refused("SpecDecoding metrics", vllm_figures.read_counters, "x.txt", line)


def test_log_lines_are_added_by_their_drafts() -> None:
    """9 tokens at .8 + .6 + .4 and 6 at .8 + .4 are 5 drafts each; 8 tokens over two positions, none right,
    are 4; 3 of 3 at one position are 3.
    """
    line = (
        "SpecDecoding metrics: Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance "
        "rate: {}, Avg x\n"
    )
    lines = ((9, 15, "0.8, 0.6, 0.4"), (6, 10, "0.8, 0.4"), (0, 8, "0.0, 0.0"), (3, 3, "1.0"))
    text = "".join(line.format(*each) for each in lines)
    counters = vllm_figures.read_counters("x", text)
    assert counters.drafts == 17.0
    assert counters.accepted == pytest.approx((11.0, 5.0, 2.0))
    assert counters.draft_tokens == 36.0


def test_a_schedule_at_its_ends() -> None:
    """All drafts of the shorter length; one of the longer; nothing accepted; lengths that one can tell from
    none.
    """
    shorter = Counters(100, (80, 0, 0), 100)
    assert shorter.rates("x", lengths=(1, 3)) == {"positions": [0.8]}
    longer = Counters(101, (81, 1, 1), 103).rates("x", lengths=(1, 3))
    assert longer["positions"] == pytest.approx([81 / 101, 1.0, 1.0])
    nothing = Counters(100, (0, 0, 0), 200)
    assert nothing.rates("x", lengths=(1, 3)) == {"positions": [0.0, 0.0, 0.0]}
    before = Counters(4, (2,), 8, 10)
    assert Counters(9, (6, 4), 20, 50).since(before) == Counters(5, (4, 4), 12, 40)
    before = Counters(4, (2,), None, 10)
    assert Counters(9, (6,), 20).since(before) == Counters(5, (4,))
    like_one = Counters(100, (80, 60, 30), 295)
    assert like_one.rates("x", lengths=(1, 3)) == {"histogram": [20, 20, 30, 30]}
    short = Counters(100, (80, 60, 30), 200)
    assert short.draft_length_note((1, 2, 3)) == "only the 1 positions that every draft reaches"
    assert short.draft_length_note(()).startswith("drafts of 2.00 tokens on average")
    uncounted = Counters(100, (80, 60, 30))
    assert uncounted.draft_length_note((1, 3)) == ""
    for lengths in ((1, 4), (3, 3), (1, 1)):
        refused("--lengths: must hold the draft lengths in use", short.rates, "x", lengths=lengths)


@pytest.mark.parametrize(
    ("length", "rate", "gamma"), [(1.9, 0.3, 3), (1.36, 0.12, None), (1.32, 0.11, None), (1.24, 0.08, None)]
)
def test_lines_of_sglang_show_the_draft_length_if_their_decimals_do(
    length: float, rate: float, gamma: int | None
) -> None:
    """(1.36 - 1) / 0.12 is 3, and 1.36 / 0.12 with the bonus token is 11 within the rounding of 0.12."""
    line = f"Decode batch, #running-req: 4, #token: 16000, accept len: {length}, accept rate: {rate}"
    assert draft_length(line) == gamma


@pytest.mark.parametrize("accepted", [(3.0, 2.0), (60.0, -1.0)])
def test_counters_of_a_server_that_began_anew_are_refused(accepted: tuple[float, ...]) -> None:
    before = Counters(drafts=50.0, accepted=(40.0, 20.0))
    after = Counters(accepted[0] + 5, accepted)
    refused("must not fall", after.since(before).check, "x")


def test_counters_of_several_engines_are_added() -> None:
    """40 and 60 drafts; a time may follow a value, which may have an exponent."""
    drafts = 'vllm:spec_decode_num_drafts_total{{engine="{}"}} {}\n'
    text = drafts.format(0, 40) + drafts.format(1, 60)
    text += page(0, 300, [80, 50]).partition("\n")[2]
    per = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    text += f'{per}{{position="1",engine="1"}} 10 1700000000\n{per}{{position="2"}} 3e1\n'
    counters = vllm_figures.read_counters("x", text)
    assert counters == Counters(100.0, (80.0, 60.0, 30.0), 300.0)


@pytest.mark.parametrize(
    ("length", "rate", "gamma", "possible"),
    [
        (8.41, 0.39, 19, True),  # 19 tokens, and 0.02 x 19 + 0.1 / 0.39 = 0.64 of rounding
        (8.65, 0.39, 19, True),  # 19.62 tokens
        (8.68, 0.39, 19, False),  # 19.69 tokens
        (2.28, 0.2, 6, True),  # 6.4 tokens, and 0.02 x 6 + 0.1 / 0.2 = 0.62
        (2.34, 0.2, 6, False),  # 6.7 tokens
        (33.0, 0.5, 64, True),
        (33.5, 0.5, 65, False),  # longer than any that is tried
    ],
)
def test_rounded_lines_of_sglang_agree_with_a_draft_length(
    length: float, rate: float, gamma: int, possible: bool
) -> None:
    line = f"Decode batch, #running-req: 4, #token: 16000, accept len: {length}, accept rate: {rate}"
    assert (gamma in possible_lengths(line)) is possible


def test_a_page_of_vllm_counts_at_most_4096_positions() -> None:
    longest = vllm_figures.read_counters("x", page(1, 4096, [1] * 4096))
    assert longest.accepted == (1.0,) * 4096
    too_many = page(1, 4097, [1] * 4097)
    refused("x: positions: must be at most 4096, given 4097", vllm_figures.read_counters, "x", too_many)


def test_lines_and_gauges_of_sglang_determine_the_draft_length_together() -> None:
    """2.44 tokens at 0.61 are 4 verified tokens: 3 drafts and the bonus token. Gauges of a page with four
    drafts contradict a line with three. Servers with different draft steps, or with none, state no length.
    """
    line = "Decode batch, #running-req: 4, #token: 16000, accept len: 2.44, accept rate: 0.61\n"
    gauges = "sglang:spec_accept_length 3.4\nsglang:spec_accept_rate 0.6\n"
    assert possible_lengths(line) == [3]
    assert possible_lengths(gauges) == [4]
    assert possible_lengths(line + gauges) == []
    assert draft_length(line) == 3
    steps = 'sglang:spec_num_steps{{rank="{}"}} {}\n'
    assert draft_length(steps.format(0, 3) + steps.format(1, 3)) == 3
    assert draft_length(steps.format(0, 3) + steps.format(1, 5)) is None
    assert draft_length(steps.format(0, 0) + line) == 3


def test_a_sum_with_an_unreported_total_does_not_report_it() -> None:
    known = Counters(10.0, (5.0,), draft_tokens=10.0)
    assert Counters.total([known, known]).draft_tokens == 20.0
    assert Counters.total([known, Counters(10.0, (5.0,))]).draft_tokens is None
