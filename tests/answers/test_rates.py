"""Rates as users write them, and batches that a smaller one beats."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.rates import parse_rates
from tests.validate.tiny import refused


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        (2, (2,)),
        ("0.5,4", (0.5, 4)),
        ("1..4", (1, 2, 3, 4)),
        ("0.5..2+0.5,9", (0.5, 1, 1.5, 2, 9)),
        ("1..8x2", (1, 2, 4, 8)),
        ("3..3", (3,)),
        ("1e-2..0.03+0.01", (0.01, 0.02, 0.03)),
    ],
)
def test_rates_are_numbers_and_ranges(given, rates) -> None:
    assert parse_rates(given, "--request-rate") == pytest.approx(rates)


@pytest.mark.parametrize("given", ["", "4..1", "0..3", "1..8x1", "1..3+0", "x", "1..", "nan", "1..3x2x2"])
def test_other_rates_are_refused(given) -> None:
    refused("--request-rate: must be a number, a range such as", parse_rates, given, "--request-rate")


def test_a_range_has_an_end() -> None:
    refused("must be at most 1000 rates", parse_rates, "1..20000", "--request-rate")


def test_a_batch_that_a_smaller_one_beats_says_so() -> None:
    """A captured graph of 16 sequences runs 9."""
    question = {"model": "ling-2.6-flash", "hardware": "h100", "context": 512, "gamma": 0, "tp": 2}
    eight, nine = (pm.whatif(**question, engine="trtllm", batch=batch) for batch in (8, 9))
    assert 8 / eight.ar_tpot_s > 9 / nine.ar_tpot_s
    (note,) = [each for each in nine.warnings if "a batch of" in each]
    assert note.startswith("a batch of 8 serves more without a draft than 9")
    assert not any("a batch of" in each for each in eight.warnings)


def test_a_server_with_more_seats_than_are_fastest_says_so() -> None:
    """A captured graph of 16 sequences runs 9."""
    lengths = {"input_len": 8, "output_len": 1000, "max_concurrency": 2000, "closed_form": True}
    server = {"model": "ling-2.6-flash", "hardware": "h100", "tp": 4, "engine": "trtllm", "gamma": 0}
    eight, nine = (pm.traffic(**server, **lengths, max_num_seqs=seats) for seats in (8, 9))
    assert eight.rows[0].output_tokens_per_s > nine.rows[0].output_tokens_per_s
    (note,) = [each for each in nine.warnings if "a batch of" in each]
    assert note.startswith("a batch of 8 serves more without a draft than 9")
    assert not any("a batch of" in each for each in eight.warnings)
    few = pm.traffic(**server, **lengths | {"max_concurrency": 4}, max_num_seqs=9)
    assert not any("a batch of" in each for each in few.warnings)


@pytest.mark.parametrize(("gamma", "count"), [(0, 0), ("auto", 0), ("table", 1), ("table,tail", 2)])
def test_a_policy_whose_times_may_fall_as_the_load_rises_says_so(gamma: str | int, count: int) -> None:
    answer = pm.traffic(
        "qwen3-8b", "h100", input_len=500, output_len=100, request_rate=2, alpha=0.6, gamma=gamma
    )
    notes = [each for each in answer.warnings if "may be shorter at a higher load" in each]
    assert len(notes) == count
